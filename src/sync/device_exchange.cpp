#include "sync/device_exchange.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "comm/device_collectives.h"
#include "comm/trace.h"
#include "ops/elementwise.h"

namespace syncopate {

DeviceExchange::DeviceExchange(const SchemeParts& parts,
                               std::span<float> outgoing,
                               std::span<float> slots,
                               int64_t stride,
                               Wire wire)
    : parts_(parts),
      collectives_(*parts.collectives),
      outgoing_(outgoing),
      slots_(slots),
      stride_(stride) {
  Device& device = parts.context.device();
  if (wire == Wire::kBf16)
    rounded_ = Buffer(device, std::ssize(slots) * bytes_of(DType::kBf16));
  for (Round& round : rounds_)
    for (auto* event : {&round.ready, &round.arrived, &round.needed})
      *event = device.make_event();
}

Tensor DeviceExchange::in_slot(int64_t slot) const {
  return make_tensor(slots_.data() + slot * stride_, DType::kF32,
                     Shape{elems_});
}

Tensor DeviceExchange::on_wire(int64_t slot) const {
  if (rounded_.data() == nullptr) return in_slot(slot);
  return make_tensor(rounded_.as<Bf16>() + slot * stride_, DType::kBf16,
                     Shape{elems_});
}

void DeviceExchange::start(std::span<const int> to,
                           std::span<const int> from,
                           int64_t elems) {
  CHECK(elems <= std::ssize(outgoing_));
  elems_ = elems;
  Round& round = rounds_[now_];
  Tensor message = make_tensor(outgoing_.data(), DType::kF32, Shape{elems});
  if (rounded_.data() != nullptr) {
    const int64_t own = std::ssize(slots_) / stride_ - 1;
    reorder(parts_.context, on_wire(own), message);
    message = on_wire(own);
    reorder(parts_.context, in_slot(own), message);
  }
  received_ = std::ssize(from);
  std::vector<Transfer> transfers;
  for (int64_t slot = 0; slot < received_; ++slot)
    transfers.push_back({.way = Transfer::Way::kReceive,
                         .peer = from[static_cast<size_t>(slot)],
                         .data = on_wire(slot).data,
                         .bytes = message.bytes()});
  for (const int rank : to)
    transfers.push_back({.way = Transfer::Way::kSend,
                         .peer = rank,
                         .data = message.data,
                         .bytes = message.bytes()});
  round.ready->record(parts_.context.stream());
  round.ready->wait_on(collectives_.stream());
  collectives_.exchange(transfers, collectives_.world());
  round.arrived->record(collectives_.stream());
  round.is_complete = false;
  round.bytes = message.bytes() * std::ssize(to);
  const WorkerTrace* const trace = parts_.endpoint.trace();
  round.traced = trace != nullptr && trace->is_on() ? trace->step() : 0;
  parts_.endpoint.traffic().count(Traffic::kPayload, round.bytes,
                                  std::ssize(to));
}

SyncTimes DeviceExchange::finish() {
  Round& round = rounds_[now_];
  round.needed->record(parts_.context.stream());
  round.arrived->wait_on(parts_.context.stream());
  if (rounded_.data() != nullptr)
    for (int64_t slot = 0; slot < received_; ++slot)
      reorder(parts_.context, in_slot(slot), on_wire(slot));
  collectives_.check();
  now_ = 1 - now_;
  return times_of(rounds_[now_]);
}

SyncTimes DeviceExchange::times_of(Round& round) {
  SyncTimes times;
  if (round.is_complete) return times;
  round.is_complete = true;
  collectives_.wait(*round.arrived);
  collectives_.wait(*round.needed);
  // NCCL does not separate waiting for peers from sending.
  times.wait_s = std::numeric_limits<double>::quiet_NaN();
  times.exposed_s = std::max(0.0, round.arrived->seconds_since(*round.needed));
  times.overlapped_s = std::max(
      0.0, round.arrived->seconds_since(*round.ready) - times.exposed_s);
  if (round.traced > 0) record(round, times.exposed_s);
  return times;
}

void DeviceExchange::record(const Round& round, double exposed_s) {
  WorkerTrace& trace = *parts_.endpoint.trace();
  if (!trace.has_reference()) return;
  const Time end = trace.time_of(*round.arrived);
  trace.communication("exchange", round.traced, trace.time_of(*round.ready),
                      end, round.bytes);
  trace.wait("neighbours", round.traced, end - exposed_s, end);
}

SyncTimes DeviceExchange::drain() {
  const SyncTimes times = finish();
  collectives_.wait(*rounds_[1 - now_].arrived);
  return times;
}

}  // namespace syncopate
