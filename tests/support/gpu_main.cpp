// gtest's main for programs that need a GPU: exit code 77 without one.
#include <cstdio>

#include <gtest/gtest.h>

#include "device/device.h"

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (!testing::GTEST_FLAG(list_tests) && syncopate::cuda_device_count() == 0) {
    std::puts("skipped: no GPU here");
    return 77;
  }
  return RUN_ALL_TESTS();
}
