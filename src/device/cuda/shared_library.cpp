#include "device/cuda/shared_library.h"

#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <fmt/core.h>

#include <cstdlib>

#include "base/error.h"

namespace syncopate::cuda {
namespace {

// Common CUDA locations that the loader does not search by itself.
std::vector<std::string> cuda_folders() {
  std::vector<std::string> folders;
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH"})
    if (const char* home = std::getenv(variable))
      folders.push_back(std::string(home) + "/lib64");
  folders.push_back("/usr/local/cuda/lib64");
  return folders;
}

// Returns null on failure and appends the cause to `reason`.
void* open(const std::string& soname, std::string& reason) {
  constexpr int kMode = RTLD_NOW | RTLD_LOCAL;
  if (void* handle = dlopen(soname.c_str(), kMode)) return handle;
  reason += (reason.empty() ? "" : "; ") + std::string(dlerror());
  for (const std::string& folder : cuda_folders())
    if (void* handle = dlopen((folder + "/" + soname).c_str(), kMode))
      return handle;
  return nullptr;
}

}  // namespace

Sonames cuda_sonames(const std::string& stem) {
  constexpr int kBuilt = CUDART_VERSION / 1000, kOther = kBuilt == 12 ? 13 : 12;
  return {fmt::format("{}.so.{}", stem, kBuilt),
          fmt::format("{}.so.{}", stem, kOther)};
}

void open_if_there(const Sonames& sonames) {
  std::string reasons;
  for (const std::string& soname : sonames)
    if (open(soname, reasons) != nullptr) return;
}

SharedLibrary::SharedLibrary(const char* product, const Sonames& sonames)
    : product_(product) {
  std::string reasons;
  for (const std::string& soname : sonames) {
    soname_ = soname;
    handle_ = open(soname, reasons);
    if (handle_ != nullptr) return;
  }
  fail(ExitCode::kInputMissing,
       "{} cannot be loaded ({}): load its module, or put its folder into "
       "LD_LIBRARY_PATH",
       product_, reasons);
}

void* SharedLibrary::symbol(const char* name) const {
  void* address = dlsym(handle_, name);
  if (address == nullptr)
    fail(ExitCode::kInputMissing,
         "{} ({}) has no {}: it is too old or too new for "
         "this executable",
         product_, soname_, name);
  return address;
}

}  // namespace syncopate::cuda
