#include "data/sampler.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <exception>
#include <mutex>
#include <new>
#include <utility>

#include "base/check.h"
#include "base/rng.h"
#include "base/text.h"
#include "base/thread.h"

namespace syncopate {
namespace {

// Streams of Rng(seed, kPartition, stream).
constexpr uint64_t kValidationStream = 1, kShardStream = 2;
// A stream of Rng(seed, kDataOrder, epoch, stream) above those of ranks.
constexpr uint64_t kStepStream = uint64_t{1} << 32;

using Indices = std::vector<int64_t>;

// Nearly equal blocks.
std::vector<Indices> blocks(const Indices& order, int ranks) {
  const int64_t n = std::ssize(order);
  std::vector<Indices> shards;
  for (int rank = 0; rank < ranks; ++rank)
    shards.emplace_back(order.begin() + n * rank / ranks,
                        order.begin() + n * (rank + 1) / ranks);
  return shards;
}

Indices reordered(const Indices& indices, const Indices& order) {
  Indices result;
  result.reserve(order.size());
  for (const int64_t i : order)
    result.push_back(indices[static_cast<size_t>(i)]);
  return result;
}

// The samples that each stream draws from: a single stream if interleaved,
// otherwise one per worker.
std::vector<Indices> make_shards(Partitioning partition,
                                 const SampleTable& set,
                                 const Indices& indices,
                                 int ranks,
                                 uint64_t seed) {
  using enum Partitioning;
  const auto& label_of = set.label_of;
  if ((partition == kSorted || partition == kByClass) && !label_of)
    fail(ExitCode::kBadInput,
         "data.partition: {}: these samples have no classes; expected "
         "interleaved, random or contiguous",
         partition);
  switch (partition) {
    case kInterleaved:
      return {indices};
    case kContiguous:
      return blocks(indices, ranks);
    case kRandom: {
      const Rng rng(seed, Purpose::kPartition, kShardStream);
      return blocks(reordered(indices, permutation(std::ssize(indices), rng)),
                    ranks);
    }
    case kSorted: {
      Indices sorted = indices;
      std::ranges::stable_sort(sorted, {}, label_of);
      return blocks(sorted, ranks);
    }
    case kByClass: {
      if (set.classes < ranks)
        fail(ExitCode::kBadInput,
             "data.partition: by_class deals {} classes, expected at least one "
             "for each of {} workers",
             set.classes, ranks);
      std::vector<Indices> shards(static_cast<size_t>(ranks));
      for (const int64_t sample : indices)
        shards[static_cast<size_t>(label_of(sample) % ranks)].push_back(sample);
      return shards;
    }
  }
  CHECK(false);
}

}  // namespace

int64_t DataOptions::batch_of(int rank) const {
  return batch_by_worker.empty()
             ? batch
             : static_cast<int64_t>(batch_by_worker[static_cast<size_t>(rank)]);
}

Split split_validation(const DataOptions& options,
                       const SampleTable& train,
                       uint64_t seed) {
  const double wanted = options.validation;
  if (!(wanted >= 0) || (wanted >= 1 && wanted != std::floor(wanted)))
    fail(ExitCode::kBadInput,
         "data.validation: {}, expected a fraction below 1 or a number of "
         "samples",
         wanted);
  const auto samples = static_cast<double>(train.samples);
  const double held_out = wanted < 1 ? std::round(wanted * samples) : wanted;
  if (wanted > 0 && held_out < 1)
    fail(ExitCode::kBadInput,
         "data.validation: {} of {} samples holds out none", wanted,
         train.samples);
  if (held_out >= samples)
    fail(ExitCode::kBadInput,
         "data.validation: {} holds out {} of {} samples, expected to leave "
         "some to train on",
         wanted, held_out, train.samples);
  const Rng rng(seed, Purpose::kPartition, kValidationStream);
  const int64_t groups =
      train.groups.empty() ? train.samples : std::ssize(train.groups) - 1;
  const auto first_of = [&](int64_t group) {
    return train.groups.empty() ? group
                                : train.groups[static_cast<size_t>(group)];
  };
  const Indices order = permutation(groups, rng);
  // Hold out whole groups from the end of the order until there are enough.
  Split split;
  for (auto group = order.rbegin(); group != order.rend(); ++group) {
    Indices& part = std::ssize(split.validation) < held_out ? split.validation
                                                            : split.train;
    for (int64_t i = first_of(*group); i < first_of(*group + 1); ++i)
      part.push_back(i);
  }
  if (split.train.empty())
    fail(ExitCode::kBadInput,
         "data.validation: {} holds out everything, expected to leave some to "
         "train on",
         wanted);
  // The contiguous partition needs file order.
  std::sort(split.train.begin(), split.train.end());
  std::sort(split.validation.begin(), split.validation.end());
  return split;
}

// Groups an epoch's random order by length (see Sampler): `steps` steps of
// `drawn` samples each, followed by the remaining samples.
static Indices bucketed(const Indices& order,
                        const std::vector<int32_t>& lengths,
                        int64_t steps,
                        int64_t drawn,
                        const Rng& rng) {
  constexpr int64_t kWindow = 64;  // steps
  Indices sorted = order;
  for (int64_t step = 0; step < steps; step += kWindow)
    std::ranges::stable_sort(
        sorted.begin() + step * drawn,
        sorted.begin() + std::min(steps, step + kWindow) * drawn, {},
        [&](int64_t sample) { return lengths[static_cast<size_t>(sample)]; });
  Indices result;
  result.reserve(order.size());
  for (const int64_t step : permutation(steps, rng))
    result.insert(result.end(), sorted.begin() + step * drawn,
                  sorted.begin() + (step + 1) * drawn);
  result.insert(result.end(), sorted.begin() + steps * drawn, sorted.end());
  return result;
}

using Order = std::shared_ptr<const Indices>;

// The orders of a stream's epochs. The order of millions of samples takes
// seconds: for them, a thread computes that of the epoch which follows the
// latest one.
class EpochOrders {
 public:
  EpochOrders(int64_t samples, std::function<Indices(int64_t epoch)> make)
      : is_slow_(samples >= kManySamples), make_(std::move(make)) {}
  ~EpochOrders() {
    if (thread_.joinable()) thread_.join();
  }

