// Sums tables of which every worker touched few rows: the rows travel, not the
// tables.
//
// Every member tells the others how many rows of each table have an element
// that is not +0; then its rows, number and values, go to every other member.
// Everyone adds up all rows in order of position, so that all end with the same
// bits. A table of which so many rows were touched that an all-reduce of the
// whole is less goes by the ring instead; all find the same, from the counts.
//
// Bytes sent, n_p rows of the member at p, rows of D elements of w bytes:
// (N-1) (8 + n_p (4 + w D)) a table, where sum_p n_p (4 + w D) is at most
// 2 w (rows of the table) D.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

#include "comm/endpoint.h"
#include "comm/wire.h"

namespace syncopate {

struct RowTable {
  std::span<float> values;  // whole rows, fewer than 2^32
  int64_t row_elems = 1;
};

// In place, over the group. All members call with tables of the same sizes;
// the tag belongs to the call until it returns. Values are rounded to the wire
// once, before they are added in fp32 (by the ring: see there).
void all_reduce_rows(Endpoint& endpoint,
                     const Group& group,
                     std::span<const RowTable> tables,
                     Wire wire,
                     Tag tag,
                     Traffic kind);

// What decides how a table travels.
struct TouchedRows {
  int64_t elems = 0, row_elems = 1;  // of the table, of a row
  std::vector<int64_t> rows;         // touched, by position in the group
};
bool travels_as_rows(const TouchedRows& table, Wire wire);

// Payload bytes that the member at `position` sends in one all_reduce_rows:
// exactly what the counters will show.
int64_t all_reduce_rows_bytes(std::span<const TouchedRows> tables,
                              int position,
                              Wire wire);

}  // namespace syncopate
