#include "problem/jpeg_feed.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/read_ahead.h"
#include "data/images/augment.h"
#include "data/sampler.h"
#include "ops/augment.h"
#include "ops/jpeg.h"
#include "problem/feed.h"
#include "problem/setup.h"

namespace syncopate {
namespace {

// A batch as prepared by the host. An image is either a file for the device to
// decode, or pixels that the host has decoded and normalised.
struct JpegBatch {
  struct Image {
    int64_t sample = 0;
    std::string file;  // empty: decoded by the host
    JpegSize size{};
    ImageMap map{};
    std::vector<float> pixels;  // (H, W, C)
  };
  int64_t epoch = 0;
  std::vector<Image> images;
};

// The host's decoder reads such an image at 1/2, 1/4 or 1/8 of its size
// (data/jpeg.h), which is smoother than every second pixel.
bool is_seen_reduced(const ImageMap& map) {
  const double across = std::hypot(map.m[0], map.m[3]);
  const double down = std::hypot(map.m[1], map.m[4]);
  constexpr double kHalf = 2 * (1 - 1e-4);  // rounding in the map
  return std::min(across, down) >= kHalf;
}

// Reads the files of a worker's batches ahead of their use, in a thread (or in
// the caller with data.prefetch = 0), and distributes the files of a batch over
// the set's own threads.
class JpegReader {
 public:
  JpegReader(const Setup& setup,
             const ImageProblem& problem,
             int rank,
             int64_t first_batch)
      : set_(problem.train()),
        files_(std::get<JpegFiles>(set_.pixels)),
        sampler_(*setup.sampler),
        augmenter_(setup.options.data,
                   set_,
                   problem.normalization(),
                   static_cast<uint64_t>(setup.options.run.seed)),
        rank_(rank),
        batches_(setup.options.data.prefetch,
                 [this, first_batch](int64_t number, JpegBatch& batch) {
                   read(batch, first_batch + number);
                 }) {}

  JpegBatch next() { return std::move(batches_.next()); }
  double wait_s() const { return batches_.wait_s(); }

  // The image as the host decodes it, or the host's error about the file.
  void decode(int64_t epoch, JpegBatch::Image& image) const {
    const ImageSpec& spec = set_.spec;
    image.file.clear();
    image.pixels.resize(static_cast<size_t>(spec.H * spec.W * spec.C));
    augmenter_.fill(epoch, image.sample, image.pixels.data());
  }
  void for_each(int64_t count, const std::function<void(int64_t)>& body) const {
    augmenter_.reader().for_each(count, body);
  }

 private:
  void read(JpegBatch& batch, int64_t index) const {
    batch.epoch = index / sampler_.batches_per_epoch();
    batch.images.clear();
    for (const int64_t sample : sampler_.batch(rank_, index))
      batch.images.emplace_back().sample = sample;
    for_each(std::ssize(batch.images), [&](int64_t i) {
      read_image(batch.epoch, batch.images[static_cast<size_t>(i)]);
    });
  }

  void read_image(int64_t epoch, JpegBatch::Image& image) const {
    image.file = read_file(files_.path(image.sample));
    const std::optional<JpegSize> size = plain_jpeg_size(image.file);
    if (size) {
      image.size = *size;
      image.map = augmenter_.map(epoch, image.sample, size->H, size->W);
      image.map.image = 0;  // the only one of its size
    }
    if (!size || is_seen_reduced(image.map)) decode(epoch, image);
  }

  const ImageSet& set_;
  const JpegFiles& files_;
  Sampler sampler_;
  Augmenter augmenter_;
  int rank_;
  ReadAhead<JpegBatch> batches_;  // last: its thread uses the others
};

// Decodes alternately into the two halves of a double buffer, on its own stream
// and concurrently with the work on the previous batch.
class JpegFeed final : public Feed {
 public:
  JpegFeed(const Setup& setup,
           const ImageProblem& problem,
           int rank,
           int64_t first_batch)
      : setup_(setup),
        problem_(problem),
        rank_(rank),
        reader_(setup, problem, rank, first_batch),
        stream_(setup.device->make_stream()),
        context_(*setup.device,
                 *stream_,
                 setup.threads,
                 setup.context->determinism()),
        staging_(device(),
                 images_bytes() + list_bytes(),
                 setup.options.data.accumulate),
        normalization_(device(), 2 * spec().C * 4) {
    for (Half& half : halves_)
      half = {.images = Buffer(device(), images_bytes()),
              .list = Buffer(device(), list_bytes()),
              .arrived = device().make_event(),
              .used = device().make_event(),
              .files = {}};
    const PixelScale scale =
        pixel_scale(problem.train(), problem.normalization());
    float* values = normalization_.as<float>();
    device().copy(values, scale.scale.data(), spec().C * 4, *stream_);
    device().copy(values + spec().C, scale.shift.data(), spec().C * 4,
                  *stream_);
    stream_->synchronize();
  }
  ~JpegFeed() override {
    settle(*stream_);
    settle(setup_.context->stream());
  }

  Batch next() override {
    // By now all work on the previous batch has been enqueued on the stream.
    Stream& work = setup_.context->stream();
    halves_[now_].used->record(work);
    now_ = 1 - now_;
    Half& half = halves_[now_];
    half.arrived->synchronize();  // before its files go
    half.files = reader_.next();
    decode(half.files);
    half.used->wait_on(*stream_);
    fill(half);
    half.arrived->record(*stream_);
    half.arrived->wait_on(work);
    const int64_t N = std::ssize(half.files.images);
    return {N, images_of(half, 0, N),
            make_const_tensor(half.list.as<ImageMap>() + batch(), DType::kI32,
                              Shape{N})};
  }
  double wait_s() const override { return reader_.wait_s(); }

