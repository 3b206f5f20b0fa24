// Deep gradient compression (Lin et al. 2018), in ChocoSGD's order:
//
//   g_i <- g_i + decay * x
//   each tensor of g_i clipped to a norm of dgc.clip / sqrt(N)
//   d_i = direction of the local optimizer     (momentum)
//   p_i = d_i + e_i
//   q_i = p_i at some coordinates of each tensor, the largest or random ones
//   e_i <- p_i - q_i                           zero where sent; 0 at first
//   m_i <- 0 at these coordinates              with dgc.mask_momentum
//   x   <- x - eta / N * sum_i q_i             in the order of ranks
//
// The fraction dropped grows along dgc.warmup_ratios to compress.ratio, one
// epoch per ratio or all of them within dgc.warmup. With compress.kind = qsgd
// all coordinates are sent, q_i = Q(d_i), and as published there is no memory
// e. Parameters stay bitwise equal on all workers; momentum and BatchNorm's
// running statistics are local.
#include <algorithm>
#include <cmath>

#include "keys/key.h"
#include "ops/elementwise.h"
#include "ops/reduce.h"
#include "optim/decay_runs.h"
#include "sync/compressed_gather.h"
#include "sync/kinds.h"
#include "sync/planned_bytes.h"
#include "sync/scheme_base.h"

namespace syncopate {
namespace {

bool is_sparse(const CompressOptions& options) {
  return options.kind == "top_k" || options.kind == "random_k";
}

// How many steps each of dgc.warmup_ratios lasts.
double steps_per_ratio(const DgcOptions& options, double steps_per_epoch) {
  if (options.warmup.value == 0) return steps_per_epoch;
  return options.warmup.steps(steps_per_epoch) /
         static_cast<double>(options.warmup_ratios.size());
}

class Dgc final : public SchemeBase {
 public:
  explicit Dgc(const SchemeParts& parts)
      : SchemeBase(parts, lockstep(parts, 1), {.parameters = Owner::kShared}),
        options_(parts.sync.dgc),
        clip_factor_(make_range(1)) {
    // AdamW's decay is not part of the gradient.
    if (parts.optimizer.kind != "adamw")
      decay_ = decay_runs(parts.optimizer, parts.model.parameters(), false);
    std::vector<double> ratios;
    if (is_sparse(parts.sync.compress)) {
      ratios = options_.warmup_ratios;
      residual_ = keep_range(Owner::kWorker, "residual");
      unsent_ = residual_;
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

  void update(const StepPlan& plan) override {
    const int64_t step = plan.worker_steps / size();
    Compressor& compressor =
        compressor_at((plan.worker_steps - parts_.began_at) / size());
    const bool clips_tensors = options_.clip > 0;
    if (clips_tensors) clip_tensors();
    const std::span<float> d =
        direction(clips_tensors ? ApplyParams{.rate = plan.rate,
                                              .momentum = plan.momentum,
                                              .is_decayed = true}
                                : own_params_of(plan));
    times_.add(gather_->sum(compressor, d, residual_,
                            {parts_.seed, static_cast<uint64_t>(rank()),
                             static_cast<uint64_t>(step)}));
    if (!residual_.empty() && options_.mask_momentum)
      for (const std::span<float> state : replica().optimizer->state())
        compressor.blend(context(), state, gather_->own(compressor), 0, 0);
    axpy(context(), replica().parameters.write(),
         static_cast<float>(-plan.rate / size()), d);
  }

  void quiesce() override {
    SchemeBase::quiesce();
    times_.add(gather_->quiesce());
  }

 private:
  Compressor& compressor_at(int64_t step) {
    const int64_t last = std::ssize(compressors_) - 1;
    const double share_steps =
        steps_per_ratio(options_, parts_.steps_per_epoch);
    // A share may end within a step: the next one starts with the next whole
    // step.
    constexpr double kRounding = 1e-9;
    const double shares = static_cast<double>(step) / share_steps + kRounding;
    return *compressors_[shares < static_cast<double>(last)
                             ? static_cast<int64_t>(shares)
                             : last];
  }

  // Adds weight decay to the gradient and clips each tensor.
  void clip_tensors() {
    Replica& mine = replica();
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
                  parts_.batch_weight() * options_.clip / std::sqrt(size()));
      scale_by(context(), tensor, clip_factor_.data());
    }
  }

