#include "sync/dgc.h"

#include <algorithm>
#include <cmath>

#include "keys/key.h"
#include "ops/elementwise.h"
#include "ops/reduce.h"
#include "sync/planned_bytes.h"

namespace syncopate {

namespace {

bool is_sparse(const CompressOptions& options) {
  return options.kind == "top_k" || options.kind == "random_k";
}

}  // namespace

Dgc::Dgc(const SchemeParts& parts)
    : SchemeBase(parts,
                 lockstep(parts, 1),
                 {.parameters = Owner::kShared,
                  .buffers = Owner::kWorker,
                  .optimizer = Owner::kWorker}),
      options_(parts.sync.dgc),
      clip_factor_(context().device(), context().stream(), 1) {
  // AdamW's decay is not part of the gradient.
  if (parts.optimizer.kind != "adamw")
    decay_ = decay_runs(parts.optimizer, parts.model.parameters(), false);
  std::vector<double> ratios;
  if (is_sparse(parts.sync.compress)) {
    ratios = options_.warmup_ratios;
    residual_ = {context().device(), context().stream(),
                 parts.replica.parameters.size()};
  }
  ratios.push_back(parts.sync.compress.ratio);
  int64_t max_words = 0;
  CompressOptions compress = parts.sync.compress;
  for (const double ratio : ratios) {
    compress.ratio = ratio;
    compressors_.push_back(
        make_compressor(context(), compress, parts.model.parameters()));
    max_words = std::max(max_words, compressors_.back()->message_words());
  }
  gather_ = std::make_unique<CompressedGather>(parts, max_words);
}

Compressor& Dgc::compressor_at(int64_t step) {
  const int64_t last = std::ssize(compressors_) - 1;
  double share_steps = parts_.steps_per_epoch;  // per ratio
  if (options_.warmup.value > 0)
    share_steps = options_.warmup.steps(parts_.steps_per_epoch) /
                  static_cast<double>(last);
  // A share may end within a step: the next one starts with the next whole
  // step.
  constexpr double kRounding = 1e-9;
  const double shares = static_cast<double>(step) / share_steps + kRounding;
  return *compressors_[shares < static_cast<double>(last)
                           ? static_cast<int64_t>(shares)
                           : last];
}

void Dgc::clip_tensors() {
  const Replica& mine = replica();
  for (const DecayRun& run : decay_)
    if (run.weight_decay != 0)
      axpy(context(),
           mine.gradients.span().subspan(run.begin, run.end - run.begin),
           run.weight_decay,
           mine.parameters.span().subspan(run.begin, run.end - run.begin));
  for (const ParameterEntry& entry : parts_.model.parameters().entries()) {
    const std::span<float> tensor =
        mine.gradients.span().subspan(entry.offset, entry.elems());
    clip_factor(context(), clip_factor_.data(), tensor, 1,
                options_.clip / std::sqrt(size()));
    scale_by(context(), tensor, clip_factor_.data());
  }
}

void Dgc::update(const StepPlan& plan) {
  const Replica& mine = replica();
  const int64_t step = plan.worker_steps / size();
  Compressor& compressor = compressor_at(step);
  const bool clips_tensors = options_.clip > 0;
  if (clips_tensors) clip_tensors();
  mine.optimizer->direction(context(), 0, mine.gradients, mine.parameters,
                            mine.gradients,
                            {.rate = plan.rate,
                             .momentum = plan.momentum,
                             .grad_scale = 1,
                             .clip_factor = clips_tensors ? nullptr : clip(1),
                             .is_decayed = clips_tensors});
  const std::span<uint32_t> message = gather_->own(compressor.message_words());
  std::span<float> p = mine.gradients;
  if (!residual_.empty()) {
    axpy(context(), residual_, 1, mine.gradients);
    p = residual_;
  }
  compressor.encode(context(), message, p,
                    {parts_.seed, static_cast<uint64_t>(rank()),
                     static_cast<uint64_t>(step)});
  if (!residual_.empty()) {
    compressor.blend(context(), residual_, message, 1, -1);
    if (options_.mask_momentum)
      for (const std::span<float> state : mine.optimizer->state())
        compressor.blend(context(), state, message, 0, 0);
  }
  times_.add(gather_->exchange(compressor.message_words()));
  gather_->sum(compressor, mine.gradients);
  axpy(context(), mine.parameters, static_cast<float>(-plan.rate / size()),
       mine.gradients);
}

void Dgc::visit_state(StateVisitor& visitor) {
  SchemeBase::visit_state(visitor);
  if (!residual_.empty())
    visitor.visit_device_range(Owner::kWorker, "residual",
                               parts_.model.parameters(), residual_);
}

std::unique_ptr<Scheme> make_dgc(const SchemeParts& parts) {
  return std::make_unique<Dgc>(parts);
}

std::string dgc_obstacle(const SchemeRequest& request) {
  const CompressOptions& compress = request.sync.compress;
  const DgcOptions& dgc = request.sync.dgc;
  if (!is_sparse(compress) && compress.kind != "qsgd")
    return "compress.kind: " + compress.kind +
           ", expected top_k, random_k or qsgd with dgc";
  if (compress.kind == "random_k" && !compress.biased)
    return "compress.biased: no, but values that are scaled up are no "
           "contraction, which error feedback needs, expected yes with dgc";
  for (const double ratio : dgc.warmup_ratios)
    if (!(ratio >= 0 && ratio < 1))
      return fmt::format(
          "dgc.warmup_ratios: {}, expected shares that are dropped, at least 0 "
          "and below 1",
          ratio);
  if (dgc.clip > 0 && request.optimizer.clip_norm > 0)
    return "dgc.clip: beside optimizer.clip_norm, expected one of them";
  if (dgc.clip > 0 && request.optimizer.kind == "adam" &&
      request.optimizer.embedding == RowUpdates::kLazy)
    return "dgc.clip: adds weight decay to rows that no sample touched, "
           "expected 0 or optimizer.embedding = dense";
  if (is_sparse(compress) && dgc.mask_momentum &&
      request.optimizer.kind != "sgd")
    return "dgc.mask_momentum: yes, but " + request.optimizer.kind +
           " has state that is no momentum, expected no or optimizer.kind = "
           "sgd";
  if (request.sync.wire != Wire::kF32)
    return "sync.wire: bf16 has no meaning for chosen coordinates, expected "
           "fp32 "
           "with dgc";
  try {
    message_bytes(compress, request.parameters);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

Keys dgc_keys() {
  const std::vector<UsedWhen> sparse = {
      {"compress.kind", {"top_k", "random_k"}}};
  return within(
      &SyncOptions::dgc,
      {
          {.name = "dgc.warmup_ratios",
           .place = &DgcOptions::warmup_ratios,
           .doc = "compress.ratio at first, one after the other.",
           .low = 0,
           .high = 1,
           .is_high_open = true,
           .zero_word = "none",
           .used_when = sparse},
          {.name = "dgc.warmup",
           .place = &DgcOptions::warmup,
           .doc = "Length in which all of dgc.warmup_ratios are gone through, "
                  "each for as long as the others; 0: an epoch each.",
           .low = 0,
           .used_when = {sparse[0], {"dgc.warmup_ratios", {}}}},
          {.name = "dgc.mask_momentum",
           .place = &DgcOptions::mask_momentum,
           .doc = "Whether the momentum of sent elements is set to zero.",
           .used_when = sparse},
          {.name = "dgc.clip",
           .place = &DgcOptions::clip,
           .doc =
               "Each tensor of a worker's gradient, weight decay included, is "
               "clipped to this norm divided by sqrt(workers); 0: no "
               "clipping.",
           .low = 0},
      });
}

std::optional<double> dgc_bytes(const TrafficPlan& plan) {
  return (plan.N - 1) * plan.message();
}

}  // namespace syncopate
