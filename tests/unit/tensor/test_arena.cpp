#include "tensor/arena.h"

#include <cstring>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/rng.h"

namespace syncopate {
namespace {

TEST(Arena, GivenBackMemoryIsUsedAgain) {
  Arena arena;
  const Slot a = arena.take(DType::kF32, {256});  // 1 KiB
  const Slot b = arena.take(DType::kF32, {256});
  arena.give_back(a);
  const Slot c = arena.take(DType::kBf16, {512});
  EXPECT_EQ(c.offset_bytes, a.offset_bytes);
  EXPECT_NE(c.offset_bytes, b.offset_bytes);
  EXPECT_EQ(arena.peak_bytes(), 2048);
}

TEST(Arena, NeighbouringHolesMerge) {
  Arena arena;
  std::vector<Slot> slots;
  for (int i = 0; i < 4; ++i) slots.push_back(arena.take(DType::kF32, {256}));
  arena.give_back(slots[0]);
  arena.give_back(slots[2]);
  arena.give_back(slots[1]);
  EXPECT_EQ(arena.take(DType::kF32, {768}).offset_bytes, 0);
  EXPECT_EQ(arena.peak_bytes(), 4096);
}

TEST(Arena, ALastHoleGrows) {
  Arena arena;
  const Slot a = arena.take(DType::kF32, {256});
  const Slot b = arena.take(DType::kF32, {256});
  arena.give_back(b);
  const Slot c = arena.take(DType::kF32, {512});
  EXPECT_EQ(c.offset_bytes, b.offset_bytes);
  EXPECT_EQ(arena.peak_bytes(), 3072);
  arena.give_back(a);
}

TEST(Arena, MisuseIsRefused) {
  Arena arena;
  const Slot a = arena.take(DType::kF32, {16});
  EXPECT_THROW(arena.at(a), Error);  // before commit
  arena.give_back(a);
  EXPECT_THROW(arena.give_back(a), Error);
}

TEST(Arena, TensorsAreAlignedAndKeepTheirShape) {
  const auto device = make_cpu_device();
  Arena arena;
  const Slot a = arena.take(DType::kU8, {3});
  const Slot b = arena.take(DType::kBf16, {2, 16, 3, 3}, Layout::kNchw16c);
  arena.commit(*device);
  for (const Slot& slot : {a, b})
    EXPECT_EQ(reinterpret_cast<uintptr_t>(arena.at(slot).data) % 64, 0u);
  EXPECT_EQ(arena.at(b).dtype, DType::kBf16);
  EXPECT_EQ(arena.at(b).layout, Layout::kNchw16c);
  EXPECT_EQ(arena.at(b).shape, (Shape{2, 16, 3, 3}));
}

// Memory that is in use at the same time never overlaps and is below the peak.
TEST(Arena, RandomPlansNeverOverlap) {
  Rng rng(1, Purpose::kTest);
  for (int plan = 0; plan < 50; ++plan) {
    Arena arena;
    std::vector<Slot> live;
    for (int act = 0; act < 200; ++act) {
      if (!live.empty() && rng.below(2) == 0) {
        const auto which = static_cast<int64_t>(rng.below(live.size()));
        arena.give_back(live[static_cast<size_t>(which)]);
        live.erase(live.begin() + which);
        continue;
      }
      live.push_back(
          arena.take(DType::kU8, {1 + static_cast<int64_t>(rng.below(5000))}));
      const Slot& made = live.back();
      ASSERT_LE(made.offset_bytes + made.shape.elems(), arena.peak_bytes());
      for (size_t i = 0; i + 1 < live.size(); ++i)
        ASSERT_TRUE(
            made.offset_bytes + made.shape.elems() <= live[i].offset_bytes ||
            live[i].offset_bytes + live[i].shape.elems() <= made.offset_bytes);
    }
  }
}

}  // namespace
}  // namespace syncopate
