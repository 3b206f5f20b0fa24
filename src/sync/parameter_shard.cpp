#include "sync/parameter_shard.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "comm/tags.h"
#include "ops/combine.h"
#include "ops/norm.h"
#include "tensor/visit_numbers.h"

namespace syncopate {

ParameterShard::ParameterShard(const SchemeParts& parts,
                               const Slice& parameters,
                               const Slice& statistics,
                               int64_t bound,
                               double apply_s)
    : index_(parts.endpoint.rank()),
      offset_(parameters.offset),
      elems_(parameters.elems),
      bound_(bound),
      wire_(parts.sync.wire),
      compensation_(parts.sync.asp.compensation),
      has_requests_(parts.sync.asp.pull == Pulling::kBeforeStep),
      apply_s_(apply_s),
      lambda_(static_cast<float>(parts.sync.asp.lambda)),
      statistics_kept_(
          parts.sync.asp.batchnorm == ServerStatistics::kShared
              ? 1
              : std::pow(1 - kBatchNormMomentum,
                         static_cast<float>(parts.batches_per_step))),
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
  const bool has_backups = compensation_ == Compensation::kPerWorker;
  if (has_backups || statistics.elems > 0) kept_.resize(lanes_.size());
  for (Kept& kept : kept_) {
    kept.pulled_statistics = make_values(statistics.elems);
    if (has_backups) kept.backup = make_values(elems_);
  }
}

void ParameterShard::copy(std::span<float> to, std::span<const float> from) {
  CHECK(to.size() == from.size());
  device_->copy(to.data(), from.data(), static_cast<int64_t>(to.size_bytes()),
                *stream_);
}

int64_t ParameterShard::bytes() const {
  return device_->total_bytes() - device_->free_bytes() +
         std::ssize(lanes_) * wire_bytes(wire_, elems_);
}

void ParameterShard::visit_state(StateVisitor& visitor) {
  visit_number(visitor, Owner::kWorker, "updates", num_updates_);
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
                           std::span<const float> statistics,
                           std::span<const int64_t> pushes,
                           bool pulls_first) {
  CHECK(!service_);
  copy(x_, parameters);
  copy(statistics_, statistics);
  clocks_.clear();
  for (size_t rank = 0; rank < lanes_.size(); ++rank) {
    Lane& lane = lanes_[rank];
    lane.num_pushes = pushes.empty() ? 0 : pushes[rank];
    lane.clock = lane.num_pushes - (pulls_first ? 1 : 0);
    lane.num_updates = num_updates_;
    lane.is_due = true;
    ++clocks_[lane.clock];
  }
  for (Kept& kept : kept_) {
    if (!kept.backup.empty()) copy(kept.backup, x_);
    copy(kept.pulled_statistics, statistics_);
  }
  service_ = start_server(endpoint, segment, "parameter shard",
                          [this](Endpoint& own) { serve(own); });
}

void ParameterShard::end(Endpoint& endpoint) {
  endpoint.join(service_);
  service_ = nullptr;
  CHECK(pushed_.empty() && pulling_.empty());
}

// Ends once every worker is at the boundary and has been answered.
void ParameterShard::serve(Endpoint& endpoint) {
  constexpr TagRange kParts = {tags::kServer, tags::kServerPull};
  while (!clocks_.empty()) {
    take(endpoint, endpoint.recv_any(kParts));
    apply_and_answer(endpoint);
  }
}

// The worker has received the last answer, so there is no wait for its sends.
void ParameterShard::take(Endpoint& endpoint, Message message) {
  Lane& lane = lanes_[message.from];
  if (message.tag == tags::kServerPull) {
    lane.is_requested = true;
    return consider_pull(endpoint, message.from);
  }
  for (Request& send : lane.sends)
    if (send) endpoint.wait(std::exchange(send, nullptr));
  const auto bytes = static_cast<int64_t>(message.payload.size());
  if (message.tag == tags::kServer) {
    CHECK(bytes == sizeof lane.push);
    std::memcpy(&lane.push, message.payload.data(), sizeof lane.push);
    if (lane.push.is_at_boundary != 0 && --clocks_.at(lane.clock) == 0)
      clocks_.erase(lane.clock);
    return;
  }
  if (message.tag == tags::kServer + 1) {
    CHECK(bytes == wire_bytes(wire_, elems_));
    lane.travels = std::move(message.payload);
  } else {
    CHECK(bytes == statistics_.size() * int64_t{sizeof(float)});
    kept_[message.from].statistics = std::move(message.payload);
  }
  const int num_parts = statistics_.empty() ? 1 : 2;
  if (++lane.num_parts < num_parts) return;
  lane.num_parts = 0;
  pushed_.insert(message.from);
}

void ParameterShard::apply_and_answer(Endpoint& endpoint) {
  if (bound_ >= 0) answer_pulls(endpoint);
  for (int rank = next_push(); rank >= 0; rank = next_push()) {
    apply(endpoint, rank);
    consider_pull(endpoint, rank);
  }
}

void ParameterShard::consider_pull(Endpoint& endpoint, int rank) {
  Lane& lane = lanes_[rank];
  if (!lane.is_due || (has_requests_ && !lane.is_requested)) return;
  lane.is_due = lane.is_requested = false;
  if (--clocks_.at(lane.clock) == 0) clocks_.erase(lane.clock);
  ++clocks_[lane.clock = lane.num_pushes];
  lane.allowed_at = endpoint.now();
  // Nothing is held: lists of who waits would take time to simulate.
  if (bound_ < 0) return answer(endpoint, rank);
  // A pull must not include an update made after it was allowed.
  pulling_[lane.clock].push_back(rank);
  answer_pulls(endpoint);
}

