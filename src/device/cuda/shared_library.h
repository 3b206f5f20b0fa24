// A shared library opened on first use, so that runs without a GPU do not load
// it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace syncopate::cuda {

using Sonames = std::vector<std::string>;

// Returns the names of a library of CUDA ("libnvrtc") in versions 12 and 13.
// The version that this executable was built with comes first, because the
// driver may be too old for a newer one.
Sonames cuda_sonames(const std::string& stem);

// Opens the first of `sonames` that exists, for libraries that look it up by
// that name.
void open_if_there(const Sonames& sonames);

// Stays open until the process ends.
class SharedLibrary {
 public:
  // Opens the first of `sonames` that loads. If none does, throws
  // Error(kInputMissing) with the product, the reason and the remedy.
  SharedLibrary(const char* product, const Sonames& sonames);

  // Sets `function` to the library's function of that name.
  template <typename Function>
  void bind(Function*& function, const char* name) const {
    function = reinterpret_cast<Function*>(symbol(name));
  }

 private:
  void* symbol(const char* name) const;

  const char* product_;
  std::string soname_;
  void* handle_ = nullptr;
};

}  // namespace syncopate::cuda
