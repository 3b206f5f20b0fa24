#include "data/images/loader.h"

#include "base/read_ahead.h"
#include "data/images/augment.h"

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

namespace {

constexpr int64_t kPrefetchLimit = 1024;  // far above any use

int64_t checked_prefetch(const DataOptions& options) {
  if (options.prefetch < 0 || options.prefetch > kPrefetchLimit)
    fail(ExitCode::kBadInput, "data.prefetch: {}, expected 0 to {}",
         options.prefetch, kPrefetchLimit);
  return options.prefetch;
}

}  // namespace

struct Loader::Impl {
  const ImageSet& set;
  Sampler sampler;
  Augmenter augmenter;
  int rank;
  ReadAhead<HostBatch> batches;  // last: its thread uses the others

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
        batches(checked_prefetch(options),
                [this, first](int64_t number, HostBatch& batch) {
                  fill(batch, first + number);
                }) {}

  void fill(HostBatch& batch, int64_t index) const {
    const int64_t epoch = index / sampler.batches_per_epoch();
    const int64_t image_elems = set.spec.H * set.spec.W * set.spec.C;
    const std::vector<int64_t> samples = sampler.batch(rank, index);
    resize(batch, set.spec, std::ssize(samples));
    augmenter.reader().will_need(samples);
    augmenter.reader().for_each(std::ssize(samples), [&](int64_t i) {
      const auto place = static_cast<size_t>(i);
      const int64_t sample = samples[place];
      augmenter.fill(epoch, sample, batch.images.data() + i * image_elems);
      batch.labels[place] = set.labels[static_cast<size_t>(sample)];
    });
  }
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
  return impl_->batches.next().view(impl_->set.spec);
}

double Loader::wait_s() const {
  return impl_->batches.wait_s();
}

}  // namespace syncopate
