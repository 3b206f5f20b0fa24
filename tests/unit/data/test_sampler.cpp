// Sampler and validation split: who sees which samples, and when.
#include <algorithm>
#include <numeric>
#include <set>

#include "base/rng.h"
#include "data/sampler.h"
#include "data_files.h"

namespace syncopate {
namespace {

using enum Partitioning;

constexpr uint64_t kSeed = 11;

ImageSet make_set(int64_t samples, int64_t classes) {
  ImageSet set;
  set.samples = samples;
  set.spec = {.C = 1, .H = 1, .W = 1, .classes = classes};
  for (int64_t i = 0; i < samples; ++i)
    set.labels.push_back(static_cast<int32_t>((i * 7) % classes));
  return set;
}

std::vector<int64_t> all_of(int64_t samples) {
  std::vector<int64_t> indices(static_cast<size_t>(samples));
  std::iota(indices.begin(), indices.end(), int64_t{0});
  return indices;
}

DataOptions make_options(Partitioning partition,
                         int64_t batch,
                         int64_t accumulate = 1) {
  DataOptions options;
  options.partition = partition;
  options.batch = batch;
  options.accumulate = accumulate;
  return options;
}

Sampler make_sampler(const DataOptions& options,
                     const ImageSet& set,
                     int ranks,
                     uint64_t seed = kSeed) {
  return Sampler(options, set, all_of(set.samples), ranks, seed);
}

// All workers' batches of one index, one after another by rank.
std::vector<int64_t> global_batch(const Sampler& sampler,
                                  int ranks,
                                  int64_t index) {
  std::vector<int64_t> all;
  for (int rank = 0; rank < ranks; ++rank) {
    const auto batch = sampler.batch(rank, index);
    all.insert(all.end(), batch.begin(), batch.end());
  }
  return all;
}

TEST(Sampler, InterleavedWorkersSeeWhatOneWorkerSees) {
  const ImageSet set = make_set(101, 5);
  for (const int ranks : {1, 2, 3, 4}) {
    for (const int64_t accumulate : {1, 2, 3}) {
      const int64_t batch = 4;
      const Sampler many = make_sampler(
          make_options(kInterleaved, batch, accumulate), set, ranks);
      const Sampler one = make_sampler(
          make_options(kInterleaved, batch * ranks, accumulate), set, 1);
      const Sampler large = make_sampler(
          make_options(kInterleaved, batch * ranks * accumulate), set, 1);
      ASSERT_EQ(many.batches_per_epoch(), one.batches_per_epoch());
      ASSERT_EQ(many.batches_per_epoch(),
                large.batches_per_epoch() * accumulate);
      // Three epochs; equal in order, hence as sets.
      for (int64_t i = 0; i < 3 * many.batches_per_epoch(); ++i)
        ASSERT_EQ(global_batch(many, ranks, i), one.batch(0, i));
      for (int64_t step = 0; step < 3 * large.batches_per_epoch(); ++step) {
        std::vector<int64_t> joined;
        for (int64_t i = 0; i < accumulate; ++i) {
          const auto part = global_batch(many, ranks, step * accumulate + i);
          joined.insert(joined.end(), part.begin(), part.end());
        }
        ASSERT_EQ(joined, large.batch(0, step));
      }
    }
  }
}

TEST(Sampler, AnEpochHasEachSampleAtMostOnceAndLeavesOutLessThanAStep) {
  const ImageSet set = make_set(103, 5);
  for (const Partitioning partition :
       {kInterleaved, kRandom, kContiguous, kSorted, kByClass}) {
    for (const int ranks : {1, 2, 3, 4}) {
      const Sampler sampler =
          make_sampler(make_options(partition, 5), set, ranks);
      const int64_t batches = sampler.batches_per_epoch();
      ASSERT_GE(batches, 1);
      for (const int64_t epoch : {0, 1, 5}) {
        std::set<int64_t> seen;
        for (int64_t i = 0; i < batches; ++i)
          for (const int64_t sample :
               global_batch(sampler, ranks, epoch * batches + i)) {
            ASSERT_TRUE(sample >= 0 && sample < set.samples);
            ASSERT_TRUE(seen.insert(sample).second)
                << name_of(partition) << " repeats " << sample;
          }
        ASSERT_EQ(std::ssize(seen), batches * 5 * ranks);
        if (partition != kByClass) {
          ASSERT_GE(std::ssize(seen), set.samples - 5 * ranks - ranks);
        }
      }
    }
  }
}

// Also of unlike batches, whose shares are in proportion.
TEST(Sampler, ASetOfWholeStepsIsTakenWhole) {
  for (const auto& batches : std::vector<std::vector<double>>{
           {29, 71}, {13, 35}, {1, 1, 1}, {3, 7, 90}, {49, 1}}) {
    const auto step = static_cast<int64_t>(
        std::accumulate(batches.begin(), batches.end(), 0.0));
    for (const int64_t steps : {1, 2, 3, 500, 1250}) {
      const ImageSet set = make_set(steps * step, 2);
      for (const Partitioning partition : {kInterleaved, kRandom}) {
        DataOptions options = make_options(partition, step);
        options.batch_by_worker = batches;
        const Sampler sampler =
            make_sampler(options, set, static_cast<int>(batches.size()));
        EXPECT_EQ(sampler.batches_per_epoch(), steps)
            << batches[0] << ' ' << name_of(partition);
      }
    }
  }
}

// Over many epochs every sample gets its turn.
TEST(Sampler, NothingIsLeftOutForEver) {
  const ImageSet set = make_set(23, 2);
  for (const Partitioning partition : {kInterleaved, kRandom, kSorted}) {
    const Sampler sampler = make_sampler(make_options(partition, 4), set, 2);
    std::set<int64_t> seen;
    for (int64_t i = 0; i < 60 * sampler.batches_per_epoch(); ++i)
      for (const int64_t sample : global_batch(sampler, 2, i))
        seen.insert(sample);
    EXPECT_EQ(std::ssize(seen), set.samples) << name_of(partition);
  }
}

TEST(Sampler, ABatchIsAFunctionOfItsIndex) {
  const ImageSet set = make_set(97, 6);
  for (const Partitioning partition : {kInterleaved, kRandom, kByClass}) {
    const DataOptions options = make_options(partition, 3);
    const Sampler forward = make_sampler(options, set, 3);
    const int64_t count = 4 * forward.batches_per_epoch();
    std::vector<std::vector<int64_t>> seen;
    for (int64_t i = 0; i < count; ++i) seen.push_back(forward.batch(2, i));
    for (int64_t i = count - 1; i >= 0; --i) {
      const Sampler fresh = make_sampler(options, set, 3);
      ASSERT_EQ(fresh.batch(2, i), seen[static_cast<size_t>(i)]);
      ASSERT_EQ(forward.batch(2, i), seen[static_cast<size_t>(i)]);
    }
    EXPECT_NE(make_sampler(options, set, 3, kSeed + 1).batch(2, 0), seen[0]);
    EXPECT_NE(seen[0], seen[static_cast<size_t>(forward.batches_per_epoch())]);
  }
}

// Fisher-Yates as the textbook has it. Checkpoints and results depend on every
// place of an order.
std::vector<int64_t> plainly_shuffled(std::vector<int64_t> values, Rng rng) {
  for (size_t i = values.size(); i-- > 1;)
    std::swap(values[i], values[rng.below(i + 1)]);
  return values;
}

// All shards after one another, as the partition cuts them.
std::vector<int64_t> plain_partition(Partitioning partition,
                                     const std::vector<int64_t>& indices,
                                     uint64_t seed) {
  if (partition != kRandom) return indices;
  return plainly_shuffled(indices, Rng(seed, Purpose::kPartition, 2));
}

// An epoch of the sampler below is a single batch: all that whole steps take.
void expect_plain_orders(Partitioning partition,
                         const std::vector<int64_t>& indices,
                         int ranks,
                         uint64_t seed) {
  const int64_t samples = std::ssize(indices);
  SampleTable table;
  table.samples = indices.back() + 1;
  const Sampler sampler(make_options(partition, samples / ranks), table,
                        indices, ranks, seed);
  ASSERT_EQ(sampler.batches_per_epoch(), 1);
  const std::vector<int64_t> all = plain_partition(partition, indices, seed);
  const bool is_shared = partition == kInterleaved || ranks == 1;
  const int streams = is_shared ? 1 : ranks;
  for (const int64_t epoch : {0, 1, 2, 1, 5})
    for (int stream = 0; stream < streams; ++stream) {
      std::vector<int64_t> plain = plainly_shuffled(
          {all.begin() + samples * stream / streams,
           all.begin() + samples * (stream + 1) / streams},
          Rng(seed, Purpose::kDataOrder, static_cast<uint64_t>(epoch),
              static_cast<uint64_t>(stream)));
      const std::vector<int64_t> seen =
          is_shared ? global_batch(sampler, ranks, epoch)
                    : sampler.batch(stream, epoch);
      ASSERT_GE(std::ssize(seen), std::ssize(plain) - ranks);
      plain.resize(seen.size());
      ASSERT_TRUE(seen == plain) << "epoch " << epoch << ", stream " << stream;
    }
}

// A thread makes the orders of the largest set ahead. Numbers of more than 32
// bits have a path of their own.
TEST(Sampler, WholeOrdersAreThoseOfThePlainShuffle) {
  for (const int64_t samples : {12, 1'000, 100'001})
    for (const int64_t first : {int64_t{0}, int64_t{5}, int64_t{1} << 33}) {
      std::vector<int64_t> indices(static_cast<size_t>(samples));
      std::iota(indices.begin(), indices.end(), first);
      for (const Partitioning partition : {kInterleaved, kContiguous, kRandom})
        for (const int ranks : {1, 3})
          for (const uint64_t seed : {kSeed, kSeed + 1}) {
            SCOPED_TRACE(fmt::format("{} samples from {}, {}, {} ranks, {}",
                                     samples, first, partition, ranks, seed));
            expect_plain_orders(partition, indices, ranks, seed);
          }
    }
}

// A thread makes the order of the next epoch; this worker is behind, and others
// leap.
TEST(Sampler, OrdersMadeAheadAreTheSame) {
  constexpr int64_t kSamples = 110'000, kBatch = 50'000;
  const ImageSet set = make_set(kSamples, 6);
  const DataOptions options = make_options(kInterleaved, kBatch);
  const Sampler sampler = make_sampler(options, set, 2);
  ASSERT_EQ(sampler.batches_per_epoch(), 1);
  std::vector<std::vector<int64_t>> first, second;
  for (int64_t epoch = 0; epoch < 3; ++epoch)
    first.push_back(sampler.batch(0, epoch));
  for (int64_t epoch = 0; epoch < 3; ++epoch)
    second.push_back(sampler.batch(1, epoch));
  for (const int64_t epoch : {2, 0, 1}) {
    const Sampler fresh = make_sampler(options, set, 2);
    EXPECT_EQ(fresh.batch(0, epoch), first[static_cast<size_t>(epoch)]);
    EXPECT_EQ(fresh.batch(1, epoch), second[static_cast<size_t>(epoch)]);
  }
}

// The samples that a worker reads in many epochs: its shard.
std::vector<int64_t> shard_of(const Sampler& sampler, int rank) {
  std::set<int64_t> shard;
  for (int64_t i = 0; i < 40 * sampler.batches_per_epoch(); ++i)
    for (const int64_t sample : sampler.batch(rank, i)) shard.insert(sample);
  return {shard.begin(), shard.end()};
}

std::vector<std::vector<int64_t>> shards_of(Partitioning partition,
                                            const ImageSet& set,
                                            int ranks) {
  const Sampler sampler = make_sampler(make_options(partition, 4), set, ranks);
  std::vector<std::vector<int64_t>> shards;
  for (int rank = 0; rank < ranks; ++rank)
    shards.push_back(shard_of(sampler, rank));
  return shards;
}

bool is_a_block(const std::vector<int64_t>& shard) {
  return shard.back() - shard.front() + 1 == std::ssize(shard);
}

class Shards : public ::testing::TestWithParam<int> {
 protected:
  const ImageSet set_ = make_set(60, 6);
  int ranks() const { return GetParam(); }
  int32_t label(int64_t sample) const {
    return set_.labels[static_cast<size_t>(sample)];
  }
};

TEST_P(Shards, AreFixedDisjointAndComplete) {
  for (const Partitioning partition : {kRandom, kContiguous, kSorted}) {
    std::vector<int64_t> all;
    for (const auto& shard : shards_of(partition, set_, ranks())) {
      EXPECT_EQ(std::ssize(shard), 60 / ranks()) << name_of(partition);
      all.insert(all.end(), shard.begin(), shard.end());
    }
    std::sort(all.begin(), all.end());
    EXPECT_EQ(all, all_of(set_.samples)) << name_of(partition);
  }
}

TEST_P(Shards, AreBlocksOfTheFileOnlyIfContiguous) {
  for (const auto& shard : shards_of(kContiguous, set_, ranks()))
    EXPECT_TRUE(is_a_block(shard));
  for (const auto& shard : shards_of(kRandom, set_, ranks()))
    EXPECT_FALSE(is_a_block(shard));
}

TEST_P(Shards, SortedAreBlocksOfTheLabelOrder) {
  int32_t largest = 0;
  for (const auto& shard : shards_of(kSorted, set_, ranks())) {
    const int32_t before = largest;
    for (const int64_t sample : shard) {
      EXPECT_GE(label(sample), before);
      largest = std::max(largest, label(sample));
    }
  }
}

// Labels come 0 1 5 2 ..., so that whole classes are 10 samples each.
TEST_P(Shards, ByClassHoldsWholeClasses) {
  const auto shards = shards_of(kByClass, set_, ranks());
  for (int rank = 0; rank < ranks(); ++rank) {
    const auto& shard = shards[static_cast<size_t>(rank)];
    EXPECT_EQ(std::ssize(shard) % 10, 0);
    EXPECT_FALSE(shard.empty());
    for (const int64_t sample : shard) EXPECT_EQ(label(sample) % ranks(), rank);
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, Shards, ::testing::Values(2, 3, 4));

// Shares in proportion to the batches, so that an epoch is a pass of all
// workers together.
TEST(Sampler, FixedSharesFollowUnequalBatches) {
  const ImageSet set = make_set(96, 6);
  for (const Partitioning partition : {kRandom, kContiguous, kSorted}) {
    DataOptions options = make_options(partition, 4);
    options.batch_by_worker = {12, 4, 8};
    const Sampler sampler = make_sampler(options, set, 3);
    EXPECT_EQ(sampler.batches_per_epoch(), 4);
    EXPECT_EQ(std::ssize(shard_of(sampler, 0)), 48);
    EXPECT_EQ(std::ssize(shard_of(sampler, 1)), 16);
    EXPECT_EQ(std::ssize(shard_of(sampler, 2)), 32);
  }
}

void expect_refused(const std::string& line, const auto& action) {
  expect_error(ExitCode::kBadInput, line, action);
}

TEST(Sampler, RefusesTooFewSamples) {
  const ImageSet set = make_set(20, 3);
  EXPECT_EQ(
      make_sampler(make_options(kInterleaved, 5), set, 4).batches_per_epoch(),
      1);
  expect_refused(
      "data.batch: a step needs 24 samples (the batches of all workers x "
      "accumulate 1), but the train set has 20",
      [&] { make_sampler(make_options(kInterleaved, 6), set, 4); });
  expect_refused(
      "data.batch: a step needs 12 samples (a worker's batch x accumulate 2), "
      "but the shard of worker 0 has 10",
      [&] { make_sampler(make_options(kSorted, 6, 2), set, 2); });
  expect_refused(
      "data.partition: by_class deals 3 classes, expected at least one for "
      "each of 4 workers",
      [&] { make_sampler(make_options(kByClass, 1), set, 4); });
  expect_refused("data.batch: 0, data.accumulate: 1, expected at least 1",
                 [&] { make_sampler(make_options(kInterleaved, 0), set, 1); });
  EXPECT_THROW(
      make_sampler(make_options(kInterleaved, int64_t{1} << 62), set, 4),
      Error);
}

// Lengths in a seeded order, many of them equal.
SampleTable make_lengths(int64_t samples) {
  SampleTable table;
  table.samples = samples;
  for (int64_t i = 0; i < samples; ++i)
    table.lengths.push_back(static_cast<int32_t>(20 + i * 7919 % 173));
  return table;
}

Sampler make_bucketing(Bucketing bucketing,
                       const SampleTable& table,
                       Partitioning partition,
                       int ranks,
                       int64_t batch,
                       int64_t accumulate = 1) {
  DataOptions options = make_options(partition, batch, accumulate);
  options.bucketing = bucketing;
  return {options, table, all_of(table.samples), ranks, kSeed};
}

// The difference between the longest and the shortest sample of a step.
int32_t spread_of_step(const Sampler& sampler,
                       const SampleTable& table,
                       int ranks,
                       int64_t accumulate,
                       int64_t step) {
  int32_t shortest = INT32_MAX, longest = 0;
  for (int64_t i = 0; i < accumulate; ++i)
    for (const int64_t sample :
         global_batch(sampler, ranks, step * accumulate + i)) {
      shortest = std::min(shortest, table.lengths[sample]);
      longest = std::max(longest, table.lengths[sample]);
    }
  return longest - shortest;
}

TEST(Bucketing, StepsHaveSamplesOfLikeLength) {
  const SampleTable table = make_lengths(4000);
  for (const Partitioning partition : {kInterleaved, kRandom, kContiguous})
    for (const int ranks : {1, 4})
      for (const int64_t accumulate : {1, 2}) {
        const int64_t batch = 16 / ranks / accumulate;
        const auto make = [&](Bucketing bucketing) {
          return make_bucketing(bucketing, table, partition, ranks, batch,
                                accumulate);
        };
        const Sampler sampler = make(Bucketing::kLength),
                      plain = make(Bucketing::kNone);
        const int64_t steps = sampler.batches_per_epoch() / accumulate;
        ASSERT_EQ(plain.batches_per_epoch(), sampler.batches_per_epoch());
        ASSERT_GE(steps, 248);
        // A step covers a 64th of 173 lengths, plus some random spread.
        int64_t sum = 0, plain_sum = 0;
        for (int64_t step = 0; step < 2 * steps; ++step) {
          sum += spread_of_step(sampler, table, ranks, accumulate, step);
          plain_sum += spread_of_step(plain, table, ranks, accumulate, step);
        }
        EXPECT_LT(sum, 2 * steps * (ranks == 1 ? 8 : 24)) << name_of(partition);
        EXPECT_GT(plain_sum, 2 * steps * 120) << name_of(partition);
      }
}

TEST(Bucketing, AnEpochHasEachSampleOnceInStepsOfRandomLengths) {
  const SampleTable table = make_lengths(2000);
  const Sampler sampler =
      make_bucketing(Bucketing::kLength, table, kInterleaved, 2, 5);
  ASSERT_EQ(sampler.batches_per_epoch(), 200);
  std::vector<int64_t> first;
  for (int64_t epoch = 0; epoch < 2; ++epoch) {
    std::vector<int64_t> seen;
    int64_t rises = 0;
    int32_t before = 0;
    for (int64_t i = 0; i < 200; ++i) {
      const auto step = global_batch(sampler, 2, epoch * 200 + i);
      rises += table.lengths[step[0]] > before;
      before = table.lengths[step[0]];
      seen.insert(seen.end(), step.begin(), step.end());
    }
    EXPECT_NE(seen, first);
    first = seen;
    EXPECT_GT(rises, 60);
    EXPECT_LT(rises, 140);
    std::sort(seen.begin(), seen.end());
    ASSERT_EQ(seen, all_of(2000));
  }
}

TEST(Bucketing, InterleavedWorkersSeeWhatOneWorkerSees) {
  const SampleTable table = make_lengths(500);
  for (const int64_t accumulate : {1, 3}) {
    const Sampler many = make_bucketing(Bucketing::kLength, table, kInterleaved,
                                        3, 2, accumulate);
    const Sampler one = make_bucketing(Bucketing::kLength, table, kInterleaved,
                                       1, 6, accumulate);
    for (int64_t i = 0; i < 2 * many.batches_per_epoch(); ++i)
      ASSERT_EQ(global_batch(many, 3, i), one.batch(0, i));
  }
}

std::vector<int64_t> union_of(const Split& split) {
  std::vector<int64_t> all = split.train;
  all.insert(all.end(), split.validation.begin(), split.validation.end());
  std::sort(all.begin(), all.end());
  return all;
}

TEST(Validation, HoldsOutWholeGroups) {
  SampleTable table;
  table.groups = {0, 1, 4, 4, 9, 10, 16, 20};  // one of them is empty
  table.samples = 20;
  DataOptions options;
  for (const double wanted : {1.0, 3.0, 7.0, 13.0})
    for (uint64_t seed = 0; seed < 20; ++seed) {
      options.validation = wanted;
      Split split;
      try {
        split = split_validation(options, table, seed);
      } catch (const Error& error) {  // the last group was too long
        EXPECT_EQ(error.code(), ExitCode::kBadInput);
        continue;
      }
      EXPECT_GE(std::ssize(split.validation), wanted);
      EXPECT_LT(std::ssize(split.validation), wanted + 6);
      ASSERT_EQ(union_of(split), all_of(20));
      const auto is_held_out = [&](int64_t sample) {
        return std::binary_search(split.validation.begin(),
                                  split.validation.end(), sample);
      };
      for (size_t group = 0; group + 1 < table.groups.size(); ++group)
        for (int64_t i = table.groups[group]; i < table.groups[group + 1]; ++i)
          EXPECT_EQ(is_held_out(i), is_held_out(table.groups[group]));
    }
}

TEST(Validation, IsDisjointCompleteAndSeeded) {
  const ImageSet set = make_set(50, 5);
  DataOptions options;
  for (const auto& [wanted, held_out] :
       {std::pair{0.0, 0}, {0.1, 5}, {7.0, 7}, {0.98, 49}}) {
    options.validation = wanted;
    const Split split = split_validation(options, set, kSeed);
    EXPECT_EQ(std::ssize(split.validation), held_out);
    EXPECT_EQ(union_of(split), all_of(set.samples));
    EXPECT_TRUE(std::is_sorted(split.train.begin(), split.train.end()));
  }
  options.validation = 10;
  EXPECT_EQ(split_validation(options, set, 1).validation,
            split_validation(options, set, 1).validation);
  EXPECT_NE(split_validation(options, set, 1).validation,
            split_validation(options, set, 2).validation);
}

TEST(Validation, RefusesToTakeAll) {
  const ImageSet set = make_set(50, 5);
  DataOptions options;
  options.validation = 50;
  expect_refused(
      "data.validation: 50 holds out 50 of 50 samples, expected to leave some "
      "to train on",
      [&] { split_validation(options, set, kSeed); });
  options.validation = 2.5;
  expect_refused(
      "data.validation: 2.5, expected a fraction below 1 or a number of "
      "samples",
      [&] { split_validation(options, set, kSeed); });
  options.validation = -1;
  EXPECT_THROW(split_validation(options, set, kSeed), Error);
}

}  // namespace
}  // namespace syncopate
