// nvJPEG, loaded on first use.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nvjpeg.h>

#include <memory>

#include "ops/context.h"

namespace syncopate::cuda {

// The functions in use, under their names without "nvjpeg".
struct NvJpeg {
  decltype(&nvjpegCreateEx) CreateEx;
  decltype(&nvjpegDestroy) Destroy;
  decltype(&nvjpegJpegStateCreate) JpegStateCreate;
  decltype(&nvjpegJpegStateDestroy) JpegStateDestroy;
  decltype(&nvjpegJpegStreamCreate) JpegStreamCreate;
  decltype(&nvjpegJpegStreamDestroy) JpegStreamDestroy;
  decltype(&nvjpegJpegStreamParseHeader) JpegStreamParseHeader;
  decltype(&nvjpegJpegStreamGetFrameDimensions) JpegStreamGetFrameDimensions;
  decltype(&nvjpegDecodeBatchedSupported) DecodeBatchedSupported;
  decltype(&nvjpegDecodeBatchedInitialize) DecodeBatchedInitialize;
  decltype(&nvjpegDecodeBatched) DecodeBatched;
};
// Returns null if the library is absent or too old: the host then decodes
// images.
const NvJpeg* nvjpeg();

// Throws Error(kInternal) with the call and the status.
void check_nvjpeg(nvjpegStatus_t status, const char* call);

// What decodes the entropy-coded data of a batch.
enum class JpegBackend : uint8_t {
  kNone,     // the library cannot be used here
  kEngines,  // the GPU's JPEG engines
  kKernels,  // kernels for larger batches, else the calling thread
};

// A context's own decoder (Context::cache).
class NvJpegDecoder {
 public:
  NvJpegDecoder() = default;
  ~NvJpegDecoder();
  NvJpegDecoder(const NvJpegDecoder&) = delete;
  NvJpegDecoder& operator=(const NvJpegDecoder&) = delete;

  JpegBackend open(Context& context);

  // Requires an open decoder.
  nvjpegHandle_t handle() const { return handle_; }
  nvjpegJpegState_t state() const { return state_; }
  nvjpegJpegStream_t parsed() const { return parsed_; }
  // Recorded when a batch was submitted to the stream: the state serves one
  // batch at a time.
  Event& given() { return *given_; }

 private:
  JpegBackend backend_ = JpegBackend::kNone;
  bool was_tried_ = false;
  nvjpegHandle_t handle_ = nullptr;
  nvjpegJpegState_t state_ = nullptr;
  nvjpegJpegStream_t parsed_ = nullptr;
  std::unique_ptr<Event> given_;
};

}  // namespace syncopate::cuda
