#include "app/feed.h"

#include <cstring>

#include "app/engine.h"
#include "app/jpeg_feed.h"
#include "data/augment.h"

namespace syncopate {

// --- staging

Staging::Staging(Device& device, int64_t bytes, int64_t batches_a_step) {
  for (int64_t i = 0; i < batches_a_step + 2; ++i)
    pieces_.push_back({HostBuffer(device, bytes), device.make_event()});
}

void* Staging::next() {
  piece_ = (piece_ + 1) % pieces_.size();
  pieces_[piece_].copied->synchronize();
  return pieces_[piece_].memory.as<void>();
}

void Staging::sent(Stream& stream) {
  pieces_[piece_].copied->record(stream);
}

BatchUpload::BatchUpload(Context& context,
                         const ImageSpec& spec,
                         int64_t max_samples,
                         int64_t batches_a_step)
    : context_(context) {
  Device& device = context.device();
  if (device.kind() == DeviceKind::kCpu) return;
  const int64_t image_bytes = max_samples * spec.C * spec.H * spec.W * 4;
  const int64_t label_bytes = max_samples * 4;
  for (Place& place : places_)
    place = {Buffer(device, image_bytes), Buffer(device, label_bytes),
             device.make_event(), device.make_event()};
  copies_ = device.make_stream();
  staging_ = std::make_unique<Staging>(device, image_bytes + label_bytes,
                                       batches_a_step);
}

BatchUpload::~BatchUpload() {
  if (!staging_) return;
  copies_->synchronize();
  context_.stream().synchronize();
}

Batch BatchUpload::put(const Batch& host) {
  if (!staging_) return host;
  const int64_t image_bytes = host.images.bytes();
  const int64_t label_bytes = host.labels.bytes();
  auto* staged = static_cast<char*>(staging_->next());
  std::memcpy(staged, host.images.data, static_cast<size_t>(image_bytes));
  std::memcpy(staged + image_bytes, host.labels.data,
              static_cast<size_t>(label_bytes));

  // All work on the batch before has been given to the stream by now.
  places_[now_].used->record(context_.stream());
  now_ = 1 - now_;
  Place& place = places_[now_];
  CHECK(image_bytes <= place.images.bytes() &&
        label_bytes <= place.labels.bytes());
  Device& device = context_.device();
  place.used->wait_on(*copies_);
  device.copy(place.images.data(), staged, image_bytes, *copies_);
  device.copy(place.labels.data(), staged + image_bytes, label_bytes, *copies_);
  staging_->sent(*copies_);
  place.arrived->record(*copies_);
  place.arrived->wait_on(context_.stream());
  Batch batch = host;
  batch.images.data = place.images.data();
  batch.labels.data = place.labels.data();
  return batch;
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
  const PixelScale scale = pixel_scale(set, normalization);
  auto resident = std::make_unique<ResidentSet>();
  const int64_t pixels_end = (pixel_bytes + 255) / 256 * 256;
  resident->memory = Buffer(device, pixels_end + 2 * C * 4);
  char* memory = resident->memory.as<char>();
  Stream& stream = context.stream();
  set.read_ahead();
  device.copy(memory,
              is_bytes ? static_cast<const void*>(stored.bytes.data())
                       : stored.floats.data(),
              pixel_bytes, stream);
  device.copy(memory + pixels_end, scale.scale.data(), C * 4, stream);
  device.copy(memory + pixels_end + C * 4, scale.shift.data(), C * 4, stream);
  resident->pixels =
      make_const_tensor(memory, is_bytes ? DType::kU8 : DType::kF32,
                        Shape{set.samples, stored.H, stored.W, C});
  resident->scale =
      make_const_tensor(memory + pixels_end, DType::kF32, Shape{C});
  resident->shift =
      make_const_tensor(memory + pixels_end + C * 4, DType::kF32, Shape{C});
  stream.synchronize();
  return resident;
}

// --- feeds

namespace {

class LoaderFeed final : public Feed {
 public:
  LoaderFeed(const Engine& engine, int rank, int64_t first_batch)
      : loader_(engine.options.data,
                engine.dataset.train,
                engine.normalization,
                *engine.sampler,
                rank,
                static_cast<uint64_t>(engine.options.run.seed),
                first_batch),
        upload_(*engine.context,
                engine.dataset.train.spec,
                engine.options.data.batch,
                engine.options.data.accumulate) {}
  Batch next() override { return upload_.put(loader_.next()); }
  double wait_s() const override { return loader_.wait_s(); }

 private:
  Loader loader_;
  BatchUpload upload_;
};

class ResidentFeed final : public Feed {
 public:
  ResidentFeed(const Engine& engine, int rank, int64_t first_batch)
      : engine_(engine),
        rank_(rank),
        next_(first_batch),
        augmenter_(engine.options.data,
                   engine.dataset.train,
                   engine.normalization,
                   static_cast<uint64_t>(engine.options.run.seed)),
        staging_(*engine.device, list_bytes(), engine.options.data.accumulate),
        images_(*engine.device, batch() * spec().C * spec().H * spec().W * 4),
        lists_(*engine.device, list_bytes()) {}

  Batch next() override {
    const int64_t index = next_++;
    const int64_t epoch = index / engine_.sampler->batches_per_epoch();
    const std::vector<int64_t> samples = engine_.sampler->batch(rank_, index);
    const int64_t N = std::ssize(samples);
    void* staged = staging_.next();
    auto* maps = static_cast<ImageMap*>(staged);
    auto* labels = reinterpret_cast<int32_t*>(maps + batch());
    for (int64_t n = 0; n < N; ++n) {
      maps[n] = augmenter_.map(epoch, samples[n]);
      labels[n] = engine_.dataset.train.labels[samples[n]];
    }
    Context& context = *engine_.context;
    context.device().copy(lists_.data(), staged, list_bytes(),
                          context.stream());
    staging_.sent(context.stream());
    const Shape shape{N, spec().C, spec().H, spec().W};
    const Tensor images =
        make_tensor(images_.data(), DType::kF32, shape, Layout::kNhwc);
    const ResidentSet& set = *engine_.resident;
    gather_images(context, images, set.pixels, set.scale, set.shift,
                  lists_.as<ImageMap>());
    return {N, images,
            make_const_tensor(lists_.as<ImageMap>() + batch(), DType::kI32,
                              Shape{N})};
  }
  double wait_s() const override { return 0; }

 private:
  const ImageSpec& spec() const { return engine_.dataset.train.spec; }
  int64_t batch() const { return engine_.options.data.batch_of(rank_); }
  int64_t list_bytes() const {
    return batch() * static_cast<int64_t>(sizeof(ImageMap) + sizeof(int32_t));
  }

  const Engine& engine_;
  int rank_;
  int64_t next_;
  Augmenter augmenter_;
  Staging staging_;
  Buffer images_, lists_;  // lists: maps, then labels
};

}  // namespace

std::unique_ptr<Feed> Feed::make(const Engine& engine,
                                 int rank,
                                 int64_t first_batch) {
  if (engine.resident)
    return std::make_unique<ResidentFeed>(engine, rank, first_batch);
  if (decodes_on_device(engine))
    return make_jpeg_feed(engine, rank, first_batch);
  return std::make_unique<LoaderFeed>(engine, rank, first_batch);
}

}  // namespace syncopate
