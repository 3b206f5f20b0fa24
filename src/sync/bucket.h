// Cuts a model's flat gradient range into buckets, in the order in which
// backward finishes them: from the end.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "sync/scheme.h"

namespace syncopate {

// Tags are numbered; more, smaller buckets than this make no sense either.
inline constexpr int kMaxBuckets = 2048;

// Elements of a bucket of a range: sync.bucket_mb, or what suits range and
// transport. A library between GPUs wants few large messages; through host
// memory they start as soon as an eighth of the range is final, so that a small
// network, too, sends most of it beside its backward pass.
int64_t bucket_elems(const SyncOptions& options,
                     int64_t range_elems,
                     const DeviceCollectives* collectives);

// Successive tensors of Role::kEmbedding: a bucket by themselves, however many
// elements that is, or cut like all others.
enum class Tables : uint8_t { kWhole, kCut };

// Whole where a scheme of the run exchanges rows (sync.tables) and they go
// through host memory.
Tables tables_of(const SyncOptions& options,
                 const DeviceCollectives* collectives);

class Bucketer {
 public:
  // Buckets of `bucket_elems` (more where that would give over kMaxBuckets)
  // from the end of the range, or of what lies between tables; the one at the
  // start takes what is left.
  Bucketer(const ParameterTable& parameters,
           int64_t bucket_elems,
           Tables tables);
  Bucketer(const ParameterTable& parameters,
           const SyncOptions& options,
           const DeviceCollectives* collectives)
      : Bucketer(parameters,
                 syncopate::bucket_elems(options,
                                         parameters.num_elems(),
                                         collectives),
                 tables_of(options, collectives)) {}

  const std::vector<Bucket>& buckets() const { return buckets_; }

  // A new step: no gradient is final.
  void start() { next_ = 0; }
  // Gradients at offset >= from are final: calls `ready` for each bucket that
  // has become complete. The last bucket of a step comes with from == 0.
  template <typename Ready>
  void final_from(int64_t from, const Ready& ready) {
    while (next_ < std::ssize(buckets_) && buckets_[next_].offset >= from)
      ready(buckets_[next_++]);
  }

 private:
  std::vector<Bucket> buckets_;
  int64_t next_ = 0;
};

}  // namespace syncopate
