#include "device/cuda/shared_library.h"

#include <dlfcn.h>
#include <cstdlib>
#include <vector>

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
void* open(const char* soname, std::string& reason) {
  constexpr int kMode = RTLD_NOW | RTLD_LOCAL;
  if (void* handle = dlopen(soname, kMode)) return handle;
  reason += (reason.empty() ? "" : "; ") + std::string(dlerror());
  for (const std::string& folder : cuda_folders())
    if (void* handle = dlopen((folder + "/" + soname).c_str(), kMode))
      return handle;
  return nullptr;
}

}  // namespace

void open_if_there(std::initializer_list<const char*> sonames) {
  std::string reasons;
  for (const char* soname : sonames)
    if (open(soname, reasons) != nullptr) return;
}

SharedLibrary::SharedLibrary(const char* product,
                             std::initializer_list<const char*> sonames)
    : product_(product) {
  std::string reasons;
  for (const char* soname : sonames) {
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
