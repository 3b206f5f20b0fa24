#include "data/sampler.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <exception>
#include <mutex>
#include <new>
#include <utility>
#include <variant>

#include "base/check.h"
#include "base/rng.h"
#include "base/shuffle.h"
#include "base/text.h"
#include "base/thread.h"

namespace syncopate {
namespace {

// Streams of Rng(seed, kPartition, stream).
constexpr uint64_t kValidationStream = 1, kShardStream = 2;
// A stream of Rng(seed, kDataOrder, epoch, stream) above those of ranks.
constexpr uint64_t kStepStream = uint64_t{1} << 32;

using Indices = std::vector<int64_t>;

// Blocks in proportion to the workers' batches, so that all end their epochs at
// about the same step.
std::vector<Indices> blocks(const Indices& order,
                            const std::vector<int64_t>& batches) {
  const int64_t n = std::ssize(order), ranks = std::ssize(batches);
  std::vector<int64_t> until = {0};  // samples of a step
  for (const int64_t batch : batches) until.push_back(until.back() + batch);
  // n * until / step without overflow, and exact, so that a set of whole steps
  // is divided into them.
  const int64_t step = until.back(), whole = n / step, rest = n % step;
  const auto bound = [&](int64_t rank) {
    return whole * until[rank] + rest * until[rank] / step;
  };
  std::vector<Indices> shards;
  for (int64_t rank = 0; rank < ranks; ++rank)
    shards.emplace_back(order.begin() + bound(rank),
                        order.begin() + bound(rank + 1));
  return shards;
}

// The samples that each stream draws from: a single stream if interleaved,
// otherwise one per worker.
std::vector<Indices> make_shards(Partitioning partition,
                                 const SampleTable& set,
                                 const Indices& indices,
                                 const std::vector<int64_t>& batches,
                                 uint64_t seed) {
  using enum Partitioning;
  const int ranks = static_cast<int>(batches.size());
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
      return blocks(indices, batches);
    case kRandom: {
      Indices shuffled = indices;
      shuffle(shuffled, Rng(seed, Purpose::kPartition, kShardStream));
      return blocks(shuffled, batches);
    }
    case kSorted: {
      Indices sorted = indices;
      std::ranges::stable_sort(sorted, {}, label_of);
      return blocks(sorted, batches);
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
  const int64_t groups =
      train.groups.empty() ? train.samples : std::ssize(train.groups) - 1;
  const auto first_of = [&](int64_t group) {
    return train.groups.empty() ? group
                                : train.groups[static_cast<size_t>(group)];
  };
  // Hold out whole groups from the end of a random order until there are
  // enough.
  std::vector<bool> is_held_out(static_cast<size_t>(groups));
  if (held_out > 0) {
    const Indices order =
        permutation(groups, Rng(seed, Purpose::kPartition, kValidationStream));
    double held = 0;
    for (auto group = order.rbegin(); held < held_out && group != order.rend();
         ++group) {
      is_held_out[static_cast<size_t>(*group)] = true;
      held += static_cast<double>(first_of(*group + 1) - first_of(*group));
    }
  }
  // The contiguous partition needs file order.
  Split split;
  for (int64_t group = 0; group < groups; ++group) {
    Indices& part = is_held_out[static_cast<size_t>(group)] ? split.validation
                                                            : split.train;
    for (int64_t i = first_of(group); i < first_of(group + 1); ++i)
      part.push_back(i);
  }
  if (split.train.empty())
    fail(ExitCode::kBadInput,
         "data.validation: {} holds out everything, expected to leave some to "
         "train on",
         wanted);
  return split;
}

namespace {

// The numbers of samples, in half the memory where they fit: an order of tens
// of millions is then shuffled in little more than half the time.
using Numbers = std::variant<std::vector<int32_t>, Indices>;
using Order = std::shared_ptr<const Numbers>;

Numbers numbers_of(Indices indices) {
  const auto most = std::ranges::max_element(indices);
  if (most != indices.end() && *most > INT32_MAX) return indices;
  return std::vector<int32_t>(indices.begin(), indices.end());
}

int64_t count_of(const Numbers& numbers) {
  return std::visit([](const auto& all) { return std::ssize(all); }, numbers);
}

// Groups an epoch's random order by length (see Sampler): `steps` steps of
// `drawn` samples each, followed by the remaining samples.
template <typename Number>
void bucket(std::vector<Number>& order,
            const std::vector<int32_t>& lengths,
            int64_t steps,
            int64_t drawn,
            const Rng& rng) {
  constexpr int64_t kWindow = 64;  // steps
  std::vector<Number> sorted = order;
  for (int64_t step = 0; step < steps; step += kWindow)
    std::ranges::stable_sort(
        sorted.begin() + step * drawn,
        sorted.begin() + std::min(steps, step + kWindow) * drawn, {},
        [&](Number sample) { return lengths[static_cast<size_t>(sample)]; });
  auto place = order.begin();
  for (const int64_t step : permutation(steps, rng))
    place = std::copy_n(sorted.begin() + step * drawn, drawn, place);
}

// The orders of a stream's epochs. That of tens of millions of samples takes a
// second: where it takes more than a millisecond, a thread computes that of the
// epoch which follows the latest one.
class EpochOrders {
 public:
  EpochOrders(int64_t samples, std::function<Numbers(int64_t epoch)> make)
      : is_slow_(samples >= kManySamples), make_(std::move(make)) {}
  ~EpochOrders() {
    if (thread_.joinable()) thread_.join();
  }

  Order get(int64_t epoch) {
    const std::lock_guard lock(mutex_);
    if (epoch == epoch_) return order_;
    // A worker in an earlier epoch computes its own order.
    if (epoch < epoch_) return std::make_shared<Numbers>(make_(epoch));
    if (thread_.joinable()) thread_.join();
    if (epoch != epoch_ + 1 || next_ == nullptr)
      next_ = std::make_shared<Numbers>(make_(epoch));
    Order last = std::exchange(order_, std::exchange(next_, nullptr));
    epoch_ = epoch;
    if (!is_slow_) return order_;
    // Freeing hundreds of megabytes takes its time as well.
    thread_ =
        start_without_signals([this, epoch, last = std::move(last)]() mutable {
          try {
            next_ = std::make_shared<Numbers>(make_(epoch + 1));
          } catch (const std::bad_alloc&) {  // get() tries again
          }
          last.reset();
        });
    return order_;
  }

 private:
  static constexpr int64_t kManySamples = 1 << 15;
  bool is_slow_;
  std::function<Numbers(int64_t)> make_;
  std::mutex mutex_;
  int64_t epoch_ = -1;  // the latest that was asked for
  Order order_, next_;  // the thread writes next_
  std::thread thread_;
};

}  // namespace

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
  std::vector<Numbers> shards;
  std::vector<int32_t> lengths;    // by sample; empty: no bucketing
  std::vector<int64_t> drawn;      // by shard: samples of a step
  std::vector<Cached> cached;      // by rank
  std::deque<EpochOrders> orders;  // by shard; last: their threads use the rest

  bool is_interleaved() const { return shards.size() == 1; }
  Numbers make_order(int64_t stream, int64_t epoch) const;
};

Numbers Sampler::Impl::make_order(int64_t stream, int64_t epoch) const {
  const auto rng_of = [&](uint64_t of) {
    return Rng(seed, Purpose::kDataOrder, static_cast<uint64_t>(epoch), of);
  };
  Numbers numbers = shards[static_cast<size_t>(stream)];
  std::visit(
      [&](auto& order) {
        shuffle(order, rng_of(static_cast<uint64_t>(stream)));
        // All workers use the same order of steps in an epoch, so that even
        // workers with separate shares have samples of similar lengths in a
        // step.
        if (!lengths.empty())
          bucket(order, lengths, steps_per_epoch,
                 drawn[static_cast<size_t>(stream)], rng_of(kStepStream));
      },
      numbers);
  return numbers;
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
  for (Indices& shard :
       make_shards(options.partition, set, indices, impl_->batch, seed))
    impl_->shards.push_back(numbers_of(std::move(shard)));
  impl_->cached = std::vector<Impl::Cached>(static_cast<size_t>(ranks));
  if (options.bucketing == Bucketing::kLength) impl_->lengths = set.lengths;

  // The batches of a step are drawn together, so whole steps fill an epoch.
  const bool is_interleaved = impl_->is_interleaved();
  int64_t steps_per_epoch = INT64_MAX;
  for (int rank = 0; rank < (is_interleaved ? 1 : ranks); ++rank) {
    const int64_t samples = count_of(impl_->shards[static_cast<size_t>(rank)]);
    double needed = 0;
    for (int other = 0; other < ranks; ++other)
      if (is_interleaved || other == rank)
        needed += static_cast<double>(impl_->batch[other]) *
                  static_cast<double>(options.accumulate);
    if (needed > static_cast<double>(samples))
      fail(ExitCode::kBadInput,
           "data.batch: a step needs {} samples ({} x accumulate {}), but {} "
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
        count_of(impl_->shards[static_cast<size_t>(stream)]),
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
  return std::visit(
      [&](const auto& order) {
        const auto first = order.begin() + position;
        return std::vector<int64_t>(first, first + batch);
      },
      *cached.order);
}

}  // namespace syncopate
