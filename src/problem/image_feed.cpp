// A worker's training batches of images.
//
// On the CPU they are the loader's own batches. A GPU with enough memory keeps
// the whole training set; a batch is then a list of random draws, and a kernel
// reads, augments and normalises the images. If the GPU can decode JPEG files,
// the host only reads them. Otherwise the loader's batches are copied through
// page-locked memory.
#include "data/images/augment.h"
#include "data/images/loader.h"
#include "data/images/normalization.h"
#include "ops/augment.h"
#include "problem/feed.h"
#include "problem/jpeg_feed.h"
#include "problem/setup.h"

namespace syncopate {

int64_t image_batch_bytes(const ImageSpec& spec, int64_t samples) {
  return packed_bytes(
      {.samples = samples,
       .images = make_const_tensor(nullptr, DType::kF32,
                                   Shape{samples, spec.C, spec.H, spec.W},
                                   Layout::kNhwc),
       .labels = make_const_tensor(nullptr, DType::kI32, Shape{samples})});
}

// --- a training set on the device

std::unique_ptr<ResidentSet> ResidentSet::make(
    Context& context,
    const ImageSet& set,
    const Normalization& normalization,
    int processes_a_device) {
  Device& device = context.device();
  if (device.kind() == DeviceKind::kCpu) return nullptr;
  const ImageSet::Resident stored = set.resident();
  const bool is_bytes = !stored.bytes.empty();
  const auto pixel_bytes = static_cast<int64_t>(
      is_bytes ? stored.bytes.size_bytes() : stored.floats.size_bytes());
  if (pixel_bytes == 0 ||
      pixel_bytes > device.total_bytes() / 4 / processes_a_device)
    return nullptr;

  const int64_t C = set.spec.C;
  auto resident = std::make_unique<ResidentSet>();
  const int64_t pixels_end = aligned(pixel_bytes);
  resident->memory = Buffer(device, pixels_end + 2 * C * 4);
  char* memory = resident->memory.as<char>();
  Stream& stream = context.stream();
  set.read_ahead();
  device.copy(memory,
              is_bytes ? static_cast<const void*>(stored.bytes.data())
                       : stored.floats.data(),
              pixel_bytes, stream);
  resident->set_scale(context, pixel_scale(set, normalization));
  resident->pixels =
      make_const_tensor(memory, is_bytes ? DType::kU8 : DType::kF32,
                        Shape{set.samples, stored.H, stored.W, C});
  resident->scale =
      make_const_tensor(memory + pixels_end, DType::kF32, Shape{C});
  resident->shift =
      make_const_tensor(memory + pixels_end + C * 4, DType::kF32, Shape{C});
  return resident;
}

void ResidentSet::set_scale(Context& context, const PixelScale& values) {
  const auto bytes = static_cast<int64_t>(values.scale.size() * sizeof(float));
  char* shift_place = memory.as<char>() + memory.bytes() - bytes;
  Stream& stream = context.stream();
  context.device().copy(shift_place - bytes, values.scale.data(), bytes,
                        stream);
  context.device().copy(shift_place, values.shift.data(), bytes, stream);
  stream.synchronize();
}

// --- feeds

namespace {

class LoaderFeed final : public Feed {
 public:
  LoaderFeed(const Setup& setup,
             const ImageProblem& problem,
             int rank,
             int64_t first_batch)
      : loader_(setup.options.data,
                problem.train(),
                problem.normalization(),
                *setup.sampler,
                rank,
                static_cast<uint64_t>(setup.options.run.seed),
                first_batch),
        upload_(
            *setup.context,
            image_batch_bytes(problem.train().spec, setup.options.data.batch),
            setup.options.data.accumulate) {}
  Batch next() override { return upload_.put(loader_.next()); }
  double wait_s() const override { return loader_.wait_s(); }

 private:
  Loader loader_;
  BatchUpload upload_;
};

class ResidentFeed final : public Feed {
 public:
  ResidentFeed(const Setup& setup,
               const ImageProblem& problem,
               int rank,
               int64_t first_batch)
      : setup_(setup),
        problem_(problem),
        rank_(rank),
        next_(first_batch),
        augmenter_(setup.options.data,
                   problem.train(),
                   problem.normalization(),
                   static_cast<uint64_t>(setup.options.run.seed)),
        staging_(*setup.device, list_bytes(), setup.options.data.accumulate),
        images_(*setup.device, batch() * spec().C * spec().H * spec().W * 4),
        lists_(*setup.device, list_bytes()) {}

  Batch next() override {
    const int64_t index = next_++;
    const int64_t epoch = index / setup_.sampler->batches_per_epoch();
    const std::vector<int64_t> samples = setup_.sampler->batch(rank_, index);
    const int64_t N = std::ssize(samples);
    void* staged = staging_.next();
    auto* maps = static_cast<ImageMap*>(staged);
    auto* labels = reinterpret_cast<int32_t*>(maps + batch());
    for (int64_t n = 0; n < N; ++n) {
      maps[n] = augmenter_.map(epoch, samples[n]);
      labels[n] = problem_.train().labels[samples[n]];
    }
    Context& context = *setup_.context;
    context.device().copy(lists_.data(), staged, list_bytes(),
                          context.stream());
    staging_.sent(context.stream());
    const Shape shape{N, spec().C, spec().H, spec().W};
    const Tensor images =
        make_tensor(images_.data(), DType::kF32, shape, Layout::kNhwc);
    const ResidentSet& set = *problem_.resident();
    gather_images(context, images, set.pixels, set.scale, set.shift,
                  lists_.as<ImageMap>());
    return {N, images,
            make_const_tensor(lists_.as<ImageMap>() + batch(), DType::kI32,
                              Shape{N})};
  }
  double wait_s() const override { return 0; }

 private:
  const ImageSpec& spec() const { return problem_.train().spec; }
  int64_t batch() const { return setup_.options.data.batch_of(rank_); }
  int64_t list_bytes() const {
    return batch() * static_cast<int64_t>(sizeof(ImageMap) + sizeof(int32_t));
  }

  const Setup& setup_;
  const ImageProblem& problem_;
  int rank_;
  int64_t next_;
  Augmenter augmenter_;
  Staging staging_;
  Buffer images_, lists_;  // lists: maps, then labels
};

}  // namespace

std::unique_ptr<Feed> ImageProblem::make_feed(const Setup& setup,
                                              int rank,
                                              int64_t first_batch) const {
  if (resident_)
    return std::make_unique<ResidentFeed>(setup, *this, rank, first_batch);
  if (decodes_on_device(setup, *this))
    return make_jpeg_feed(setup, *this, rank, first_batch);
  return std::make_unique<LoaderFeed>(setup, *this, rank, first_batch);
}

}  // namespace syncopate
