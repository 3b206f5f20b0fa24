#include "sync/bucket.h"

#include <algorithm>

namespace syncopate {

int64_t bucket_elems(const SyncOptions& options,
                     const DeviceCollectives* collectives) {
  constexpr double kThroughHost_mb = 4, kBetweenDevices_mb = 32;
  double mb = options.bucket_mb;
  if (mb == 0)
    mb = collectives != nullptr ? kBetweenDevices_mb : kThroughHost_mb;
  return static_cast<int64_t>(mb * 1e6 / sizeof(float));
}

Bucketer::Bucketer(int64_t range_elems, int64_t bucket_elems) {
  CHECK(range_elems > 0 && bucket_elems > 0);
  bucket_elems =
      std::max(bucket_elems, (range_elems + kMaxBuckets - 1) / kMaxBuckets);
  for (int64_t end = range_elems; end > 0;) {
    const int64_t begin = std::max<int64_t>(0, end - bucket_elems);
    buckets_.push_back(
        {static_cast<int>(buckets_.size()), begin, end - begin, begin == 0});
    end = begin;
  }
}

}  // namespace syncopate
