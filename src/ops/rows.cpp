#include "ops/rows.h"

#include <limits>

#include "ops/bodies.h"

namespace syncopate {
namespace {

void check_table(const RowTable& table) {
  CHECK(table.row_elems > 0 && std::ssize(table.values) % table.row_elems == 0);
  CHECK_MSG(table.rows() <= std::numeric_limits<uint32_t>::max(), "{} rows",
            table.rows());
}

void check_values(const ConstTensor& values,
                  const RowTable& table,
                  std::span<const uint32_t> numbers) {
  check_table(table);
  CHECK(values.dtype == DType::kF32 || values.dtype == DType::kBf16);
  CHECK(values.shape == Shape({std::ssize(numbers), table.row_elems}));
  CHECK(std::ssize(numbers) <= table.rows());
}

}  // namespace

// A table may begin and end within blocks; behind the counts is their sum.
int64_t num_row_places(const RowTable& table) {
  const int64_t n = std::ssize(table.values);
  return n / (kBlocksOfRowPlace * TouchedBlocks::kElems) + 3;
}

void count_rows(Context& context,
                uint32_t* count,
                std::span<uint32_t> places,
                const RowTable& table) {
  check_table(table);
  CHECK(std::ssize(places) == num_row_places(table));
  bodies_of(context).count_rows(context, count, places, table);
}

void list_rows(Context& context,
               std::span<uint32_t> numbers,
               std::span<const uint32_t> places,
               const RowTable& table) {
  check_table(table);
  CHECK(std::ssize(places) == num_row_places(table));
  CHECK(std::ssize(numbers) <= table.rows());
  bodies_of(context).list_rows(context, numbers, places, table);
}

void take_rows(Context& context,
               Tensor values,
               const RowTable& table,
               std::span<const uint32_t> numbers) {
  check_values(values, table, numbers);
  bodies_of(context).take_rows(context, values, table, numbers);
}

void add_rows(Context& context,
              const RowTable& table,
              std::span<const uint32_t> numbers,
              ConstTensor values) {
  check_values(values, table, numbers);
  bodies_of(context).add_rows(context, table, numbers, values);
}

void mark_rows(Context& context, const RowTable& table) {
  check_table(table);
  bodies_of(context).mark_rows(context, table);
}

}  // namespace syncopate
