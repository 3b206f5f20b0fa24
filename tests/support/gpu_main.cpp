// gtest's main for programs that need a GPU. Without one the exit code is 77,
// or 1 if REQUIRE_GPU=1 demands one.
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include <gtest/gtest.h>

#include "device/device.h"

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (!testing::GTEST_FLAG(list_tests) && syncopate::cuda_device_count() == 0) {
    std::puts("skipped: no GPU here");
    const char* required = std::getenv("REQUIRE_GPU");
    return required != nullptr && std::string_view(required) == "1" ? 1 : 77;
  }
  return RUN_ALL_TESTS();
}
