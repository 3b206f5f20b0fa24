#include "data/loader.h"

#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>

#include "base/clock.h"
#include "base/thread.h"
#include "data/augment.h"

namespace syncopate {
namespace {

void resize(HostBatch& batch, const ImageSpec& spec, int64_t samples) {
  batch.images.resize(static_cast<size_t>(samples * spec.H * spec.W * spec.C));
  batch.labels.resize(static_cast<size_t>(samples));
}

}  // namespace

Batch HostBatch::view(const ImageSpec& spec) const {
  const int64_t N = std::ssize(labels);
  return {
      .samples = N,
      .images = make_const_tensor(images.data(), DType::kF32,
                                  {N, spec.C, spec.H, spec.W}, Layout::kNhwc),
      .labels = make_const_tensor(labels.data(), DType::kI32, {N})};
}

void fill_evaluation_batch(HostBatch& batch,
                           const ImageSet& set,
                           const Normalization& normalization,
                           std::span<const int64_t> indices) {
  const ImageReader reader(set, normalization);
  const int64_t image_elems = set.spec.H * set.spec.W * set.spec.C;
  resize(batch, set.spec, std::ssize(indices));
  reader.will_need(indices);
  reader.for_each(std::ssize(indices), [&](int64_t i) {
    const auto place = static_cast<size_t>(i);
    const int64_t sample = indices[place];
    reader.fill(
        sample,
        [&](int64_t H, int64_t W) { return evaluation_map(set, sample, H, W); },
        batch.images.data() + i * image_elems);
    batch.labels[place] = set.labels[static_cast<size_t>(sample)];
  });
}

// Batches first, first + 1, ... go round a ring of buffers: `filled` counts
// those that were prepared, `taken` those handed out. The latest one handed
// out is the caller's until it asks for the next.
struct Loader::Impl {
  const ImageSet& set;
  Sampler sampler;
  Augmenter augmenter;
  int rank;
  int64_t first_batch;
  bool is_threaded;
  std::vector<HostBatch> ring;
  double wait_s = 0;

  std::mutex mutex;
  std::condition_variable changed;
  int64_t filled = 0, taken = 0;
  bool stopping = false;
  std::exception_ptr error;
  std::thread thread;

  Impl(const DataOptions& options,
       const ImageSet& image_set,
       const Normalization& normalization,
       const Sampler& order,
       int worker,
       uint64_t seed,
       int64_t first)
      : set(image_set),
        sampler(order),
        augmenter(options, image_set, normalization, seed),
        rank(worker),
        first_batch(first),
        is_threaded(options.prefetch > 0) {
    if (options.prefetch < 0 || options.prefetch > kPrefetchLimit)
      fail(ExitCode::kBadInput, "data.prefetch: {}, expected 0 to {}",
           options.prefetch, kPrefetchLimit);
    // One more than prepared ahead: the one the caller holds.
    ring.resize(static_cast<size_t>(options.prefetch + 1));
  }

  ~Impl() {
    {
      const std::lock_guard lock(mutex);
      stopping = true;
    }
    changed.notify_all();
    if (thread.joinable()) thread.join();
  }

  HostBatch& slot(int64_t number) {
    return ring[static_cast<size_t>(number % std::ssize(ring))];
  }

  void fill(int64_t number) {
    const int64_t index = first_batch + number;
    const int64_t epoch = index / sampler.batches_per_epoch();
    const int64_t image_elems = set.spec.H * set.spec.W * set.spec.C;
    const std::vector<int64_t> samples = sampler.batch(rank, index);
    HostBatch& batch = slot(number);
    resize(batch, set.spec, std::ssize(samples));
    augmenter.reader().will_need(samples);
    augmenter.reader().for_each(std::ssize(samples), [&](int64_t i) {
      const auto place = static_cast<size_t>(i);
      const int64_t sample = samples[place];
      augmenter.fill(epoch, sample, batch.images.data() + i * image_elems);
      batch.labels[place] = set.labels[static_cast<size_t>(sample)];
    });
  }

  // A slot is free unless it is prepared or the caller's.
  bool has_free_slot() const {
    const int64_t held = taken > 0 ? 1 : 0;
    return filled - taken + held < std::ssize(ring);
  }

  void prepare_ahead() {
    try {
      for (;;) {
        {
          std::unique_lock lock(mutex);
          changed.wait(lock, [&] { return stopping || has_free_slot(); });
          if (stopping) return;
        }
        fill(filled);
        const std::lock_guard lock(mutex);
        ++filled;
        changed.notify_all();
      }
    } catch (...) {
      const std::lock_guard lock(mutex);
      error = std::current_exception();
      changed.notify_all();
    }
  }

  Batch next_prepared() {
    std::unique_lock lock(mutex);
    if (!thread.joinable())
      thread = start_without_signals([this] { prepare_ahead(); });
    changed.wait(lock, [&] { return filled > taken || error; });
    if (filled == taken) std::rethrow_exception(error);
    changed.notify_all();
    return slot(taken++).view(set.spec);
  }

  static constexpr int64_t kPrefetchLimit = 1024;  // far above any use
};

Loader::Loader(const DataOptions& options,
               const ImageSet& set,
               const Normalization& normalization,
               const Sampler& sampler,
               int rank,
               uint64_t seed,
               int64_t first_batch)
    : impl_(std::make_unique<Impl>(options,
                                   set,
                                   normalization,
                                   sampler,
                                   rank,
                                   seed,
                                   first_batch)) {
  CHECK(first_batch >= 0);
}

Loader::Loader(Loader&&) noexcept = default;
Loader::~Loader() = default;

Batch Loader::next() {
  const double begin_s = monotonic_s();
  Batch batch;
  if (impl_->is_threaded) {
    batch = impl_->next_prepared();
  } else {
    impl_->fill(impl_->taken);
    batch = impl_->slot(impl_->taken++).view(impl_->set.spec);
  }
  impl_->wait_s += monotonic_s() - begin_s;
  return batch;
}

double Loader::wait_s() const {
  return impl_->wait_s;
}

}  // namespace syncopate