  Order get(int64_t epoch) {
    const std::lock_guard lock(mutex_);
    if (epoch == epoch_) return order_;
    // A worker in an earlier epoch computes its own order.
    if (epoch < epoch_) return std::make_shared<Indices>(make_(epoch));
    if (thread_.joinable()) thread_.join();
    if (epoch != epoch_ + 1 || next_ == nullptr)
      next_ = std::make_shared<Indices>(make_(epoch));
    order_ = std::exchange(next_, nullptr);
    epoch_ = epoch;
    if (!is_slow_) return order_;
    thread_ = start_without_signals([this, epoch] {
      try {
        next_ = std::make_shared<Indices>(make_(epoch + 1));
      } catch (const std::bad_alloc&) {  // get() tries again
      }
    });
    return order_;
  }

 private:
  static constexpr int64_t kManySamples = 1'000'000;
  bool is_slow_;
  std::function<Indices(int64_t)> make_;
  std::mutex mutex_;
  int64_t epoch_ = -1;  // the latest that was asked for
  Order order_, next_;  // the thread writes next_
  std::thread thread_;
};

struct Sampler::Impl {
  // The order of a worker's latest epoch.
  struct Cached {
    std::mutex mutex;
    int64_t epoch = -1;
    Order order;
  };

  std::vector<int64_t> batch;   // by rank
  std::vector<int64_t> before;  // samples of lower ranks; last: of all ranks
  int64_t steps_per_epoch = 0, batches_per_epoch = 0;
  int ranks = 0;
  uint64_t seed = 0;
  std::vector<Indices> shards;
  std::vector<int32_t> lengths;    // by sample; empty: no bucketing
  std::vector<int64_t> drawn;      // by shard: samples of a step
  std::vector<Cached> cached;      // by rank
  std::deque<EpochOrders> orders;  // by shard; last: their threads use the rest

