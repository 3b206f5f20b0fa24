// Passes over the marked blocks of a gradient against passes over all of it.
#include "ops/touched.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "ops/interaction.h"
#include "ops/nonfinite.h"
#include "ops/optim_update.h"
#include "ops/reduce.h"
#include "support/guarded_tensor.h"
#include "support/test_device.h"

namespace syncopate {
namespace {

using namespace test;

constexpr int64_t kElems = TouchedBlocks::kElems;

// A gradient whose nonzero elements are in marked blocks: few, some in pairs,
// not all of them with a nonzero element; and the last ones always marked.
struct Case {
  int64_t n;
  std::vector<float> values = std::vector<float>(static_cast<size_t>(n));
  std::vector<uint8_t> marks;

  explicit Case(int64_t elems, uint64_t seed = 1) : n(elems) {
    const auto random = random_values(n, seed);
    const int64_t blocks = (n + kElems - 1) / kElems;
    for (int64_t block = 0; block < blocks; ++block) {
      const uint64_t drawn =
          (static_cast<uint64_t>(block) * 2654435761u + seed) % 11;
      const bool is_last = block + 5 > blocks;
      marks.push_back(is_last     ? TouchedBlocks::kAlways
                      : drawn < 3 ? TouchedBlocks::kTouched
                                  : TouchedBlocks::kUntouched);
      if (drawn == 0 || marks.back() == TouchedBlocks::kUntouched) continue;
      for (int64_t i = block * kElems; i < std::min(n, (block + 1) * kElems);
           ++i)
        if (is_last || i % 5 == 1) values[i] = static_cast<float>(random[i]);
    }
  }
};

// A case in the memory of the device.
struct OnDevice {
  DeviceValues<float> values;
  DeviceValues<uint8_t> marks;
  explicit OnDevice(const Case& from)
      : values(std::span<const float>(from.values)),
        marks(std::span<const uint8_t>(from.marks)) {}
  TouchedBlocks touched() const { return {values.data(), marks.data()}; }
};

constexpr int64_t kSizes[] = {1, 127, 128, 129, 5000, 16384, 100003};

TEST(Touched, ClearsMarkedBlocksAndUnmarksThem) {
  for (const int64_t n : kSizes) {
    TestContext test;
    Case on(n);
    // Shows that an unmarked block is not written.
    const auto spared = std::ranges::find(on.marks, TouchedBlocks::kUntouched);
    const auto at = static_cast<size_t>(spared - on.marks.begin()) * kElems;
    if (spared != on.marks.end()) on.values[at] = 3;
    const OnDevice device(on);
    clear_touched(test.context, device.values.span(), device.touched());
    std::vector<float> wanted(on.values.size());
    if (spared != on.marks.end()) wanted[at] = 3;
    EXPECT_EQ(device.values.get(test.context), wanted);
    std::ranges::replace(on.marks, uint8_t{TouchedBlocks::kTouched},
                         uint8_t{TouchedBlocks::kUntouched});
    EXPECT_EQ(device.marks.get(test.context), on.marks);
  }
}

TEST(Touched, NonfiniteValuesAreFoundInSlices) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  for (const int64_t n : kSizes)
    for (const int64_t begin : {int64_t{0}, n / 3}) {
      TestContext test;
      Case on(n);
      const auto slice_of = [&](const OnDevice& device) {
        return device.values.span().subspan(static_cast<size_t>(begin));
      };
      const OnDevice good(on);
      const DeviceValues<int64_t> none(int64_t{-1});
      withhold_nonfinite(test.context, slice_of(good), none, begin,
                         good.touched());
      EXPECT_EQ(none.get(test.context)[0], -1);
      EXPECT_EQ(good.values.get(test.context), on.values);
      for (int64_t bad = begin; bad < n; bad += 1 + n / 7) {
        Case with(n);
        with.values[static_cast<size_t>(bad)] = kNan;
        const bool is_marked = with.marks[static_cast<size_t>(bad / kElems)];
        const OnDevice device(with);
        const DeviceValues<int64_t> found(int64_t{-1});
        withhold_nonfinite(test.context, slice_of(device), found, begin,
                           device.touched());
        EXPECT_EQ(found.get(test.context)[0], is_marked ? bad : -1);
        const auto after = device.values.get(test.context);
        if (is_marked) {
          EXPECT_TRUE(std::all_of(after.begin() + begin, after.end(),
                                  [](float value) { return value == 0; }));
        }
      }
    }
}

TEST(Touched, TheNormHasTheSameBits) {
  for (const int64_t n : kSizes) {
    TestContext test;
    Case on(n);
    const auto clip = [&](const TouchedBlocks& touched,
                          const DeviceValues<float>& values) {
      const DeviceValues<float> factor(-1.0f);
      clip_factor(test.context, factor, values.span(), 1, 1e-3, touched);
      return factor.get(test.context)[0];
    };
    const OnDevice device(on);
    EXPECT_EQ(clip(device.touched(), device.values), clip({}, device.values));
    // What is not marked is not read.
    const auto spared = std::ranges::find(on.marks, TouchedBlocks::kUntouched);
    if (spared == on.marks.end()) continue;
    on.values[static_cast<size_t>(spared - on.marks.begin()) * kElems] = 1e3f;
    const OnDevice other(on);
    EXPECT_EQ(clip(other.touched(), other.values),
              clip(device.touched(), device.values));
  }
}

// For rows that are shorter and longer than a block, behind other tensors.
TEST(Touched, LazyAdamHasTheSameBits) {
  for (const auto& [rows, row] : {std::pair<int64_t, int64_t>{9001, 1},
                                  {4001, 10},
                                  {701, 17},
                                  {301, 128},
                                  {211, 200},
                                  {19, 1024},
                                  {2, 10007}})
    for (const int64_t place : {0, 5, 300}) {
      TestContext test;
      const int64_t n = rows * row;
      const OnDevice device((Case(place + n, 3)));
      const auto gradient = device.values.span().subspan(
          static_cast<size_t>(place), static_cast<size_t>(n));
      const auto stepped = [&](const TouchedBlocks& touched) {
        const GuardedTensor x = flat(n, 1), m = flat(n, 2),
                            v = flat(std::vector<double>(n, 0.25));
        adam_update(test.context, x, m, v, gradient,
                    {.rate = 0.01f,
                     .beta1 = 0.9f,
                     .beta2 = 0.99f,
                     .eps = 1e-6f,
                     .weight_decay = 0.02f,
                     .is_decoupled = false,
                     .correction1 = 0.1f,
                     .correction2 = 0.01f,
                     .lazy_row = row,
                     .touched = touched});
        test.context.stream().synchronize();
        return std::vector{x.bytes(), m.bytes(), v.bytes()};
      };
      EXPECT_EQ(stepped(device.touched()), stepped({})) << row << " " << place;
    }
}

// Two tables that begin within a block; a third of the rows.
TEST(Touched, InteractionMarksWhatItAddsTo) {
  for (const int64_t D : {1, 10, 47, 200}) {
    TestContext test;
    constexpr int64_t N = 12, F = 3, R = 4000, kBefore = 70;
    const int64_t n = kBefore + R * D + R;
    std::vector<double> rows(N * F);
    for (int64_t i = 0; i < N * F; ++i)
      rows[static_cast<size_t>(i)] = static_cast<double>(i * i % R);
    const GuardedTensor looked_up(DType::kI32, {N, F}, rows);
    const GuardedTensor x = random_tensor({N, F * D}, 2),
                        dx = random_tensor({N, F * D}, 3),
                        dscore = random_tensor({N, 1}, 4), dbias = flat({0});
    const DeviceValues<float> values(
        (std::span<const float>(std::vector<float>(n))));
    const int64_t blocks = (n + kElems - 1) / kElems;
    std::vector<uint8_t> marks(blocks);
    marks[0] = TouchedBlocks::kAlways;
    const DeviceValues<uint8_t> device_marks((std::span<const uint8_t>(marks)));
    float* const embedding = values.data() + kBefore;
    interaction_backward(
        test.context, make_tensor(embedding, DType::kF32, {R, D}),
        make_tensor(embedding + R * D, DType::kF32, {R, 1}), dbias, dx, dscore,
        looked_up, x, {values.data(), device_marks.data()});
    const std::vector<float> after = values.get(test.context);
    for (int64_t i = 0; i < n; ++i)
      if (after[static_cast<size_t>(i)] != 0 && i / kElems > 0)
        marks[static_cast<size_t>(i / kElems)] = TouchedBlocks::kTouched;
    EXPECT_EQ(device_marks.get(test.context), marks) << D;
    EXPECT_GT(std::ranges::count(marks, TouchedBlocks::kUntouched), 0);
  }
}

TEST(Touched, MarksBelongToTheRangeThatIsCleared) {
  TestContext test;
  const OnDevice device((Case(300)));
  EXPECT_THROW(clear_touched(test.context, device.values.span().subspan(1),
                             device.touched()),
               Error);
  EXPECT_THROW(clear_touched(test.context, device.values.span(), {}), Error);
}

}  // namespace
}  // namespace syncopate
