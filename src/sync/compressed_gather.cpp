#include "sync/compressed_gather.h"

#include <algorithm>

#include "comm/tags.h"
#include "compress/message.h"
#include "ops/elementwise.h"

namespace syncopate {

CompressedGather::CompressedGather(const SchemeParts& parts, int64_t max_words)
    : context_(parts.context),
      endpoint_(parts.endpoint),
      world_(parts.endpoint.world_group()),
      rank_(parts.endpoint.rank()),
      max_words_(max_words),
      messages_(context_.device(),
                context_.stream(),
                world_.size() * max_words),
      ready_(context_.device().make_event()) {
  // Starts with the next rank, so that no worker gets all messages at once.
  const int N = world_.size();
  for (int k = 1; k < N; ++k) {
    to_.push_back((rank_ + k) % N);
    from_.push_back((rank_ - k + N) % N);
  }
  const std::span<float> all = as_floats(messages_.span());
  const auto own = static_cast<size_t>(place_of(rank_));
  if (parts.collectives != nullptr && N > 1)
    on_device_.emplace(parts, all.subspan(own), all.first(own), max_words,
                       Wire::kF32);
  else
    mirror_.emplace(context_.device(), all, &endpoint_);
  requests_.reserve(2 * world_.size());
}

SyncTimes CompressedGather::sum(Compressor& compressor,
                                std::span<float> values,
                                std::span<float> residual,
                                const Draw& draw) {
  const int64_t words = compressor.message_words();
  const std::span<uint32_t> message = own(compressor);
  if (residual.empty()) {
    compressor.encode(context_, message, values, draw);
  } else {
    axpy(context_, residual, 1, values);
    compressor.encode(context_, message, residual, draw);
    compressor.blend(context_, residual, message, 1, -1);
  }
  const SyncTimes times = exchange(words);
  compressor.decode(context_, values, of(0, words));
  for (int rank = 1; rank < world_.size(); ++rank)
    compressor.blend(context_, values, of(rank, words), 1, 1);
  return times;
}

SyncTimes CompressedGather::exchange(int64_t words) {
  if (world_.size() == 1) return {};
  if (on_device_) {
    on_device_->start(to_, from_, words);
    return on_device_->finish();
  }
  ready_->record(context_.stream());
  const Time entered = endpoint_.now();
  // Separates waiting for peers from the time that messages take.
  const Task arrival = endpoint_.start("arrival", [this](Endpoint& endpoint) {
    barrier(endpoint, world_, tags::kArrival);
    all_arrived_at_ = endpoint.now();
  });
  endpoint_.perform(
      [&](Endpoint& endpoint) { send_and_receive(endpoint, words); });
  SyncTimes times =
      blocked_since(entered, has_own_at_, context_, endpoint_, "messages");
  endpoint_.join(arrival);
  mirror_->make_wait(context_.stream());
  times.wait_s = std::clamp(all_arrived_at_ - entered - times.device_s, 0.0,
                            times.exposed_s);
  return times;
}

void CompressedGather::send_and_receive(Endpoint& endpoint, int64_t words) {
  const auto host = [&](int rank) {
    return bytes_span(mirror_->host(place_of(rank), words));
  };
  requests_.clear();
  // Pulled first: by then the previous round's messages are on the device.
  mirror_->pull(endpoint, place_of(rank_), words, *ready_);
  has_own_at_ = endpoint.now();
  for (const int from : from_)
    requests_.push_back(endpoint.irecv(host(from), from, tags::kAverage));
  const Bytes own = host(rank_);
  for (const int to : to_)
    requests_.push_back(endpoint.isend({own.data, own.bytes}, to,
                                       tags::kAverage, Traffic::kPayload));
  for (const Request& request : requests_) endpoint.wait(request);
  for (const int from : from_) mirror_->push(place_of(from), words);
}

}  // namespace syncopate
