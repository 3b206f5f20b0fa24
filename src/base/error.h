// How the program fails: one exception type that carries the exit code.
//
// A user's mistake, a full disk and a dead peer are all an Error with one line
// of text. main() prints that line once (on rank 0 only if all ranks agree) and
// exits with the code. CHECK (check.h) is for bugs in this program.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stdexcept>
#include <string>
#include <utility>

#include <fmt/core.h>

namespace syncopate {

// Values follow sysexits.h where it has a matching code; see README's table.
enum class ExitCode : int {
  kDone = 0,
  kUsage = 64,
  kBadInput = 65,
  kInputMissing = 66,
  kInternal = 70,
  kPeerLost = 71,
  kCannotCreate = 73,
  kIoError = 74,
  kStopped = 75,
  kDiverged = 76,
  kInterrupted = 130,
};

class Error : public std::runtime_error {
 public:
  Error(ExitCode code, const std::string& line)
      : std::runtime_error(line), code_(code) {}
  ExitCode code() const { return code_; }

 private:
  ExitCode code_;
};

// A device is out of memory; the caller may know which setting would need less.
class OutOfMemory : public Error {
 public:
  explicit OutOfMemory(const std::string& line)
      : Error(ExitCode::kInternal, line) {}
};

template <typename... Args>
[[noreturn]] void fail(ExitCode code,
                       fmt::format_string<Args...> format,
                       Args&&... args) {
  throw Error(code, fmt::format(format, std::forward<Args>(args)...));
}

// Throws "PATH: what: No such file or directory", with the current errno.
[[noreturn]] void fail_errno(ExitCode code,
                             const std::string& path,
                             const std::string& what);

}  // namespace syncopate
