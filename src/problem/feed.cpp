#include "problem/feed.h"

#include <cstring>

namespace syncopate {

int64_t packed_bytes(Batch batch) {
  int64_t bytes = 0;
  for (const ConstTensor* tensor : batch.tensors())
    if (tensor->shape.rank() > 0) bytes += aligned(tensor->bytes());
  return bytes;
}

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
                         int64_t max_bytes,
                         int64_t batches_a_step)
    : context_(context) {
  Device& device = context.device();
  if (device.kind() == DeviceKind::kCpu) return;
  for (Half& half : halves_)
    half = {Buffer(device, max_bytes), device.make_event(),
            device.make_event()};
  copies_ = device.make_stream();
  staging_ = std::make_unique<Staging>(device, max_bytes, batches_a_step);
}

BatchUpload::~BatchUpload() {
  if (!staging_) return;
  settle(*copies_);
  settle(context_.stream());
}

Batch BatchUpload::put(const Batch& host) {
  if (!staging_) return host;
  const int64_t bytes = packed_bytes(host);
  Batch batch = host;
  auto* staged = static_cast<char*>(staging_->next());

  // All work on the batch before has been given to the stream by now.
  halves_[now_].used->record(context_.stream());
  now_ = 1 - now_;
  Half& half = halves_[now_];
  CHECK(bytes <= half.memory.bytes());
  int64_t at = 0;
  for (ConstTensor* tensor : batch.tensors()) {
    if (tensor->data == nullptr) continue;
    std::memcpy(staged + at, tensor->data,
                static_cast<size_t>(tensor->bytes()));
    tensor->data = half.memory.as<char>() + at;
    at += aligned(tensor->bytes());
  }
  Device& device = context_.device();
  half.used->wait_on(*copies_);
  device.copy(half.memory.data(), staged, at, *copies_);
  staging_->sent(*copies_);
  half.arrived->record(*copies_);
  half.arrived->wait_on(context_.stream());
  return batch;
}

}  // namespace syncopate
