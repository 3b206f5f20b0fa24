#include "sync/parameter_shard.h"

#include <algorithm>
#include <utility>

#include "comm/tags.h"
#include "ops/combine.h"

namespace syncopate {

ParameterShard::ParameterShard(const SchemeParts& parts,
                               const Slice& parameters,
                               const Slice& statistics,
                               int64_t bound)
    : offset_(parameters.offset),
      elems_(parameters.elems),
      bound_(bound),
      wire_(parts.sync.wire),
      compensation_(parts.sync.asp.compensation),
      lambda_(static_cast<float>(parts.sync.asp.lambda)),
      device_(parts.context.device().kind() == DeviceKind::kNone
                  ? make_none_device()
                  : make_cpu_device()),
      stream_(device_->make_stream()),
      context_(*device_, *stream_, 1),
      optimizer_(make_optimizer(context_,
                                parts.optimizer,
                                parts.model.parameters(),
                                offset_,
                                elems_)),
      x_(make_values(elems_)),
      statistics_(make_values(statistics.elems)),
      lanes_(parts.endpoint.size()) {
  if (wire_ == Wire::kBf16) gradient_ = make_values(elems_);
  if (compensation_ == Compensation::kPerKey) previous_ = make_values(elems_);
  for (Lane& lane : lanes_) {
    lane.travels = Buffer(*device_, wire_bytes(wire_, elems_));
    if (compensation_ == Compensation::kPerWorker)
      lane.backup = make_values(elems_);
    lane.statistics = make_values(statistics.elems);
    lane.pulled_statistics = make_values(statistics.elems);
  }
}

void ParameterShard::copy(std::span<float> to, std::span<const float> from) {
  CHECK(to.size() == from.size());
  device_->copy(to.data(), from.data(), static_cast<int64_t>(to.size_bytes()),
                *stream_);
}

void ParameterShard::visit_state(StateVisitor& visitor) {
  visitor.visit(Owner::kWorker, "updates", std::span(&num_updates_, 1));
  optimizer_->visit_state(visitor, Owner::kWorker);
  if (!previous_.empty())
    visitor.visit(Owner::kWorker, "previous", previous_.span());
}

void ParameterShard::enter(std::span<const float> parameters) {
  if (!previous_.empty()) copy(previous_, parameters);
}

void ParameterShard::begin(Endpoint& endpoint,
                           const Segment& segment,
                           std::span<const float> parameters,
                           std::span<const float> statistics) {
  CHECK(services_.empty());
  copy(x_, parameters);
  copy(statistics_, statistics);
  for (Lane& lane : lanes_) {
    lane.state = Lane::State::kComputes;
    lane.clock = 0;
    lane.num_updates = num_updates_;
    if (!lane.backup.empty()) copy(lane.backup, x_);
    copy(lane.pulled_statistics, statistics_);
  }
  for (int rank = 0; rank < endpoint.size(); ++rank)
    services_.push_back(
        start_service(endpoint, segment, "parameter shard",
                      [this, rank](Endpoint& own) { serve(own, rank); }));
}

void ParameterShard::end(Endpoint& endpoint) {
  for (const Task& service : services_) endpoint.join(service);
  services_.clear();
}

void ParameterShard::serve(Endpoint& endpoint, int rank) {
  Lane& lane = lanes_[rank];
  for (;;) {
    endpoint.wait(
        endpoint.irecv({&lane.push, sizeof lane.push}, rank, tags::kServer));
    for (Request& send : lane.sends)
      if (send) endpoint.wait(std::exchange(send, nullptr));
    if (lane.push.is_at_boundary != 0) break;
    endpoint.wait(endpoint.irecv({lane.travels.data(), lane.travels.bytes()},
                                 rank, tags::kServer + 1));
    if (!statistics_.empty())
      endpoint.wait(endpoint.irecv(bytes_span(lane.statistics.span()), rank,
                                   tags::kServer + 2));
    lane.state = Lane::State::kPushed;
    apply_and_answer(endpoint);
  }
  lane.state = Lane::State::kAtBoundary;
  apply_and_answer(endpoint);
}

void ParameterShard::apply_and_answer(Endpoint& endpoint) {
  const int workers = static_cast<int>(lanes_.size());
  for (bool has_moved = true; has_moved;) {
    // A pull must not include an update made after it was allowed.
    for (int rank = 0; rank < workers; ++rank)
      if (lanes_[rank].state == Lane::State::kPulls && may_pull(lanes_[rank]))
        answer(endpoint, rank);
    has_moved = false;
    for (int rank = 0; rank < workers && !has_moved; ++rank) {
      if (lanes_[rank].state != Lane::State::kPushed || !may_apply(rank))
        continue;
      apply(rank, endpoint.now());
      has_moved = true;
    }
  }
}

bool ParameterShard::may_apply(int rank) const {
  return replay_ == nullptr || replay_->at(num_updates_) == rank;
}

bool ParameterShard::may_pull(const Lane& lane) const {
  if (bound_ < 0) return true;
  return std::all_of(lanes_.begin(), lanes_.end(), [&](const Lane& other) {
    return other.state == Lane::State::kAtBoundary ||
           other.clock >= lane.clock - bound_;
  });
}

void ParameterShard::apply(int rank, Time now) {
  Lane& lane = lanes_[rank];
  std::span<float> g = gradient_;
  if (wire_ == Wire::kBf16)
    unpack_bf16(g.data(), lane.travels.as<uint16_t>(), elems_);
  else
    g = {lane.travels.as<float>(), static_cast<size_t>(elems_)};
  if (compensation_ == Compensation::kPerWorker)
    compensate(context_, g, x_, lane.backup, lambda_);
  if (compensation_ == Compensation::kPerKey) {
    compensate(context_, g, x_, previous_, lambda_);
    copy(previous_, x_);
  }
  optimizer_->apply(context_, offset_, x_, g,
                    {.rate = lane.push.rate, .momentum = lane.push.momentum});
  add_statistics(lane);
  lane.pull.staleness = num_updates_ - lane.num_updates;
  lane.applied_at = now;
  ++lane.clock;
  ++num_updates_;
  if (record_ != nullptr) record_->push_back(rank);
  lane.state = Lane::State::kPulls;
}

// s <- u + (s - p)
void ParameterShard::add_statistics(const Lane& lane) {
  float* const s = statistics_.data();
  if (!has_values(s)) return;
  const float* const u = lane.statistics.data();
  const float* const p = lane.pulled_statistics.data();
  for (int64_t i = 0; i < statistics_.size(); ++i) s[i] = u[i] + (s[i] - p[i]);
}

void ParameterShard::answer(Endpoint& endpoint, int rank) {
  Lane& lane = lanes_[rank];
  if (wire_ == Wire::kBf16)
    pack_bf16(lane.travels.as<uint16_t>(), x_.data(), elems_);
  else
    copy({lane.travels.as<float>(), static_cast<size_t>(elems_)}, x_);
  if (!lane.backup.empty()) {
    copy(lane.backup, x_);
    if (wire_ == Wire::kBf16) round_to_bf16(lane.backup.data(), elems_);
  }
  copy(lane.statistics, statistics_);
  copy(lane.pulled_statistics, statistics_);
  lane.pull.held_s = endpoint.now() - lane.applied_at;
  lane.num_updates = num_updates_;
  lane.state = Lane::State::kComputes;
  lane.sends[0] = endpoint.isend({&lane.pull, sizeof lane.pull}, rank,
                                 tags::kServerAnswer, Traffic::kControl);
  lane.sends[1] =
      endpoint.isend({lane.travels.data(), lane.travels.bytes()}, rank,
                     tags::kServerAnswer + 1, Traffic::kPayload);
  if (!statistics_.empty())
    lane.sends[2] = endpoint.isend(
        bytes_view(std::span<const float>(lane.statistics.span())), rank,
        tags::kServerAnswer + 2, Traffic::kPayload);
}

}  // namespace syncopate
