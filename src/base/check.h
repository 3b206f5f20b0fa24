// CHECK: conditions that only a bug in this program can violate.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <source_location>

#include "base/error.h"

namespace syncopate {

// Throws Error(kInternal) with the expression and its source location.
[[noreturn]] void check_failed(const char* expression,
                               const std::string& detail,
                               std::source_location where);

}  // namespace syncopate

#define CHECK(condition)                                          \
  do {                                                            \
    if (!(condition))                                             \
      ::syncopate::check_failed(#condition, "",                   \
                                std::source_location::current()); \
  } while (false)

// CHECK_MSG(n > 0, "n = {}", n)
#define CHECK_MSG(condition, ...)                                       \
  do {                                                                  \
    if (!(condition))                                                   \
      ::syncopate::check_failed(#condition, ::fmt::format(__VA_ARGS__), \
                                std::source_location::current());       \
  } while (false)
