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
// call takes time in proportion to the rows that travel, on the host and, for
// tables in a GPU's memory (sync/device_rows.h), there and on the bus.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/row_table.h"
#include "comm/endpoint.h"
#include "comm/wire.h"

namespace syncopate {

// A table's rows in a member's message.
struct RowPart {
  int64_t rows = 0;
  int64_t numbers = 0, values = 0;  // offsets in bytes
};
using RowParts = std::vector<RowPart>;  // by table

// A member's tables and messages, wherever they are, for one exchange at a
// time. What is added marks the blocks of its rows.
class RowTables {
 public:
  explicit RowTables(std::vector<RowTable> tables)
      : tables_(std::move(tables)) {}
  virtual ~RowTables() = default;
  RowTables(const RowTables&) = delete;
  RowTables& operator=(const RowTables&) = delete;

  std::span<const RowTable> tables() const { return tables_; }
  // Sets the marks for the next exchange. They may cover a range that contains
  // the tables.
  void set_touched(const TouchedBlocks& touched) {
    for (RowTable& table : tables_) table.touched = touched;
  }

  // Begins an exchange: returns the number of touched rows, by table.
  virtual std::vector<int64_t> find(Endpoint& endpoint) = 0;
  // Returns uninitialised room for a position's message, for the endpoint to
  // send or receive into.
  virtual Bytes message(int position, int64_t bytes) = 0;
  // Moves the touched rows of the tables that have any in `parts` into a
  // message, with values in the wire's format, and sets them to 0.
  virtual void take(Endpoint& endpoint,
                    int position,
                    const RowParts& parts,
                    Wire wire) = 0;
  // Adds the rows of all messages, in order of position.
  virtual void add(std::span<const RowParts> by_position, Wire wire) = 0;
  // For a table that travels whole: returns its values, to be replaced by the
  // sum until `put_whole`.
  virtual std::span<float> whole(Endpoint& endpoint, size_t table) = 0;
  virtual void put_whole(size_t table) = 0;
  // Work submitted to the stream from here on runs after the exchange.
  virtual void make_wait(Stream& /*stream*/) {}

 private:
  std::vector<RowTable> tables_;
};

// What the members of a group send each other.
struct RowPlan {
  std::vector<bool> is_sparse;         // by table: the others travel whole
  std::vector<RowParts> parts;         // by position
  std::vector<int64_t> message_bytes;  // by position
};

// Tells the others how many rows this member touched, as RowTables::find
// returned them, and derives the same plan as they from all counts. A part of
// all_reduce_rows, for those who send messages in another way.
RowPlan plan_rows(Endpoint& endpoint,
                  const Group& group,
                  std::span<const RowTable> tables,
                  const std::vector<int64_t>& touched,
                  Wire wire,
                  Tag tag,
                  Traffic kind);

// Sums in place over the group. All members call with tables of the same sizes;
// the tag is reserved for the call until it returns. Values are rounded to the
// wire format once, before they are added in fp32 (ring: see ring.h).
void all_reduce_rows(Endpoint& endpoint,
                     const Group& group,
                     RowTables& tables,
                     Wire wire,
                     Tag tag,
                     Traffic kind);

// Tables in host memory. Keeps the memory of one exchange for the next:
// incoming data is megabytes, which take as long to allocate as to add up.
class HostRows final : public RowTables {
 public:
  using RowTables::RowTables;
  std::vector<int64_t> find(Endpoint& endpoint) override;
  Bytes message(int position, int64_t bytes) override;
  void take(Endpoint& endpoint,
            int position,
            const RowParts& parts,
            Wire wire) override;
  void add(std::span<const RowParts> by_position, Wire wire) override;
  std::span<float> whole(Endpoint& endpoint, size_t table) override;
  void put_whole(size_t table) override;

 private:
  struct Rows {
    std::span<const uint32_t> numbers;
    const std::byte* values;
  };
  void add_range(Rows& rows, const RowTable& table, int64_t end, Wire wire);
  float* values_of(int64_t rows, const RowTable& table);

  struct Block {
    int64_t bytes = 0;
    std::unique_ptr<std::byte[]> data;
  };
  std::vector<Block> messages_;
  std::vector<std::vector<uint32_t>> touched_;  // row numbers, by table
  std::vector<float> values_;                   // of a block of rows
};

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
