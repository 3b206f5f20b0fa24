// An emulated device with a stream, and arrays in its memory, for tests.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "cuda/platform.h"
#include "emulator/emulator.h"
#include "emulator/streams.h"

namespace syncopate::test {

class Emulated : public ::testing::Test {
 protected:
  // They stay set for the whole process.
  ~Emulated() override {
    emulator::set_seed(1);
    emulator::set_blocks_in_flight(blocks_before_);
  }

  template <typename T>
  struct Array {
    Buffer memory;
    int64_t elems;
    T* data() const { return memory.as<T>(); }
  };

  template <typename T>
  Array<T> array(int64_t elems) {
    return {Buffer(*device, elems * int64_t{sizeof(T)}), elems};
  }
  template <typename T>
  Array<T> array(const std::vector<T>& values) {
    Array<T> made = array<T>(std::ssize(values));
    device->copy(made.data(), values.data(), made.elems * int64_t{sizeof(T)},
                 *stream);
    return made;
  }
  template <typename T>
  std::vector<T> values(const Array<T>& from) {
    std::vector<T> host(static_cast<size_t>(from.elems));
    device->copy(host.data(), from.data(), from.elems * int64_t{sizeof(T)},
                 *stream);
    return host;
  }

  // The line of the Error(kInternal) that `work` throws.
  template <typename Work>
  static std::string error_of(Work&& work) {
    try {
      work();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kInternal) << error.what();
      return error.what();
    }
    ADD_FAILURE() << "no error";
    return {};
  }

  // Work runs when it is given, so that a launch throws what it found.
  static constexpr uint64_t kEagerSeed = 2;

  std::unique_ptr<Device> device =
      emulator::make_emulated_device(0, kEagerSeed);
  std::unique_ptr<Stream> stream = device->make_stream();
  const int blocks_before_ = emulator::set_blocks_in_flight(2);
};

inline ::testing::AssertionResult has(const std::string& text,
                                      const std::string& part) {
  if (text.find(part) != std::string::npos)
    return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure()
         << "no \"" << part << "\" in \"" << text << '"';
}

}  // namespace syncopate::test
