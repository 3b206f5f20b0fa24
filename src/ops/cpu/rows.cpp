#include "ops/rows.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/bf16.h"
#include "ops/bodies.h"

namespace syncopate::cpu {
namespace {

// Calls body(row) for the touched rows, in ascending order.
template <typename Body>
void for_touched_rows(const RowTable& table, const Body& body) {
  const int64_t D = table.row_elems;
  int64_t next = 0;  // a row may reach into several marked parts
  for_touched(table.touched, table.values.data(), 0, std::ssize(table.values),
              [&](int64_t first, int64_t last) {
                const int64_t end = (last + D - 1) / D;
                for (int64_t row = std::max(next, first / D); row < end; ++row)
                  if (std::ranges::any_of(
                          table.values.subspan(row * D, D), [](float value) {
                            return std::bit_cast<uint32_t>(value) != 0;
                          }))
                    body(row);
                next = end;
              });
}

// Calls body(element of the table, element of `values`) for those of the rows.
template <typename T, typename Body>
void for_elems(const RowTable& table,
               std::span<const uint32_t> numbers,
               T* values,
               const Body& body) {
  const int64_t D = table.row_elems;
  for (const uint32_t row : numbers)
    for (float& of_table : table.values.subspan(row * D, D))
      body(of_table, *values++);
}

}  // namespace

void count_rows(Context&,
                uint32_t* count,
                std::span<uint32_t>,
                const RowTable& table) {
  *count = 0;
  for_touched_rows(table, [&](int64_t) { ++*count; });
}

void list_rows(Context&,
               std::span<uint32_t> numbers,
               std::span<const uint32_t>,
               const RowTable& table) {
  auto to = numbers.begin();
  for_touched_rows(table,
                   [&](int64_t row) { *to++ = static_cast<uint32_t>(row); });
  CHECK(to == numbers.end());
}

void take_rows(Context&,
               Tensor values,
               const RowTable& table,
               std::span<const uint32_t> numbers) {
  if (values.dtype == DType::kF32)
    for_elems(table, numbers, values.f32(),
              [](float& from, float& to) { to = std::exchange(from, 0.0f); });
  else
    for_elems(table, numbers, static_cast<Bf16*>(values.data),
              [](float& from, Bf16& to) {
                to = {bf16_of(std::exchange(from, 0.0f))};
              });
}

void add_rows(Context&,
              const RowTable& table,
              std::span<const uint32_t> numbers,
              ConstTensor values) {
  if (values.dtype == DType::kF32)
    for_elems(table, numbers, values.f32(),
              [](float& to, float from) { to += from; });
  else
    for_elems(table, numbers, static_cast<const Bf16*>(values.data),
              [](float& to, Bf16 from) { to += from_bf16(from.bits); });
  for (const uint32_t row : numbers)
    mark_touched(table.touched, &table.values[row * table.row_elems],
                 table.row_elems);
}

void mark_rows(Context&, const RowTable& table) {
  mark_touched(table.touched, table.values.data(), std::ssize(table.values));
}

}  // namespace syncopate::cpu
