// Rows of tables against naive loops over all of a table.
#include "ops/rows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <utility>
#include <vector>

#include "base/bf16.h"
#include "support/guarded_tensor.h"
#include "support/test_device.h"

namespace syncopate {
namespace {

using namespace test;

constexpr int64_t kBlock = TouchedBlocks::kElems;

struct Size {
  int64_t rows, row_elems;
  int64_t place = 0;  // of the table in the range that has the marks
};
// Rows shorter and longer than a block, that lie across blocks; an empty
// table, one row, and more blocks than are counted together.
constexpr Size kSizes[] = {
    {0, 10, 5},    {1, 1, 5},     {1, 5},        {400, 1},      {400, 1, 127},
    {1000, 10},    {1000, 10, 7}, {333, 7, 130}, {200, 16, 1},  {90, 129, 3},
    {60, 200, 77}, {7, 3000, 50}, {30011, 1, 9}, {5003, 10, 99}};

enum class Marks : uint8_t { kAll, kSome };  // kAll: there are no marks

// A gradient with a table in which some rows are touched, alone or side by
// side, some of them in one element only: the first, the last or another.
struct Gradient {
  Size size;
  std::vector<float> values;
  std::vector<uint8_t> marks;

  Gradient(const Size& of, bool is_full, uint64_t seed = 1) : size(of) {
    const int64_t n = size.rows * size.row_elems;
    values.resize(static_cast<size_t>(size.place + n + 40));
    marks.resize(values.size() / kBlock + 1);
    const auto random = random_values(n, seed);
    for (int64_t row = 0; row < size.rows; ++row) {
      const uint64_t drawn =
          (static_cast<uint64_t>(row / 3) * 2654435761u + seed) >> 7;
      if (!is_full && drawn % 5 != 0) continue;
      for (int64_t e = 0; e < size.row_elems; ++e)
        if (row % 3 != 1 || e == static_cast<int64_t>(drawn) % size.row_elems ||
            (row % 2 == 0 && e + 1 == size.row_elems))
          set(row * size.row_elems + e,
              static_cast<float>(random[row * size.row_elems + e]));
    }
    for (size_t block = 0; block < marks.size(); block += 7)
      if (marks[block] == 0) marks[block] = TouchedBlocks::kAlways;
  }

