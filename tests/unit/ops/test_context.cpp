#include "ops/context.h"

#include <cstdint>

#include <gtest/gtest.h>

#include "support/test_device.h"

namespace syncopate {
namespace {

TEST(Context, ScratchGrowsAndStays) {
  test::TestContext test;
  void* small = test.context.scratch(100);
  EXPECT_EQ(test.context.scratch(50), small);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(small) % 64, 0u);
  void* large = test.context.scratch(1 << 20);
  EXPECT_EQ(test.context.scratch(100), large);
  EXPECT_NE(test.context.scratch(100, 1), large);
}

TEST(Context, StateIsKeptPerTypeAndContext) {
  struct Plans {
    int made = 0;
  };
  struct Others {
    int made = 7;
  };
  test::TestContext test, other;
  ++test.context.cache<Plans>().made;
  ++test.context.cache<Plans>().made;
  EXPECT_EQ(test.context.cache<Plans>().made, 2);
  EXPECT_EQ(test.context.cache<Others>().made, 7);
  EXPECT_EQ(other.context.cache<Plans>().made, 0);
}

TEST(Context, AtLeastOneThread) {
  EXPECT_THROW(test::TestContext(0), Error);
}

}  // namespace
}  // namespace syncopate
