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

  // Where this worker writes its message, in the memory of the context's
  // device.
  std::span<uint32_t> own(int64_t words) { return of(rank_, words); }
  // Waits until all messages, of `words` words each, have arrived.
  SyncTimes exchange(int64_t words);
  // Assigns q the sum of all messages, added in rank order.
  void sum(Compressor& compressor, std::span<float> q);

 private:
  std::span<uint32_t> of(int rank, int64_t words) {
    return messages_.span().subspan(rank * max_words_, words);
  }
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
