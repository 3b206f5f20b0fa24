// Gathers every worker's compressed message at every worker, for schemes that
// average compressed gradients.
//
// Each worker sends (N - 1) messages, directly to each peer: through host
// memory, or between the devices by parts.collectives.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "comm/mirror.h"
#include "compress/compressor.h"
#include "sync/device_exchange.h"
#include "sync/scheme.h"

namespace syncopate {

class CompressedGather {
 public:
  // For messages of up to `max_words` words.
  CompressedGather(const SchemeParts& parts, int64_t max_words);

  // Compresses `values`, plus `residual` if it is not empty, which then keeps
  // what the message does not hold. Waits for the messages of all workers, and
  // assigns their sum, in rank order, to `values`.
  SyncTimes sum(Compressor& compressor,
                std::span<float> values,
                std::span<float> residual,
                const Draw& draw);
  // Returns this worker's message of the last sum.
  std::span<uint32_t> own(const Compressor& compressor) {
    return of(rank_, compressor.message_words());
  }

  // Returns times not yet reported.
  SyncTimes quiesce() {
    return on_device_ ? on_device_->quiesce() : SyncTimes{};
  }

 private:
  // Messages lie in the order in which they are received, the own one last.
  int64_t place_of(int rank) const {
    const int N = world_.size();
    return (rank_ - rank - 1 + N) % N * max_words_;
  }
  std::span<uint32_t> of(int rank, int64_t words) {
    return messages_.span().subspan(place_of(rank), words);
  }
  SyncTimes exchange(int64_t words);
  void send_and_receive(Endpoint& endpoint, int64_t words);

  Context& context_;
  Endpoint& endpoint_;
  Group world_;
  int rank_;
  int64_t max_words_;
  std::vector<int> to_, from_;  // the other ranks
  DeviceVector<uint32_t> messages_;
  std::optional<DeviceExchange> on_device_;
  std::optional<Mirror> mirror_;  // else
  std::unique_ptr<Event> ready_;
  std::vector<Request> requests_;
  Time has_own_at_ = 0, all_arrived_at_ = 0;
};

}  // namespace syncopate
