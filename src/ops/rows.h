// Rows of embedding tables by their numbers: finds those that a step touched,
// takes them out of a gradient, and adds others to one.
//
// Tables, numbers and values are in the memory of the context's device. Takes
// time in proportion to the marked blocks and to the rows, but for a pass over
// the marks.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "base/row_table.h"
#include "ops/context.h"

namespace syncopate {

// Blocks whose rows are counted together: few enough that a large table keeps a
// whole GPU busy, many enough that their counts are few.
inline constexpr int64_t kBlocksOfRowPlace = 64;

// Returns how many places count_rows needs for a table.
int64_t num_row_places(const RowTable& table);

// Assigns the number of touched rows, which have an element other than +0, to
// *count.
void count_rows(Context& context,
                uint32_t* count,
                std::span<uint32_t> places,  // for list_rows
                const RowTable& table);

// Assigns the numbers of the touched rows, as many as count_rows found, in
// ascending order. `places` and the table are as count_rows left them.
void list_rows(Context& context,
               std::span<uint32_t> numbers,
               std::span<const uint32_t> places,
               const RowTable& table);

// Moves rows side by side into `values`, and sets those of the table to 0.
void take_rows(Context& context,
               Tensor values,  // (rows, row_elems) fp32 or bf16
               const RowTable& table,
               std::span<const uint32_t> numbers);  // all different

// Adds rows to those of the table and marks their blocks.
void add_rows(Context& context,
              const RowTable& table,
              std::span<const uint32_t> numbers,  // all different
              ConstTensor values);  // (rows, row_elems) fp32 or bf16

// Marks all blocks of the table.
void mark_rows(Context& context, const RowTable& table);

}  // namespace syncopate