 private:
  struct Half {
    Buffer images, list;  // list: maps, then labels
    std::unique_ptr<Event> arrived, used;
    JpegBatch files;
  };

  Device& device() const { return *setup_.device; }
  const ImageSpec& spec() const { return problem_.train().spec; }
  int64_t batch() const { return setup_.options.data.batch_of(rank_); }
  int64_t image_bytes() const { return spec().C * spec().H * spec().W * 4; }
  int64_t images_bytes() const { return batch() * image_bytes(); }
  int64_t list_bytes() const {
    return batch() * static_cast<int64_t>(sizeof(ImageMap) + sizeof(int32_t));
  }
  Tensor images_of(const Half& half, int64_t first, int64_t count) const {
    return make_tensor(half.images.as<char>() + first * image_bytes(),
                       DType::kF32, {count, spec().C, spec().H, spec().W},
                       Layout::kNhwc);
  }

  // Decodes files into decoded_; the host decodes those that the device
  // rejects.
  void decode(JpegBatch& batch) {
    lay_out(batch);
    std::vector<JpegBatch::Image*> owners;
    std::vector<JpegImage> images;
    for (size_t i = 0; i < batch.images.size(); ++i) {
      JpegBatch::Image& image = batch.images[i];
      if (image.file.empty()) continue;
      owners.push_back(&image);
      images.push_back({.file = image.file,
                        .size = image.size,
                        .pixels = decoded_.as<uint8_t>() + offsets_[i]});
    }
    decode_jpegs(context_, images);
    for (size_t i = 0; i < images.size(); ++i)
      if (!images[i].is_decoded) reader_.decode(batch.epoch, *owners[i]);
  }

  // The place of each file's pixels in decoded_.
  void lay_out(const JpegBatch& batch) {
    offsets_.clear();
    int64_t bytes = 0;
    for (const JpegBatch::Image& image : batch.images) {
      offsets_.push_back(bytes);
      if (image.file.empty()) continue;
      bytes += aligned(image.size.H * image.size.W * spec().C);
    }
    make_room(bytes);
  }

  // Batches differ in size; a reserve of one half avoids most reallocations.
  void make_room(int64_t bytes) {
    if (bytes <= decoded_.bytes()) return;
    stream_->synchronize();
    decoded_ = Buffer();
    decoded_ = Buffer(device(), bytes + bytes / 2);
  }

  // Writes normalised images, and labels, into the half.
  void fill(Half& half) {
    std::vector<JpegBatch::Image>& images = half.files.images;
    auto* staged = static_cast<char*>(staging_.next());
    auto* maps = reinterpret_cast<ImageMap*>(staged);
    auto* labels = reinterpret_cast<int32_t*>(maps + batch());
    char* pixels = staged + list_bytes();
    for (size_t i = 0; i < images.size(); ++i) {
      maps[i] = images[i].map;
      labels[i] =
          problem_.train().labels[static_cast<size_t>(images[i].sample)];
    }
    device().copy(half.list.data(), staged, list_bytes(), *stream_);
    const float* values = normalization_.as<float>();
    const Shape channels{spec().C};
    const auto scale = make_const_tensor(values, DType::kF32, channels);
    const auto shift =
        make_const_tensor(values + spec().C, DType::kF32, channels);
    for (size_t i = 0; i < images.size(); ++i) {
      const JpegBatch::Image& image = images[i];
      const auto n = static_cast<int64_t>(i);
      if (image.file.empty()) {
        std::memcpy(pixels, image.pixels.data(),
                    static_cast<size_t>(image_bytes()));
        device().copy(images_of(half, n, 1).data, pixels, image_bytes(),
                      *stream_);
        pixels += image_bytes();
        continue;
      }
      const auto stored =
          make_const_tensor(decoded_.as<uint8_t>() + offsets_[i], DType::kU8,
                            {1, image.size.H, image.size.W, spec().C});
      gather_images(context_, images_of(half, n, 1), stored, scale, shift,
                    half.list.as<ImageMap>() + n);
    }
    staging_.sent(*stream_);
  }

  const Setup& setup_;
  const ImageProblem& problem_;
  int rank_;
  JpegReader reader_;
  std::unique_ptr<Stream> stream_;
  Context context_;
  Staging staging_;               // list, then the host's images
  Buffer normalization_;          // scale (C), then shift (C)
  Buffer decoded_;                // of the batch that is decoded last
  std::vector<int64_t> offsets_;  // in it, by image
  Half halves_[2];
  int now_ = 0;
};

}  // namespace

bool decodes_on_device(const Setup& setup, const ImageProblem& problem) {
  return setup.device->kind() == DeviceKind::kCuda &&
         std::holds_alternative<JpegFiles>(problem.train().pixels) &&
         can_decode_jpegs(*setup.context, setup.options.data.batch);
}

std::unique_ptr<Feed> make_jpeg_feed(const Setup& setup,
                                     const ImageProblem& problem,
                                     int rank,
                                     int64_t first_batch) {
  return std::make_unique<JpegFeed>(setup, problem, rank, first_batch);
}

}  // namespace syncopate
