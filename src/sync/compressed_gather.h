// Gathers every worker's compressed message at every worker, for schemes that
// average compressed gradients.
//
// Each worker sends (N - 1) messages, directly to each peer.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "comm/mirror.h"
#include "compress/compressor.h"
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

 private:
  std::span<uint32_t> of(int rank, int64_t words) {
    return messages_.span().subspan(rank * max_words_, words);
  }
  SyncTimes exchange(int64_t words);
  void send_and_receive(Endpoint& endpoint, int64_t words);

  Context& context_;
  Endpoint& endpoint_;
  Group world_;
  int rank_;
  int64_t max_words_;
  DeviceVector<uint32_t> messages_;  // by rank
  Mirror mirror_;
  std::unique_ptr<Event> ready_;
  std::vector<Request> requests_;
  Time has_own_at_ = 0, all_arrived_at_ = 0;
};

}  // namespace syncopate
