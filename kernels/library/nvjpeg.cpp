#include "library/nvjpeg.h"

#include <optional>

#include "base/error.h"
#include "device/cuda/cuda_stream.h"
#include "device/cuda/shared_library.h"

namespace syncopate::cuda {
namespace {

// The structures passed are opaque or unchanged between 12 and 13.
std::optional<NvJpeg> load_nvjpeg() {
  try {
    const SharedLibrary library("nvJPEG 13 or 12", cuda_sonames("libnvjpeg"));
    NvJpeg functions;
    library.bind(functions.CreateEx, "nvjpegCreateEx");
    library.bind(functions.Destroy, "nvjpegDestroy");
    library.bind(functions.JpegStateCreate, "nvjpegJpegStateCreate");
    library.bind(functions.JpegStateDestroy, "nvjpegJpegStateDestroy");
    library.bind(functions.JpegStreamCreate, "nvjpegJpegStreamCreate");
    library.bind(functions.JpegStreamDestroy, "nvjpegJpegStreamDestroy");
    library.bind(functions.JpegStreamParseHeader,
                 "nvjpegJpegStreamParseHeader");
    library.bind(functions.JpegStreamGetFrameDimensions,
                 "nvjpegJpegStreamGetFrameDimensions");
    library.bind(functions.DecodeBatchedSupported,
                 "nvjpegDecodeBatchedSupported");
    library.bind(functions.DecodeBatchedInitialize,
                 "nvjpegDecodeBatchedInitialize");
    library.bind(functions.DecodeBatched, "nvjpegDecodeBatched");
    return functions;
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace

const NvJpeg* nvjpeg() {
  static const std::optional<NvJpeg> functions = load_nvjpeg();
  return functions ? &*functions : nullptr;
}

void check_nvjpeg(nvjpegStatus_t status, const char* call) {
  if (status == NVJPEG_STATUS_SUCCESS) return;
  fail(ExitCode::kInternal, "nvJPEG: {}: status {}", call,
       static_cast<int>(status));
}

JpegBackend NvJpegDecoder::open(Context& context) {
  if (was_tried_) return backend_;
  was_tried_ = true;
  const NvJpeg* library = nvjpeg();
  if (library == nullptr) return backend_;
  cuda_stream(context.stream());  // makes its device current, to which the
                                  // handle belongs
  // Smooth upsampling matches the host's decoder. Older libraries reject the
  // flag, and GPUs without JPEG engines reject that back end.
  const struct {
    nvjpegBackend_t name;
    unsigned flags;
    JpegBackend is;
  } kWays[] = {
      {NVJPEG_BACKEND_HARDWARE, NVJPEG_FLAGS_UPSAMPLING_WITH_INTERPOLATION,
       JpegBackend::kEngines},
      {NVJPEG_BACKEND_HARDWARE, NVJPEG_FLAGS_DEFAULT, JpegBackend::kEngines},
      {NVJPEG_BACKEND_GPU_HYBRID, NVJPEG_FLAGS_UPSAMPLING_WITH_INTERPOLATION,
       JpegBackend::kKernels},
      {NVJPEG_BACKEND_GPU_HYBRID, NVJPEG_FLAGS_DEFAULT, JpegBackend::kKernels},
  };
  for (const auto& way : kWays) {
    nvjpegHandle_t handle = nullptr;
    if (library->CreateEx(way.name, nullptr, nullptr, way.flags, &handle) !=
        NVJPEG_STATUS_SUCCESS)
      continue;
    handle_ = handle;
    check_nvjpeg(library->JpegStateCreate(handle_, &state_),
                 "nvjpegJpegStateCreate");
    check_nvjpeg(library->JpegStreamCreate(handle_, &parsed_),
                 "nvjpegJpegStreamCreate");
    given_ = context.device().make_event();
    backend_ = way.is;
    break;
  }
  return backend_;
}

NvJpegDecoder::~NvJpegDecoder() {
  if (given_) settle(*given_);
  if (parsed_ != nullptr) nvjpeg()->JpegStreamDestroy(parsed_);
  if (state_ != nullptr) nvjpeg()->JpegStateDestroy(state_);
  if (handle_ != nullptr) nvjpeg()->Destroy(handle_);
}

}  // namespace syncopate::cuda
