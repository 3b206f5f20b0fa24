// Buckets cover the range once, from its end, whatever backward reports.
#include <gtest/gtest.h>

#include "sync/bucket.h"

namespace syncopate {
namespace {

TEST(Bucketer, CoversTheRangeFromItsEnd) {
  for (const int64_t elems : {1, 7, 100, 101}) {
    Bucketer bucketer(elems, 10);
    int64_t end = elems;
    for (const Bucket& bucket : bucketer.buckets()) {
      EXPECT_EQ(bucket.offset + bucket.elems, end);
      EXPECT_GT(bucket.elems, 0);
      end = bucket.offset;
      EXPECT_EQ(bucket.is_last, end == 0);
    }
    EXPECT_EQ(end, 0);
  }
}

TEST(Bucketer, GivesABucketOnceAllOfItIsFinal) {
  Bucketer bucketer(35, 10);  // offsets 25, 15, 5, 0
  std::vector<int64_t> ready;
  const auto note = [&](const Bucket& b) { ready.push_back(b.offset); };
  for (int step = 0; step < 2; ++step) {
    ready.clear();
    bucketer.start();
    bucketer.final_from(26, note);
    EXPECT_TRUE(ready.empty());
    bucketer.final_from(12, note);
    EXPECT_EQ(ready, (std::vector<int64_t>{25, 15}));
    bucketer.final_from(12, note);
    EXPECT_EQ(ready.size(), 2u);
    bucketer.final_from(0, note);
    EXPECT_EQ(ready, (std::vector<int64_t>{25, 15, 5, 0}));
  }
}

TEST(Bucketer, NeverHasMoreBucketsThanTags) {
  EXPECT_LE(std::ssize(Bucketer(1'000'000, 1).buckets()), kMaxBuckets);
}

}  // namespace
}  // namespace syncopate
