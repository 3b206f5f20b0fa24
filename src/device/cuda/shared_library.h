// A shared library opened on first use, so that runs without a GPU do not load
// it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <initializer_list>
#include <string>

namespace syncopate::cuda {

// Opens the first of `sonames` that exists, for libraries that look it up by
// that name.
void open_if_there(std::initializer_list<const char*> sonames);

// Stays open until the process ends.
class SharedLibrary {
 public:
  // Opens the first of `sonames` that loads. If none does, throws
  // Error(kInputMissing) with the product, the reason and the remedy.
  SharedLibrary(const char* product,
                std::initializer_list<const char*> sonames);

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
