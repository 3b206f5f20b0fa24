// Divides a model's flat gradient range into buckets in the order in which
// backward completes them: from the end.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "sync/scheme.h"

namespace syncopate {

// Limited by the tags; more, smaller buckets would not help either.
inline constexpr int kMaxBuckets = 2048;

// Returns the bucket size of a range in elements: sync.bucket_mb, or a default
// for range and transport. A library between GPUs prefers few large messages;
// through host memory they start as soon as an eighth of the range is final, so
// even a small network sends most of it during backward.
int64_t bucket_elems(const SyncOptions& options,
                     int64_t range_elems,
                     const DeviceCollectives* collectives);

// Successive tensors of Role::kEmbedding form a bucket of their own, however
// large, or are cut like all others.
enum class Tables : uint8_t { kWhole, kCut };

// kWhole if a scheme of the run exchanges rows (sync.tables), else kCut.
Tables tables_of(const SyncOptions& options);

// Whether a scheme of the run sends only the rows of embedding tables that a
// batch touched.
bool sends_rows(const SyncOptions& options, const ParameterTable& parameters);

class Bucketer {
 public:
  // Creates buckets of `bucket_elems` (more if that would exceed kMaxBuckets)
  // from the end of the range, or of each stretch between tables; the bucket at
  // the start takes the remainder.
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
                 tables_of(options)) {}

  const std::vector<Bucket>& buckets() const { return buckets_; }

  // Starts a new step: no gradient is final.
  void start() { next_ = 0; }
  // Gradients at offset >= from are final: calls `ready` for each bucket that
  // is now complete. The last bucket of a step comes with from == 0.
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