  void set(int64_t i, float value) {
    const auto place = static_cast<size_t>(size.place + i);
    values[place] = value;
    marks[place / kBlock] = TouchedBlocks::kTouched;
  }
  float at(int64_t row, int64_t e) const {
    return values[static_cast<size_t>(size.place + row * size.row_elems + e)];
  }
  std::vector<uint32_t> touched() const {
    std::vector<uint32_t> rows;
    for (int64_t row = 0; row < size.rows; ++row) {
      bool is_touched = false;
      for (int64_t e = 0; e < size.row_elems; ++e)
        is_touched = is_touched || std::bit_cast<uint32_t>(at(row, e)) != 0;
      if (is_touched) rows.push_back(static_cast<uint32_t>(row));
    }
    return rows;
  }
};

struct OnDevice {
  DeviceValues<float> values;
  DeviceValues<uint8_t> marks;
  RowTable table;
  OnDevice(const Gradient& from, Marks which)
      : values(std::span<const float>(from.values)),
        marks(std::span<const uint8_t>(from.marks)),
        table{values.span().subspan(
                  static_cast<size_t>(from.size.place),
                  static_cast<size_t>(from.size.rows * from.size.row_elems)),
              from.size.row_elems} {
    if (which == Marks::kSome) table.touched = {values.data(), marks.data()};
  }
};

// Behind them is one more number, which must not be written.
std::vector<uint32_t> found_rows(TestContext& test, const RowTable& table) {
  const std::vector<uint32_t> some(
      static_cast<size_t>(num_row_places(table) + 1), 7777);
  const DeviceValues<uint32_t> count(uint32_t{0}),
      places{std::span<const uint32_t>(some)};
  const auto all_places = places.span().first(some.size() - 1);
  count_rows(test.context, count, all_places, table);
  const uint32_t found = count.get(test.context)[0];
  const DeviceValues<uint32_t> numbers{std::span<const uint32_t>(
      std::vector<uint32_t>(size_t{found} + 1, 7777))};
  list_rows(test.context, numbers.span().first(found), all_places, table);
  std::vector<uint32_t> rows = numbers.get(test.context);
  EXPECT_EQ(rows.back(), 7777);
  EXPECT_EQ(places.get(test.context).back(), 7777);
  rows.pop_back();
  return rows;
}

template <typename Act>
void for_each_case(const Act& act) {
  for (const Size& size : kSizes)
    for (const bool is_full : {false, true})
      for (const Marks marks : {Marks::kAll, Marks::kSome}) {
        SCOPED_TRACE(testing::Message()
                     << size.rows << " rows of " << size.row_elems << " at "
                     << size.place << (is_full ? ", full" : "")
                     << (marks == Marks::kSome ? ", marked" : ""));
        act(Gradient(size, is_full), marks);
      }
}

TEST(Rows, FindsTouchedRowsInOrder) {
  for_each_case([](const Gradient& gradient, Marks marks) {
    TestContext test;
    const OnDevice on(gradient, marks);
    EXPECT_EQ(found_rows(test, on.table), gradient.touched());
    EXPECT_EQ(on.values.get(test.context), gradient.values);
    EXPECT_EQ(on.marks.get(test.context), gradient.marks);
  });
}

// -0 and NaN count.
TEST(Rows, EveryElementButPlusZeroCounts) {
  Gradient gradient({100, 10, 30}, false);
  std::ranges::fill(gradient.values, 0.0f);
  gradient.set(8 * 10 + 9, -0.0f);
  gradient.set(51 * 10, std::numeric_limits<float>::quiet_NaN());
  TestContext test;
  const OnDevice on(gradient, Marks::kSome);
  EXPECT_EQ(found_rows(test, on.table), (std::vector<uint32_t>{8, 51}));
}

// What is not marked is not read.
TEST(Rows, OnlyMarkedBlocksAreLookedThrough) {
  for (const int64_t D : {1, 10, 128}) {
    Gradient gradient({40 * kBlock / D, D, 0}, false);
    std::ranges::fill(gradient.values, 0.0f);
    std::ranges::fill(gradient.marks, TouchedBlocks::kUntouched);
    gradient.set(5 * kBlock + 3, 1);
    gradient.values[static_cast<size_t>(20 * kBlock + kBlock / 2)] = 1;
    TestContext test;
    const OnDevice on(gradient, Marks::kSome);
    EXPECT_EQ(found_rows(test, on.table).size(), 1);
  }
}

// The same where nothing is touched, and where nothing is marked.
TEST(Rows, NoRowsAreFoundWhereThereAreNone) {
  for (const Marks marks : {Marks::kAll, Marks::kSome}) {
    Gradient gradient({500, 10, 3}, false);
    std::ranges::fill(gradient.values, 0.0f);
    TestContext test;
    const OnDevice on(gradient, marks);
    EXPECT_TRUE(found_rows(test, on.table).empty());
  }
}

float as_sent(DType dtype, float value) {
  return dtype == DType::kBf16 ? from_bf16(bf16_of(value)) : value;
}

TEST(Rows, AreTakenOutOfTheTable) {
  for (const DType dtype : {DType::kF32, DType::kBf16})
    for_each_case([&](Gradient gradient, Marks marks) {
      TestContext test;
      const auto touched = gradient.touched();
      const OnDevice on(gradient, marks);
      const DeviceValues<uint32_t> numbers{std::span<const uint32_t>(touched)};
      const GuardedTensor values(
          dtype, Shape{std::ssize(touched), gradient.size.row_elems});
      take_rows(test.context, values, on.table, numbers.span());
      test.stream->synchronize();
      std::vector<double> wanted;
      for (const uint32_t row : touched)
        for (int64_t e = 0; e < gradient.size.row_elems; ++e) {
          wanted.push_back(as_sent(dtype, gradient.at(row, e)));
          gradient.values[static_cast<size_t>(
              gradient.size.place + row * gradient.size.row_elems + e)] = 0;
        }
      EXPECT_EQ(values.get(), wanted);
      EXPECT_EQ(on.values.get(test.context), gradient.values);
      EXPECT_EQ(on.marks.get(test.context), gradient.marks);
    });
}

// Rows of another gradient, some of which this one has as well.
TEST(Rows, AreAddedAndMarked) {
  for (const DType dtype : {DType::kF32, DType::kBf16})
    for_each_case([&](Gradient gradient, Marks marks) {
      TestContext test;
      const Gradient other(gradient.size, false, 3);
      const auto touched = other.touched();
      const OnDevice on(gradient, marks);
      std::vector<double> sent;
      for (const uint32_t row : touched)
        for (int64_t e = 0; e < gradient.size.row_elems; ++e)
          sent.push_back(as_sent(dtype, other.at(row, e)));
      const DeviceValues<uint32_t> numbers{std::span<const uint32_t>(touched)};
      const GuardedTensor values(
          dtype, Shape{std::ssize(touched), gradient.size.row_elems}, sent);
      add_rows(test.context, on.table, numbers.span(), values);
      auto term = sent.begin();
      for (const uint32_t row : touched)
        for (int64_t e = 0; e < gradient.size.row_elems; ++e) {
          const auto at = static_cast<size_t>(
              gradient.size.place + row * gradient.size.row_elems + e);
          gradient.values[at] += static_cast<float>(*term++);
          uint8_t& mark = gradient.marks[at / kBlock];
          if (marks == Marks::kSome && mark == TouchedBlocks::kUntouched)
            mark = TouchedBlocks::kTouched;
        }
      EXPECT_EQ(on.values.get(test.context), gradient.values);
      EXPECT_EQ(on.marks.get(test.context), gradient.marks);
    });
}

TEST(Rows, AWholeTableIsMarked) {
  for_each_case([](Gradient gradient, Marks marks) {
    TestContext test;
    const OnDevice on(gradient, marks);
    mark_rows(test.context, on.table);
    const int64_t n = gradient.size.rows * gradient.size.row_elems;
    for (int64_t i = 0; i < n; ++i) {
      uint8_t& mark = gradient.marks[(gradient.size.place + i) / kBlock];
      if (marks == Marks::kSome && mark == TouchedBlocks::kUntouched)
        mark = TouchedBlocks::kTouched;
    }
    EXPECT_EQ(on.marks.get(test.context), gradient.marks);
  });
}

TEST(Rows, PartsOfRowsAndOtherSizesAreRefused) {
  TestContext test;
  const Gradient gradient({20, 10}, true);
  const OnDevice on(gradient, Marks::kAll);
  const DeviceValues<uint32_t> words{
      std::span<const uint32_t>(std::vector<uint32_t>(20))};
  RowTable part = on.table;
  part.values = part.values.first(199);
  EXPECT_THROW(mark_rows(test.context, part), Error);
  EXPECT_THROW(count_rows(test.context, words, words.span().first(2), on.table),
               Error);
  const GuardedTensor values(DType::kF32, Shape{3, 10});
  EXPECT_THROW(take_rows(test.context, values, on.table, words.span().first(4)),
               Error);
  EXPECT_THROW(add_rows(test.context, on.table, words.span().first(4), values),
               Error);
}

}  // namespace
}  // namespace syncopate