  bool is_interleaved() const { return shards.size() == 1; }
  Indices make_order(int64_t stream, int64_t epoch) const;
};

Indices Sampler::Impl::make_order(int64_t stream, int64_t epoch) const {
  const Indices& shard = shards[static_cast<size_t>(stream)];
  const Rng rng(seed, Purpose::kDataOrder, static_cast<uint64_t>(epoch),
                static_cast<uint64_t>(stream));
  Indices order = reordered(shard, permutation(std::ssize(shard), rng));
  if (lengths.empty()) return order;
  // All workers use the same order of steps in an epoch, so that even workers
  // with separate shares have samples of similar lengths in a step.
  return bucketed(order, lengths, steps_per_epoch,
                  drawn[static_cast<size_t>(stream)],
                  Rng(seed, Purpose::kDataOrder, static_cast<uint64_t>(epoch),
                      kStepStream));
}

// With one worker every partition is one shard, the whole set.
Sampler::Sampler(const DataOptions& options,
                 const SampleTable& set,
                 std::vector<int64_t> indices,
                 int ranks,
                 uint64_t seed)
    : impl_(std::make_shared<Impl>()) {
  CHECK(ranks >= 1);
  if (options.batch < 1 || options.accumulate < 1)
    fail(ExitCode::kBadInput,
         "data.batch: {}, data.accumulate: {}, expected at least 1",
         options.batch, options.accumulate);
  for (int rank = 0; rank < ranks; ++rank)
    impl_->batch.push_back(options.batch_of(rank));
  impl_->ranks = ranks;
  impl_->seed = seed;
  impl_->shards = make_shards(options.partition, set, indices, ranks, seed);
  impl_->cached = std::vector<Impl::Cached>(static_cast<size_t>(ranks));
  if (options.bucketing == Bucketing::kLength) impl_->lengths = set.lengths;

  // The batches of a step are drawn together, so whole steps fill an epoch.
  const bool is_interleaved = impl_->is_interleaved();
  int64_t steps_per_epoch = INT64_MAX;
  for (int rank = 0; rank < (is_interleaved ? 1 : ranks); ++rank) {
    const int64_t samples =
        std::ssize(impl_->shards[static_cast<size_t>(rank)]);
    double needed = 0;
    for (int other = 0; other < ranks; ++other)
      if (is_interleaved || other == rank)
        needed += static_cast<double>(impl_->batch[other]) *
                  static_cast<double>(options.accumulate);
    if (needed > static_cast<double>(samples))
      fail(ExitCode::kBadInput,
           "data.batch: a step takes {} samples ({} x accumulate {}), but {} "
           "has {}",
           needed,
           is_interleaved ? "the batches of all workers" : "a worker's batch",
           options.accumulate,
           is_interleaved ? "the train set"
                          : fmt::format("the shard of worker {}", rank),
           samples);
    impl_->drawn.push_back(static_cast<int64_t>(needed));
    steps_per_epoch = std::min(steps_per_epoch, samples / impl_->drawn.back());
  }
  // After the refusals above no sum of batches overflows.
  impl_->before.assign(1, 0);
  for (const int64_t batch : impl_->batch)
    impl_->before.push_back(impl_->before.back() + batch);
  impl_->steps_per_epoch = steps_per_epoch;
  impl_->batches_per_epoch = steps_per_epoch * options.accumulate;
  for (int64_t stream = 0; stream < std::ssize(impl_->shards); ++stream)
    impl_->orders.emplace_back(
        std::ssize(impl_->shards[static_cast<size_t>(stream)]),
        [impl = impl_.get(), stream](int64_t epoch) {
          return impl->make_order(stream, epoch);
        });
}

uint64_t Sampler::first_sample(int rank, int64_t index) const {
  return static_cast<uint64_t>(index * impl_->before.back() +
                               impl_->before[rank]);
}

int64_t Sampler::batches_per_epoch() const {
  return impl_->batches_per_epoch;
}

std::vector<int64_t> Sampler::batch(int rank, int64_t index) const {
  Impl& impl = *impl_;
  CHECK(rank >= 0 && rank < impl.ranks && index >= 0);
  const int64_t epoch = index / impl.batches_per_epoch;
  const int64_t within = index % impl.batches_per_epoch;
  const int64_t stream = impl.is_interleaved() ? 0 : rank;
  Impl::Cached& cached = impl.cached[static_cast<size_t>(rank)];
  const std::lock_guard lock(cached.mutex);
  if (cached.epoch != epoch) {
    cached.order = impl.orders[static_cast<size_t>(stream)].get(epoch);
    cached.epoch = epoch;
  }
  // If interleaved, the workers' batches in rank order are consecutive.
  const int64_t batch = impl.batch[rank];
  const int64_t position = impl.is_interleaved()
                               ? within * impl.before.back() + impl.before[rank]
                               : within * batch;
  const auto first = cached.order->begin() + position;
  return {first, first + batch};
}

}  // namespace syncopate
