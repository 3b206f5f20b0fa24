// Sums tables of which every worker touched few rows, by exchanging rows rather
// than tables.
//
// Every member tells the others how many rows of each table have an element
// other than +0, then sends its rows, numbers and values, to every other
// member. All add up the rows in order of position and so end with the same
// bits. If so many rows of a table were touched that an all-reduce of the whole
// table is cheaper, it uses the ring instead; all members derive this from the
// counts.
//
// Bytes sent, with n_p rows of the member at p and rows of D elements of w
// bytes: (N-1) (8 + n_p (4 + w D)) per table, where sum_p n_p (4 + w D) is at
// most 2 w (rows of the table) D.
//
// Where the blocks that may have values are marked (base/touched_blocks.h), a
// call takes time in proportion to the rows that travel.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "base/touched_blocks.h"
#include "comm/endpoint.h"
#include "comm/wire.h"

namespace syncopate {

struct RowTable {
  std::span<float> values;  // whole rows, fewer than 2^32
  int64_t row_elems = 1;
  // Of `values` or of a range that they are part of. The call marks the rows of
  // all members.
  TouchedBlocks touched = {};
};

// Memory of one exchange at a time, reused by the next: incoming data is
// megabytes, which take as long to allocate as to add up.
class RowMemory {
 public:
  // Returns uninitialised room for a message of `bytes` from `position`.
  std::byte* message(int position, int64_t bytes);
  std::vector<std::vector<uint32_t>> touched;  // row numbers, by table
  std::vector<float> values;                   // of a block of rows

 private:
  struct Block {
    int64_t bytes = 0;
    std::unique_ptr<std::byte[]> data;
  };
  std::vector<Block> messages_;
};

// Sums in place over the group. All members call with tables of the same sizes;
// the tag is reserved for the call until it returns. Values are rounded to the
// wire format once, before they are added in fp32 (ring: see ring.h).
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

// Determines how a table is sent.
struct TouchedRows {
  int64_t elems = 0, row_elems = 1;  // per table, per row
  std::vector<int64_t> rows;         // touched, by position in the group
};
bool travels_as_rows(const TouchedRows& table, Wire wire);

// Returns the payload bytes that the member at `position` sends in one
// all_reduce_rows, exactly as the counters will show.
int64_t all_reduce_rows_bytes(std::span<const TouchedRows> tables,
                              int position,
                              Wire wire);

}  // namespace syncopate