int ParameterShard::next_push() const {
  if (pushed_.empty()) return -1;
  if (replay_ == nullptr) return *pushed_.begin();
  const auto rank = static_cast<int>(replay_->at(num_updates_));
  return pushed_.contains(rank) ? rank : -1;
}

// In order of rank. A worker with the lowest clock is never held back.
void ParameterShard::answer_pulls(Endpoint& endpoint) {
  std::vector<int> ranks;
  while (!pulling_.empty()) {
    const auto first = pulling_.begin();
    if (!clocks_.empty() && first->first > clocks_.begin()->first + bound_)
      break;
    ranks.insert(ranks.end(), first->second.begin(), first->second.end());
    pulling_.erase(first);
  }
  std::sort(ranks.begin(), ranks.end());
  for (const int rank : ranks) answer(endpoint, rank);
}

void ParameterShard::apply(Endpoint& endpoint, int rank) {
  Lane& lane = lanes_[rank];
  if (apply_s_ > 0) endpoint.advance(apply_s_);
  std::span<float> g = gradient_;
  if (wire_ == Wire::kBf16)
    unpack_bf16(g.data(), reinterpret_cast<uint16_t*>(lane.travels.data()),
                elems_);
  else
    g = {reinterpret_cast<float*>(lane.travels.data()),
         static_cast<size_t>(elems_)};
  if (compensation_ == Compensation::kPerWorker)
    compensate(context_, g, x_, kept_[rank].backup, lambda_);
  if (compensation_ == Compensation::kPerKey) {
    compensate(context_, g, x_, previous_, lambda_);
    copy(previous_, x_);
  }
  optimizer_->apply(context_, offset_, x_, g,
                    {.rate = lane.push.rate, .momentum = lane.push.momentum});
  if (!statistics_.empty()) add_statistics(kept_[rank]);
  lane.pull.staleness = num_updates_ - lane.num_updates;
  lane.is_due = true;
  ++lane.num_pushes;
  ++num_updates_;
  if (record_ != nullptr) record_->push_back(rank);
  pushed_.erase(rank);
}

void ParameterShard::add_statistics(const Kept& kept) {
  float* const s = statistics_.data();
  if (!has_values(s)) return;
  const auto* const u = reinterpret_cast<const float*>(kept.statistics.data());
  const float* const p = kept.pulled_statistics.data();
  // A step that was skipped (run.on_nonfinite) has seen no batch.
  if (std::equal(p, p + statistics_.size(), u)) return;
  for (int64_t i = 0; i < statistics_.size(); ++i)
    s[i] = u[i] + statistics_kept_ * (s[i] - p[i]);
}

// A worker that has pushed nothing yet has left no message to answer in.
void ParameterShard::make_room(Payload& payload, int64_t bytes) {
  const auto size = static_cast<size_t>(bytes);
  if (payload.size() == size) return;
  payload = has_values(x_.data())
                ? Payload(MessageBytes(size))
                : Payload(reinterpret_cast<std::byte*>(x_.data()), size);
}

void ParameterShard::answer(Endpoint& endpoint, int rank) {
  Lane& lane = lanes_[rank];
  make_room(lane.travels, wire_bytes(wire_, elems_));
  if (wire_ == Wire::kBf16)
    pack_bf16(reinterpret_cast<uint16_t*>(lane.travels.data()), x_.data(),
              elems_);
  else
    device_->copy(lane.travels.data(), x_.data(),
                  static_cast<int64_t>(lane.travels.size()), *stream_);
  lane.pull.held_s = endpoint.now() - lane.allowed_at;
  lane.num_updates = num_updates_;
  if (has_pull_header(index_, bound_))
    lane.sends[0] = endpoint.isend({&lane.pull, sizeof lane.pull}, rank,
                                   tags::kServerAnswer, Traffic::kControl);
  // A message without values has no buffer to wait for; keeping its request
  // would only take memory.
  const auto send = [&](Payload& bytes, Tag tag) {
    Request sent =
        endpoint.isend({bytes.data(), static_cast<int64_t>(bytes.size())}, rank,
                       tag, Traffic::kPayload);
    return has_values(bytes.data()) ? std::move(sent) : nullptr;
  };
  lane.sends[1] = send(lane.travels, tags::kServerAnswer + 1);
  if (kept_.empty()) return;
  Kept& kept = kept_[rank];
  keep(kept);
  if (!statistics_.empty())
    lane.sends[2] = send(kept.statistics, tags::kServerAnswer + 2);
}

// What the worker is sent, to compare its next push with.
void ParameterShard::keep(Kept& kept) {
  if (!kept.backup.empty()) {
    copy(kept.backup, x_);
    if (wire_ == Wire::kBf16) round_to_bf16(kept.backup.data(), elems_);
  }
  if (statistics_.empty()) return;
  copy(kept.pulled_statistics, statistics_);
  make_room(kept.statistics, statistics_.size() * int64_t{sizeof(float)});
  device_->copy(kept.statistics.data(), statistics_.data(),
                static_cast<int64_t>(kept.statistics.size()), *stream_);
}

}  // namespace syncopate
