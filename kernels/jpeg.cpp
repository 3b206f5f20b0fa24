#include <vector>

#include "device/cuda/cuda_stream.h"
#include "library/nvjpeg.h"
#include "ops/bodies.h"

namespace syncopate::cuda {
namespace {

NvJpegDecoder& decoder_of(Context& context) {
  return context.cache<NvJpegDecoder>();
}

const unsigned char* bytes_of(const JpegImage& image) {
  return reinterpret_cast<const unsigned char*>(image.file.data());
}

// Whether the library supports the image and reads the expected size from its
// header.
bool is_supported(const NvJpegDecoder& decoder, const JpegImage& image) {
  const NvJpeg& library = *nvjpeg();
  unsigned width = 0, height = 0;
  int is_refused = 1;
  return library.JpegStreamParseHeader(decoder.handle(), bytes_of(image),
                                       image.file.size(), decoder.parsed()) ==
             NVJPEG_STATUS_SUCCESS &&
         library.JpegStreamGetFrameDimensions(
             decoder.parsed(), &width, &height) == NVJPEG_STATUS_SUCCESS &&
         int64_t{width} == image.size.W && int64_t{height} == image.size.H &&
         library.DecodeBatchedSupported(decoder.handle(), decoder.parsed(),
                                        &is_refused) == NVJPEG_STATUS_SUCCESS &&
         is_refused == 0;
}

// Whether a damaged or unusual file may cause this status. A failed execution
// of the GPU itself is sticky: the next call reports it.
bool is_refusal(nvjpegStatus_t status) {
  return status == NVJPEG_STATUS_BAD_JPEG ||
         status == NVJPEG_STATUS_JPEG_NOT_SUPPORTED ||
         status == NVJPEG_STATUS_INCOMPLETE_BITSTREAM ||
         status == NVJPEG_STATUS_EXECUTION_FAILED;
}

}  // namespace

bool can_decode_jpegs(Context& context, int64_t batch) {
  // nvjpeg.h: batches from this size on are decoded entirely by kernels,
  // smaller ones partly by the calling thread.
  constexpr int64_t kKernelsMin = 51;
  const JpegBackend backend = decoder_of(context).open(context);
  return backend == JpegBackend::kEngines ||
         (backend == JpegBackend::kKernels && batch >= kKernelsMin);
}

void decode_jpegs(Context& context, std::span<JpegImage> images) {
  NvJpegDecoder& decoder = decoder_of(context);
  CHECK(decoder.open(context) != JpegBackend::kNone);
  std::vector<const unsigned char*> files;
  std::vector<size_t> lengths;
  std::vector<nvjpegImage_t> pixels;
  for (JpegImage& image : images) {
    image.is_decoded = is_supported(decoder, image);
    if (!image.is_decoded) continue;
    files.push_back(bytes_of(image));
    lengths.push_back(image.file.size());
    nvjpegImage_t to{};
    to.channel[0] = image.pixels;
    to.pitch[0] = static_cast<size_t>(image.size.W) * 3;
    pixels.push_back(to);
  }
  if (files.empty()) return;

  decoder.given().synchronize();
  cudaStream_t stream = cuda_stream(context.stream());
  constexpr int kThreads = 1;
  check_nvjpeg(
      nvjpeg()->DecodeBatchedInitialize(decoder.handle(), decoder.state(),
                                        static_cast<int>(files.size()),
                                        kThreads, NVJPEG_OUTPUT_RGBI),
      "nvjpegDecodeBatchedInitialize");
  const nvjpegStatus_t status =
      nvjpeg()->DecodeBatched(decoder.handle(), decoder.state(), files.data(),
                              lengths.data(), pixels.data(), stream);
  if (is_refusal(status)) {
    // The library does not say which one failed.
    for (JpegImage& image : images) image.is_decoded = false;
  } else {
    check_nvjpeg(status, "nvjpegDecodeBatched");
  }
  decoder.given().record(context.stream());
}

}  // namespace syncopate::cuda
