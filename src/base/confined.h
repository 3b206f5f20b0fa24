// Work on bytes that nobody vouches for, in a child process with limits: where
// a library crashes, loops or allocates without end, that is one line.
//
// The child is a fork that only calls `work`, writes its answer to a pipe and
// leaves by _exit: no MPI, no threads, no device. What it prints is lost.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

namespace syncopate {

struct Confinement {
  int64_t memory_bytes = 0;  // of address space, beside what there is already
  int64_t cpu_s = 0;         // a loop ends here
};

// The text that `work` returns, less than 16 MiB; or the Error it throws. Any
// other end of the child is Error(kBadInput) "ORIGIN: cannot be read: USER
// crashed (Segmentation fault)" or the like, where `user` says what was at
// work ("the HDF5 library"). A child that waits is given 60 s and ten times
// cpu_s, so that a file system may stall. Errors of its own: kIoError.
std::string run_confined(const std::string& origin,
                         const std::string& user,
                         const Confinement& limits,
                         const std::function<std::string()>& work);

// Memory that this process shares with children forked later; zeros at first.
// Errors: kInternal.
class SharedBytes {
 public:
  explicit SharedBytes(int64_t num_bytes);
  ~SharedBytes();
  SharedBytes(const SharedBytes&) = delete;
  SharedBytes& operator=(const SharedBytes&) = delete;
  std::span<uint8_t> bytes() const { return bytes_; }

 private:
  std::span<uint8_t> bytes_;
};

}  // namespace syncopate
