#include "sync/exchange.h"

#include <algorithm>
#include <utility>

#include "comm/tags.h"
#include "ops/elementwise.h"

namespace syncopate {
namespace {

constexpr Tag kMessage = tags::kGossip, kNote = tags::kGossip + 1;

// Slots are aligned for vector access on a GPU: at multiples of 256 bytes.
constexpr int64_t stride_of(int64_t elems) {
  return (elems + 63) / 64 * 64;
}

}  // namespace

NeighbourExchange::NeighbourExchange(const SchemeParts& parts,
                                     std::span<float> outgoing,
                                     int slots,
                                     Wire wire,
                                     Traffic notes)
    : parts_(parts),
      outgoing_(outgoing),
      elems_(std::ssize(outgoing)),
      stride_(stride_of(elems_)),
      slots_(slots),
      wire_(wire),
      note_kind_(notes),
      incoming_(
          parts.context.device(),
          parts.context.stream(),
          stride_ * (wire == Wire::kBf16 ? slots + 1 : std::max(slots, 1))),
      ready_(parts.context.device().make_event()),
      notes_(slots, 0) {
  if (parts.collectives != nullptr) {
    on_device_.emplace(parts, outgoing, incoming_, stride_, wire);
    return;
  }
  Device& device = parts.context.device();
  const bool from_device = sends_from_device(device, parts.endpoint);
  // Otherwise the host rounds.
  const Endpoint* const only_sent =
      wire == Wire::kF32 || from_device ? &parts.endpoint : nullptr;
  outgoing_mirror_.emplace(device, outgoing, only_sent);
  incoming_mirror_.emplace(device, incoming_, only_sent);
  if (wire != Wire::kBf16) return;
  if (from_device) {
    rounded_ = Buffer(device, incoming_.size() * bytes_of(DType::kBf16));
    return;
  }
  packed_out_.grow(elems_, outgoing.data());
  packed_in_.grow(elems_ * slots, outgoing.data());
}

std::span<const float> NeighbourExchange::incoming(int slot) const {
  return incoming_.span().subspan(slot * stride_, elems_);
}

std::span<const float> NeighbourExchange::sent() const {
  return wire_ == Wire::kBf16 ? incoming(slots_) : outgoing_;
}

std::span<float> NeighbourExchange::on_host(int slot) const {
  return incoming_mirror_->host(slot * stride_, elems_);
}

Tensor NeighbourExchange::in_slot(int slot) const {
  return make_tensor(incoming_.data() + slot * stride_, DType::kF32,
                     Shape{elems_});
}

Tensor NeighbourExchange::rounded(int slot) const {
  return make_tensor(rounded_.as<Bf16>() + slot * stride_, DType::kBf16,
                     Shape{elems_});
}

Bytes NeighbourExchange::receive_buffer(int slot) {
  if (wire_ == Wire::kF32) return bytes_span(on_host(slot));
  if (rounded_.data() != nullptr)
    return {rounded(slot).data, wire_bytes(wire_, elems_)};
  return {packed_in_.data() + slot * elems_, wire_bytes(wire_, elems_)};
}

void NeighbourExchange::start(std::span<const int> to,
                              std::span<const int> from,
                              double note) {
  CHECK(state_ == State::kNone && std::ssize(from) <= slots_);
  to_.assign(to.begin(), to.end());
  from_.assign(from.begin(), from.end());
  own_note_ = note;
  state_ = State::kUnderWay;
  if (rounded_.data() != nullptr) {
    reorder(parts_.context, rounded(slots_),
            make_tensor(outgoing_.data(), DType::kF32, Shape{elems_}));
    reorder(parts_.context, in_slot(slots_), rounded(slots_));
  }
  if (on_device_)
    on_device_->start(to, from, elems_);
  else
    ready_->record(parts_.context.stream());
  task_ = parts_.endpoint.start("exchange",
                                [this](Endpoint& endpoint) { run(endpoint); });
}

void NeighbourExchange::run(Endpoint& endpoint) {
  if (!on_device_) outgoing_mirror_->pull(endpoint, 0, elems_, *ready_);
  begun_at_ = endpoint.now();
  requests_.clear();
  note_requests_.clear();
  for (size_t i = 0; i < from_.size(); ++i)
    note_requests_.push_back(
        endpoint.irecv({&notes_[i], sizeof notes_[i]}, from_[i], kNote));
  if (!on_device_)
    for (size_t i = 0; i < from_.size(); ++i)
      requests_.push_back(endpoint.irecv(receive_buffer(static_cast<int>(i)),
                                         from_[i], kMessage));
  for (const int rank : to_)
    requests_.push_back(endpoint.isend({&own_note_, sizeof own_note_}, rank,
                                       kNote, note_kind_));
  if (!on_device_) send_messages(endpoint);
  for (const Request& request : note_requests_) endpoint.wait(request);
  all_here_at_ = endpoint.now();
  if (!on_device_) receive_messages(endpoint);
  for (const Request& request : requests_) endpoint.wait(request);
  arrived_at_ = endpoint.now();
}

void NeighbourExchange::send_messages(Endpoint& endpoint) {
  const std::span<float> out = outgoing_mirror_->host(0, elems_);
  ConstBytes message = bytes_view(std::span<const float>(out));
  if (rounded_.data() != nullptr) {
    message = {rounded(slots_).data, wire_bytes(wire_, elems_)};
  } else if (wire_ == Wire::kBf16) {
    pack_bf16(packed_out_.data(), out.data(), elems_);
    unpack_bf16(on_host(slots_).data(), packed_out_.data(), elems_);
    incoming_mirror_->push(slots_ * stride_, elems_);
    message = {packed_out_.data(), wire_bytes(wire_, elems_)};
  }
  for (const int rank : to_)
    requests_.push_back(
        endpoint.isend(message, rank, kMessage, Traffic::kPayload));
}

// The first requests are those of the messages, in the order of their slots.
void NeighbourExchange::receive_messages(Endpoint& endpoint) {
  for (int i = 0; i < static_cast<int>(from_.size()); ++i) {
    endpoint.wait(requests_[i]);
    if (wire_ == Wire::kBf16 && rounded_.data() == nullptr)
      unpack_bf16(on_host(i).data(), packed_in_.data() + i * elems_, elems_);
    incoming_mirror_->push(i * stride_, elems_);
  }
}

void NeighbourExchange::join() {
  parts_.endpoint.join(task_);
  task_ = nullptr;
  if (incoming_mirror_) incoming_mirror_->make_wait(parts_.context.stream());
  if (rounded_.data() != nullptr)
    for (int slot = 0; slot < static_cast<int>(from_.size()); ++slot)
      reorder(parts_.context, in_slot(slot), rounded(slot));
}

SyncTimes NeighbourExchange::finish() {
  if (state_ == State::kNone) return {};
  Endpoint& endpoint = parts_.endpoint;
  const Time entered = endpoint.now();
  const bool is_drained = state_ == State::kDrained;
  if (!is_drained)
    join();
  else if (arrived_at_ > entered)
    endpoint.advance(arrived_at_ - entered);
  state_ = State::kNone;
  if (on_device_)
    return is_drained ? std::exchange(drained_, {}) : on_device_->finish();
  SyncTimes times =
      blocked_since(entered, begun_at_, parts_.context, endpoint, "neighbours");
  const Time begin = entered + times.device_s;
  times.wait_s = std::clamp(all_here_at_ - begin, 0.0, times.exposed_s);
  times.overlapped_s = std::max(0.0, std::min(arrived_at_, begin) - begun_at_);
  return times;
}

void NeighbourExchange::drain() {
  if (state_ != State::kUnderWay) return;
  join();
  if (on_device_) drained_ = on_device_->drain();
  state_ = State::kDrained;
}

void NeighbourExchange::visit_state(StateVisitor& visitor) {
  CHECK(state_ != State::kUnderWay);
  // Past times are meaningless to the clock of another process or world: the
  // duration of the round suffices.
  if (arrived_at_ <= parts_.endpoint.now()) {
    begun_at_ -= arrived_at_;
    all_here_at_ = arrived_at_ = 0;
  }
  double values[] = {state_ == State::kDrained ? 1.0 : 0.0, begun_at_,
                     all_here_at_, arrived_at_};
  visitor.visit(Owner::kWorker, "exchange", std::span<double>(values));
  state_ = values[0] > 0 ? State::kDrained : State::kNone;
  begun_at_ = values[1];
  all_here_at_ = values[2];
  arrived_at_ = values[3];
}

}  // namespace syncopate
