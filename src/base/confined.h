// Processes untrusted bytes in a child process with resource limits: a library
// that crashes, loops or allocates without bound costs one line of error text.
//
// The child is a fork that only calls `work`, writes its answer to a pipe and
// leaves by _exit: no MPI, no threads, no device. Anything it prints is lost.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

namespace syncopate {

struct Confinement {
  int64_t memory_bytes = 0;  // address space beyond what is mapped already
  int64_t cpu_s = 0;         // CPU time after which a loop is ended
};

// Returns the text that `work` returns (less than 16 MiB), or throws the Error
// that `work` throws. Any other end of the child is Error(kBadInput) "ORIGIN:
// cannot be read: USER crashed (Segmentation fault)" or similar, where `user`
// names what was running ("the HDF5 library"). The child may take 60 s plus ten
// times cpu_s of wall time, which allows for a stalled file system. Failures of
// the mechanism itself are kIoError.
std::string run_confined(const std::string& origin,
                         const std::string& user,
                         const Confinement& limits,
                         const std::function<std::string()>& work);

// Zero-initialised memory that this process shares with children forked later.
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
