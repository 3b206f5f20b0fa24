#include "sync/gossip_base.h"

#include <cmath>
#include <utility>

#include "compress/message.h"
#include "keys/key.h"
#include "ops/select.h"
#include "sync/planned_bytes.h"

namespace syncopate {
namespace {

std::span<const uint32_t> as_words(std::span<const float> values) {
  return {reinterpret_cast<const uint32_t*>(values.data()), values.size()};
}
std::span<uint32_t> as_words(std::span<float> values) {
  return {reinterpret_cast<uint32_t*>(values.data()), values.size()};
}

}  // namespace

void add_terms(Context& context,
               std::span<float> y,
               float own,
               std::span<const Term> terms) {
  const Term first{own, y};
  switch (terms.size()) {
    case 0:
      return combine(context, y, {first});
    case 1:
      return combine(context, y, {first, terms[0]});
    case 2:
      return combine(context, y, {first, terms[0], terms[1]});
    default:
      combine(context, y, {first, terms[0], terms[1], terms[2]});
  }
  if (terms.size() > 3) add_terms(context, y, 1, terms.subspan(3));
}

GossipBase::GossipBase(const SchemeParts& parts)
    : SchemeBase(parts, lockstep(parts, kLoosePeriod), {}) {
  MixingRow row = make_topology(parts.sync.topology, size()).row(rank());
  neighbours_ = std::move(row.neighbours);
  for (const Neighbour& neighbour : neighbours_)
    neighbour_ranks_.push_back(neighbour.rank);
  receivers_ = std::move(row.receivers);
}

// Weights of less than `factor` together have at most 24 bits in this unit.
GossipBase::Drawn GossipBase::drawn(double factor) const {
  const double unit = std::exp2(std::ceil(std::log2(factor)) - 24);
  Drawn result{};
  double sum = 0;
  for (const Neighbour& neighbour : neighbours_) {
    const double rounded =
        unit * std::nearbyint(factor * neighbour.weight / unit);
    result.neighbours.push_back(static_cast<float>(rounded));
    sum += rounded;
  }
  result.own = static_cast<float>(-sum);
  return result;
}

CompressedGossip::CompressedGossip(const SchemeParts& parts)
    : GossipBase(parts),
      compressor_(make_compressor(parts.context,
                                  parts.sync.compress,
                                  parts.model.parameters())),
      message_(make_range(compressor_->message_words())),
      exchange_(parts, message_, degree(), Wire::kF32) {
  keep(Owner::kWorker, "round", round_);
  keep([this](StateVisitor& visitor) { exchange_.visit_state(visitor); });
}

void CompressedGossip::send(std::span<const float> x) {
  ++round_;
  UpdateTime* const time = parts_.update_time;
  if (time != nullptr && !time->is_spent) time->spend();
  compressor_->encode(context(), as_words(message_.span()), x,
                      {.seed = parts_.seed,
                       .worker = static_cast<uint64_t>(rank()),
                       .step = static_cast<uint64_t>(round_)});
  exchange_.start(receivers_, neighbour_ranks_);
}

void CompressedGossip::receive() {
  const bool is_new = exchange_.is_under_way();
  times_.add(exchange_.finish());
  if (is_new) take_in();
}

void CompressedGossip::quiesce() {
  SchemeBase::quiesce();
  if (!exchange_.is_under_way()) {
    times_.add(exchange_.quiesce());
    return;
  }
  exchange_.drain();
  take_in();
}

CompressedGossip::Q CompressedGossip::own() const {
  return as_words(exchange_.sent());
}

CompressedGossip::Q CompressedGossip::from(int j) const {
  return as_words(exchange_.incoming(j));
}

void CompressedGossip::blend(std::span<float> y, Q q, double a, double b) {
  compressor_->blend(context(), y, q, static_cast<float>(a),
                     static_cast<float>(b));
}

void CompressedGossip::decode(std::span<float> y, Q q, double b) {
  compressor_->decode(context(), y, q, static_cast<float>(b));
}

std::span<float> CompressedGossip::keep_copy_of(int j) {
  return keep_range(Owner::kWorker,
                    fmt::format("xhat_of_{}", neighbour_ranks_[j]));
}

void check_topology(const SchemeRequest& request) {
  try {
    make_topology(request.sync.topology, request.workers);
  } catch (const Error& error) {
    // "topology torus: ...", as `list topologies` prints it.
    const std::string what = error.what(), word = "topology ";
    if (!what.starts_with(word)) throw;
    fail(ExitCode::kBadInput, "topology.kind: {}", what.substr(word.size()));
  }
}

void check_compression(const SchemeRequest& request) {
  if (request.sync.wire != Wire::kF32)
    fail(ExitCode::kBadInput,
         "sync.wire: {} with a compressor, whose messages have a format of "
         "their own, expected fp32",
         request.sync.wire);
  message_bytes(request.sync.compress, request.parameters);
  check_topology(request);
}

// Unbiased random_k has an error of (d / k - 1) |x|^2: a contraction if more
// than half of each tensor is kept. Unbiased qsgd with few levels is not one
// either, but the published experiments run it with a small gamma.
void check_contraction(const SchemeRequest& request, const char* scheme) {
  check_compression(request);
  const CompressOptions& compress = request.sync.compress;
  if (compress.kind != "random_k" || compress.biased) return;
  for (const ParameterEntry& entry : request.parameters.entries())
    if (2 * kept_of(entry.elems(), compress.ratio) <= entry.elems())
      fail(ExitCode::kBadInput,
           "compress.biased: no, but {} diverges with unbiased random_k that "
           "drops half of a tensor or more, here {} of the {} elements of {}; "
           "expected yes, or a compress.ratio that keeps more",
           scheme, entry.elems() - kept_of(entry.elems(), compress.ratio),
           entry.elems(), entry.name);
}

Keys choco_keys() {
  return within(
      &SyncOptions::choco,
      {
          {.name = "choco.gamma",
           .place = &ChocoOptions::gamma,
           .doc = "Consensus step size (choco and deep_squeeze). It depends "
                  "on the compressor and on the size of tensors, as "
                  "postprocess/tune_gamma.py finds; if it is too "
                  "large, workers drift apart. If this key is not given, "
                  "sync.scheme = deep_squeeze uses 0.2.",
           .low = 0,
           .high = 1,
           .is_low_open = true},
      });
}

std::optional<double> compressed_gossip_bytes(const TrafficPlan& plan) {
  return plan.neighbours() * plan.message();
}

}  // namespace syncopate
