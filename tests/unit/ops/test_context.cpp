#include "ops/context.h"

#include <cstdint>

#include <gtest/gtest.h>

#include "cpu_fixture.h"

namespace syncopate {
namespace {

TEST(Context, ScratchGrowsAndStays) {
  test::Cpu cpu;
  void* small = cpu.context.scratch(100);
  EXPECT_EQ(cpu.context.scratch(50), small);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(small) % 64, 0u);
  void* large = cpu.context.scratch(1 << 20);
  EXPECT_EQ(cpu.context.scratch(100), large);
  EXPECT_NE(cpu.context.scratch(100, 1), large);
}

TEST(Context, StateIsKeptPerTypeAndContext) {
  struct Plans {
    int made = 0;
  };
  struct Others {
    int made = 7;
  };
  test::Cpu cpu, other;
  ++cpu.context.cache<Plans>().made;
  ++cpu.context.cache<Plans>().made;
  EXPECT_EQ(cpu.context.cache<Plans>().made, 2);
  EXPECT_EQ(cpu.context.cache<Others>().made, 7);
  EXPECT_EQ(other.context.cache<Plans>().made, 0);
}

TEST(Context, AtLeastOneThread) {
  EXPECT_THROW(test::Cpu(0), Error);
}

}  // namespace
}  // namespace syncopate
