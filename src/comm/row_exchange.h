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

#include <memory>
#include <span>
#include <vector>

#include "comm/endpoint.h"
#include "comm/wire.h"

namespace syncopate {

struct RowTable {
  std::span<float> values;  // whole rows, fewer than 2^32
  int64_t row_elems = 1;
};

// Memory of one exchange at a time, kept from one to the next: what comes in
// is megabytes, which cost as much to get from the system as to add up.
class RowMemory {
 public:
  // Room for `bytes`, which are not set, as the message of a position.
  std::byte* message(int position, int64_t bytes);
  std::vector<std::vector<uint32_t>> touched;  // rows, by table
  std::vector<float> values;                   // of a range of rows

 private:
  struct Block {
    int64_t bytes = 0;
    std::unique_ptr<std::byte[]> data;
  };
  std::vector<Block> messages_;
};

// In place, over the group. All members call with tables of the same sizes;
// the tag belongs to the call until it returns. Values are rounded to the wire
// once, before they are added in fp32 (by the ring: see there).
void all_reduce_rows(Endpoint& endpoint,
                     const Group& group,
                     std::span<const RowTable> tables,
                     Wire wire,
                     Tag tag,
                     Traffic kind,
                     RowMemory& memory);
inline void all_reduce_rows(Endpoint& endpoint,
                            const Group& group,
                            std::span<const RowTable> tables,
                            Wire wire,
                            Tag tag,
                            Traffic kind) {
  RowMemory memory;
  all_reduce_rows(endpoint, group, tables, wire, tag, kind, memory);
}

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