  DgcOptions options_;
  // In the order of the warm-up, followed by the final one.
  std::vector<std::unique_ptr<Compressor>> compressors_;
  std::unique_ptr<CompressedGather> gather_;
  std::span<float> residual_;        // e; empty: no memory
  std::vector<DecayRun> decay_;      // applied before clipping
  DeviceVector<float> clip_factor_;  // for one tensor
};

void check_dgc(const SchemeRequest& request) {
  const CompressOptions& compress = request.sync.compress;
  const DgcOptions& dgc = request.sync.dgc;
  if (!is_sparse(compress) && compress.kind != "qsgd")
    fail(ExitCode::kBadInput,
         "compress.kind: {}, expected top_k, random_k or qsgd with dgc (the "
         "common default is sign)",
         compress.kind);
  if (compress.kind == "random_k" && !compress.biased)
    fail(ExitCode::kBadInput,
         "compress.biased: no, but error feedback needs a contraction, and "
         "random_k that is scaled up is not one, expected yes with dgc");
  for (const double ratio : dgc.warmup_ratios)
    if (!(ratio >= 0 && ratio < 1))
      fail(ExitCode::kBadInput,
           "dgc.warmup_ratios: {}, expected shares that are dropped, at least "
           "0 and below 1",
           ratio);
  if (dgc.clip > 0 && request.optimizer.clip_norm > 0)
    fail(ExitCode::kBadInput,
         "dgc.clip: given together with optimizer.clip_norm, expected one of "
         "them");
  if (dgc.clip > 0 && request.optimizer.kind == "adam" &&
      request.optimizer.embedding == RowUpdates::kLazy)
    fail(ExitCode::kBadInput,
         "dgc.clip: adds weight decay to rows that no sample touched, "
         "expected 0 or optimizer.embedding = dense");
  if (is_sparse(compress) && dgc.mask_momentum &&
      request.optimizer.kind != "sgd")
    fail(ExitCode::kBadInput,
         "dgc.mask_momentum: yes, but {} has state that is no momentum, "
         "expected no or optimizer.kind = sgd",
         request.optimizer.kind);
  refuse_bf16(request, "dgc", "has no meaning for chosen coordinates");
  message_bytes(compress, request.parameters);
}

std::string note_on_warmup(const SchemeRequest& request) {
  const DgcOptions& dgc = request.sync.dgc;
  const double warmup = steps_per_ratio(dgc, request.steps_per_epoch) *
                        static_cast<double>(dgc.warmup_ratios.size());
  if (dgc.warmup_ratios.empty() ||
      warmup < static_cast<double>(request.total_steps) - 1e-9)
    return "";
  return fmt::format(
      "dgc: its warm-up of {:.6g} steps is not over before the end of this run "
      "({} steps): compress.ratio is not reached",
      warmup, request.total_steps);
}

Keys dgc_keys() {
  const std::vector<UsedWhen> sparse = {
      {"compress.kind", {"top_k", "random_k"}}};
  return within(
      &SyncOptions::dgc,
      {
          {.name = "dgc.warmup_ratios",
           .place = &DgcOptions::warmup_ratios,
           .doc = "Values of compress.ratio during the warm-up, in this "
                  "order.",
           .low = 0,
           .high = 1,
           .is_high_open = true,
           .zero_word = "none",
           .used_when = sparse},
          {.name = "dgc.warmup",
           .place = &DgcOptions::warmup,
           .doc = "Length of the warm-up from the start of the scheme or its "
                  "phase, divided equally among dgc.warmup_ratios; 0: one "
                  "epoch for each.",
           .low = 0,
           .used_when = {sparse[0], {"dgc.warmup_ratios", {}}}},
          {.name = "dgc.mask_momentum",
           .place = &DgcOptions::mask_momentum,
           .doc = "Whether the momentum of sent elements is set to zero.",
           .used_when = sparse},
          {.name = "dgc.clip",
           .place = &DgcOptions::clip,
           .doc = "Norm to which each tensor of a worker's gradient, "
                  "including weight decay, is clipped, divided by "
                  "sqrt(workers); 0: no clipping.",
           .low = 0},
      });
}

std::optional<double> dgc_bytes(const TrafficPlan& plan) {
  if (!plan.request.sync.dgc.warmup_ratios.empty()) return std::nullopt;
  return (plan.N - 1) * plan.message();
}

}  // namespace

SchemeInfo dgc_scheme() {
  return {.keyword = "dgc",
          .description =
              "deep gradient compression: some coordinates averaged, "
              "with error feedback",
          .make = &make<Dgc>,
          .check = &check_dgc,
          .note = &note_on_warmup,
          .keys = &dgc_keys,
          .defaults = {{"compress.kind", "top_k"}},
          .planned_bytes = &dgc_bytes,
          .uses_compressor = true,
          .uses_collectives = true,
          .keeps_replicas_equal = true,
          .sends_to_all = true,
          .averages_gradients = true};
}

}  // namespace syncopate
