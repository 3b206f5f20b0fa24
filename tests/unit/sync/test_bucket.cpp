// Buckets cover the range exactly once, from its end, however backward reports.
#include <gtest/gtest.h>

#include "sync/bucket.h"

namespace syncopate {
namespace {

Bucketer bucketer_of(int64_t elems, int64_t bucket_elems) {
  ParameterTable table;
  table.add("all", Shape{elems}, Role::kWeight);
  return Bucketer(table, bucket_elems, Tables::kWhole);
}

void expect_covered(const Bucketer& bucketer, int64_t elems) {
  int64_t end = elems;
  int index = 0;
  for (const Bucket& bucket : bucketer.buckets()) {
    EXPECT_EQ(bucket.index, index++);
    EXPECT_EQ(bucket.offset + bucket.elems, end);
    EXPECT_GT(bucket.elems, 0);
    end = bucket.offset;
    EXPECT_EQ(bucket.is_last, end == 0);
  }
  EXPECT_EQ(end, 0);
}

TEST(Bucketer, CoversTheRangeFromItsEnd) {
  for (const int64_t elems : {1, 7, 100, 101})
    expect_covered(bucketer_of(elems, 10), elems);
}

TEST(Bucketer, GivesABucketOnceAllOfItIsFinal) {
  Bucketer bucketer = bucketer_of(35, 10);  // offsets 25, 15, 5, 0
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
  EXPECT_LE(std::ssize(bucketer_of(1'000'000, 1).buckets()), kMaxBuckets);
  ParameterTable table;
  for (int i = 0; i < 500; ++i) {
    table.add("table", Shape{10, 10}, Role::kEmbedding);
    table.add("weight", Shape{1001}, Role::kWeight);
  }
  const Bucketer bucketer(table, 1, Tables::kWhole);
  EXPECT_LE(std::ssize(bucketer.buckets()), kMaxBuckets);
  expect_covered(bucketer, table.num_elems());
}

TEST(Bucketer, WhereNotToldTakesAnEighth) {
  SyncOptions options;
  EXPECT_EQ(bucket_elems(options, 80'001, nullptr), 16'000);   // 64 kB
  EXPECT_EQ(bucket_elems(options, 272'474, nullptr), 34'060);  // ResNet-20
  EXPECT_EQ(bucket_elems(options, 36'500'000, nullptr), 1'000'000);  // 4 MB
  EXPECT_EQ(bucketer_of(272'474, 34'060).buckets().size(), 8u);
  options.bucket_mb = 0.1;
  EXPECT_EQ(bucket_elems(options, 272'474, nullptr), 25'000);
}

// Tables at the start, in the middle and at the end.
TEST(Bucketer, SuccessiveTablesAreABucket) {
  ParameterTable table;
  table.add("embedding", Shape{50, 10}, Role::kEmbedding);  // 0
  table.add("first", Shape{50, 1}, Role::kEmbedding);       // 500
  table.add("weight", Shape{4, 5}, Role::kWeight);          // 550
  table.add("bias", Shape{5}, Role::kBias);                 // 570
  table.add("other", Shape{3, 2}, Role::kEmbedding);        // 575
  table.add("gamma", Shape{7}, Role::kLayerNorm);           // 581
  table.add("end", Shape{4, 4}, Role::kEmbedding);          // 588
  struct Expected {
    int64_t offset, elems;
    bool is_table;
  };
  const Expected expected[] = {
      {588, 16, true},  {581, 7, false}, {575, 6, true}, {565, 10, false},
      {555, 10, false}, {550, 5, false}, {0, 550, true}};
  const Bucketer whole(table, 10, Tables::kWhole);
  expect_covered(whole, 604);
  ASSERT_EQ(whole.buckets().size(), std::size(expected));
  for (size_t i = 0; i < std::size(expected); ++i) {
    EXPECT_EQ(whole.buckets()[i].offset, expected[i].offset);
    EXPECT_EQ(whole.buckets()[i].elems, expected[i].elems);
    EXPECT_EQ(whole.buckets()[i].is_table, expected[i].is_table);
  }

  const Bucketer cut(table, 10, Tables::kCut);
  expect_covered(cut, 604);
  EXPECT_EQ(cut.buckets().size(), 61u);
  for (const Bucket& bucket : cut.buckets()) EXPECT_FALSE(bucket.is_table);
}

TEST(Bucketer, TablesAreWholeWhereRowsTravel) {
  SyncOptions options;
  EXPECT_EQ(tables_of(options), Tables::kWhole);
  options.tables = TableTraffic::kDense;
  EXPECT_EQ(tables_of(options), Tables::kCut);
  options.tables = TableTraffic::kRows;
  options.scheme = "ds_sync";
  EXPECT_EQ(tables_of(options), Tables::kCut);
  options.scheme = "sync_switch";
  options.sync_switch.order = {"10"};
  EXPECT_EQ(tables_of(options), Tables::kWhole);
  options.sync_switch.order = {"local_sgd", "asp"};
  EXPECT_EQ(tables_of(options), Tables::kCut);
}

}  // namespace
}  // namespace syncopate
