// A shared library that is opened when it is first needed, so that a run
// without a GPU does not load it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <initializer_list>
#include <string>

namespace syncopate::cuda {

// Opens the first of `sonames` that there is, for libraries that look for it by
// that name.
void open_if_there(std::initializer_list<const char*> sonames);

// Stays open to the end of the process.
class SharedLibrary {
 public:
  // The first of `sonames` that opens. Where none does: Error(kInputMissing)
  // that names the product, the reason and the mend.
  SharedLibrary(const char* product,
                std::initializer_list<const char*> sonames);

  // Sets `function` to the library's function of this name.
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
