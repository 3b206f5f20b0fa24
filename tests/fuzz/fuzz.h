// What the fuzz targets share: what may become of an input, and where an input
// lies that a reader wants as a file.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/file.h"

namespace syncopate::fuzz {

// One a program: reads an input as its format. Whatever it lets out but its
// return is a finding.
void take(std::string_view input);

struct Counts {
  int64_t accepted = 0, refused = 0;
};
inline Counts counts;

// Ends the program with a line: something does not hold of what was accepted.
[[noreturn]] void found(std::string_view what);

// Of each sample one, of these classes.
void check_labels(std::span<const int32_t> labels,
                  int64_t samples,
                  int64_t classes);

// Runs `read`, which returns, or throws Error(kBadInput) or
// Error(kInputMissing) of one line that begins with `origin`; any other
// exception passes through.
void refused_or_not(std::string_view origin, const Error& error);
template <typename Read>
void accept_or_refuse(std::string_view origin, const Read& read) {
  try {
    read();
    ++counts.accepted;
  } catch (const Error& error) {
    refused_or_not(origin, error);
    ++counts.refused;
  }
}

// A folder in memory where there is one (/dev/shm), removed when the program
// ends.
const fs::path& scratch_folder();
// Replaces a file of the folder and says where it lies.
fs::path scratch_file(const std::string& name, std::string_view content);

}  // namespace syncopate::fuzz
