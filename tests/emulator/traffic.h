// What an emulated GPU runs and which memory that touches.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <string>

namespace syncopate::emulator {

// Of kernels and calls of libraries with one name. Bytes are those of the
// pages that a launch reads and writes, each page once: passes over tensors
// that are large against a page, whatever is read twice within one launch.
struct Traffic {
  int64_t launches = 0, bytes_read = 0, bytes_written = 0;
  int64_t bytes() const { return bytes_read + bytes_written; }
};

// Counts from its construction on; one at a time, and not while work runs.
class TrafficMeter {
 public:
  TrafficMeter();
  ~TrafficMeter();
  TrafficMeter(const TrafficMeter&) = delete;
  TrafficMeter& operator=(const TrafficMeter&) = delete;

  // By name ("gemm", "syncopate::cuda::add_kernel<float>"). Work that is still
  // queued is not in it: synchronize first.
  const std::map<std::string, Traffic>& by_name() const { return by_name_; }
  Traffic total() const;
  int64_t copied_bytes() const { return copied_bytes_; }  // Device::copy
  std::string table() const;  // a line for each name

 private:
  friend void note_work(const std::function<std::string()>& name);
  friend void note_copy(int64_t bytes);
  std::map<std::string, Traffic> by_name_;
  std::atomic<int64_t> copied_bytes_{0};
};

// Where a launch ends, inside its Access.
void note_work(const std::function<std::string()>& name);

// Where a copy is made.
void note_copy(int64_t bytes);

}  // namespace syncopate::emulator
