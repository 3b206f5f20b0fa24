#include "data/images/loader.h"

namespace syncopate {
namespace {

// `fill(sample, out)` writes an image (H, W, C).
template <typename Fill>
void fill_batch(HostBatch& batch,
                const ImageSet& set,
                const ImageReader& reader,
                std::span<const int64_t> samples,
                const Fill& fill) {
  const int64_t image_elems = set.spec.elems();
  batch.images.resize(samples.size() * static_cast<size_t>(image_elems));
  batch.labels.resize(samples.size());
  reader.will_need(samples);
  reader.for_each(std::ssize(samples), [&](int64_t i) {
    const auto place = static_cast<size_t>(i);
    fill(samples[place], batch.images.data() + i * image_elems);
    batch.labels[place] = set.labels[static_cast<size_t>(samples[place])];
  });
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
  fill_batch(batch, set, reader, indices, [&](int64_t sample, float* out) {
    reader.fill(
        sample,
        [&](int64_t H, int64_t W) { return evaluation_map(set, sample, H, W); },
        out);
  });
}

Loader::Loader(const DataOptions& options,
               const ImageSet& set,
               const Normalization& normalization,
               const Sampler& sampler,
               int rank,
               uint64_t seed,
               int64_t first_batch)
    : set_(set),
      sampler_(sampler),
      augmenter_(options, set, normalization, seed),
      batches_(options.prefetch,
               [this, rank, first_batch](int64_t number, HostBatch& batch) {
                 const int64_t index = first_batch + number;
                 const int64_t epoch = index / sampler_.batches_per_epoch();
                 fill_batch(batch, set_, augmenter_.reader(),
                            sampler_.batch(rank, index),
                            [&](int64_t sample, float* out) {
                              augmenter_.fill(epoch, sample, out);
                            });
               }) {
  CHECK(first_batch >= 0);
}

}  // namespace syncopate
