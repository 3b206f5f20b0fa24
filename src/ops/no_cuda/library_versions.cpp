// Stubs for builds without CUDA.
#include "ops/library.h"

namespace syncopate {

std::vector<LibraryVersion> cuda_library_versions() {
  return {};
}

std::vector<std::string> cuda_device_texts() {
  return {};
}

std::string cuda_devices_missing() {
  return "this executable was built without CUDA";
}

}  // namespace syncopate
