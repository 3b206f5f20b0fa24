#include "sync/dgc.h"

#include <algorithm>
#include <cmath>

#include "ops/elementwise.h"
#include "ops/reduce.h"

namespace syncopate {

Dgc::Dgc(const SchemeParts& parts)
    : SchemeBase(parts,
                 lockstep(parts, 1),
                 {.parameters = Owner::kShared,
                  .buffers = Owner::kWorker,
                  .optimizer = Owner::kWorker}),
      options_(parts.sync.dgc),
      residual_(context().device(),
                context().stream(),
                parts.replica.parameters.size()),
      clip_factor_(context().device(), context().stream(), 1) {
  std::vector<double> ratios = options_.warmup_ratios;
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
  const auto epoch =
      static_cast<int64_t>(static_cast<double>(step) / parts_.steps_per_epoch);
  return *compressors_[std::min(epoch, std::ssize(compressors_) - 1)];
}

const float* Dgc::local_clip() {
  if (options_.clip <= 0) return clip(1);
  clip_factor(context(), clip_factor_.data(), replica().gradients, 1,
              options_.clip / std::sqrt(size()));
  return clip_factor_.data();
}

void Dgc::update(const Plan& plan) {
  const Replica& mine = replica();
  const int64_t step = plan.worker_steps / size();
  Compressor& compressor = compressor_at(step);
  mine.optimizer->direction(context(), 0, mine.gradients, mine.parameters,
                            mine.gradients,
                            {.rate = plan.rate,
                             .momentum = plan.momentum,
                             .grad_scale = 1,
                             .clip_factor = local_clip()});
  const std::span<uint32_t> message = gather_->own(compressor.message_words());
  axpy(context(), residual_, 1, mine.gradients);
  compressor.encode(context(), message, residual_,
                    {parts_.seed, static_cast<uint64_t>(rank()),
                     static_cast<uint64_t>(step)});
  compressor.blend(context(), residual_, message, 1, -1);
  if (options_.mask_momentum)
    for (const std::span<float> state : mine.optimizer->state())
      compressor.blend(context(), state, message, 0, 0);
  times_.add(gather_->exchange(compressor.message_words()));
  gather_->sum(compressor, mine.gradients);
  axpy(context(), mine.parameters, static_cast<float>(-plan.rate / size()),
       mine.gradients);
}

void Dgc::visit_state(StateVisitor& visitor) {
  SchemeBase::visit_state(visitor);
  visitor.visit_device_range(Owner::kWorker, "residual",
                             parts_.model.parameters(), residual_);
}

std::unique_ptr<Scheme> make_dgc(const SchemeParts& parts) {
  return std::make_unique<Dgc>(parts);
}

std::string dgc_obstacle(const SchemeRequest& request) {
  const CompressOptions& compress = request.sync.compress;
  const DgcOptions& dgc = request.sync.dgc;
  if (compress.kind != "top_k" && compress.kind != "random_k")
    return "compress.kind: " + compress.kind +
           " sends all coordinates, expected top_k or random_k with dgc";
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
  if (dgc.mask_momentum && request.optimizer.kind != "sgd")
    return "dgc.mask_momentum: yes, but " + request.optimizer.kind +
           " has state that is no momentum, expected no or optimizer.kind = "
           "sgd";
  if (request.sync.wire != "fp32")
    return "sync.wire: " + request.sync.wire +
           " has no meaning for chosen coordinates, expected fp32 with dgc";
  try {
    message_bytes(compress, request.parameters);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace syncopate
