// The emulated GPU has its kernels for libraries.
#include "device/device.h"
#include "ops/library.h"

namespace syncopate {

std::vector<LibraryVersion> cuda_library_versions() {
  return {{"emulated kernels", ""}};
}

std::vector<std::string> cuda_device_texts() {
  std::vector<std::string> texts;
  for (int index = 0; index < cuda_device_count(); ++index)
    texts.push_back(make_cuda_device(index)->name());
  return texts;
}

std::string cuda_devices_missing() {
  return cuda_device_count() > 0 ? "" : "no GPU is emulated";
}

}  // namespace syncopate
