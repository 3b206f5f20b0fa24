// The contract of the exchange of rows in every world, as functions that a test
// calls with a world.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>

#include "comm/row_exchange.h"
#include "unit/comm/endpoint_contract.h"

namespace syncopate::contract {

// The rows that a member touches.
struct RowCase {
  const char* name;
  bool (*touches)(int rank, int64_t row);
};

inline const RowCase kRowCases[] = {
    {"none", [](int, int64_t) { return false; }},
    {"some", [](int rank, int64_t row) { return (row * 7 + rank) % 11 == 0; }},
    {"the same", [](int, int64_t row) { return row % 19 == 3; }},
    {"unlike", [](int rank, int64_t row) { return row * 20 % 401 < rank; }},
    {"one member's",
     [](int rank, int64_t row) { return rank == 0 && row < 9; }},
    {"most of one", [](int rank, int64_t row) { return rank == 0 && row > 9; }},
    {"first and last",
     [](int rank, int64_t row) { return row == 0 || row + rank == 500; }},
    {"all", [](int, int64_t) { return true; }},
};

struct TableSize {
  int64_t rows, row_elems;
};
// The tables of one exchange: long and short rows, an empty table, odd sizes.
inline const std::vector<TableSize> kTables = {{501, 10}, {501, 1}, {0, 4},
                                               {1025, 3}, {33, 16}, {1, 5}};

inline float row_value(const RowCase& rows,
                       const TableSize& size,
                       int rank,
                       int64_t i) {
  return rows.touches(rank, i / size.row_elems) ? integer_of(rank, i) : 0.0f;
}

// The tables' values side by side, with marks of the blocks that have any.
struct MarkedTables {
  std::vector<float> values;
  std::vector<uint8_t> marks;
  std::vector<RowTable> tables;

  MarkedTables(const RowCase& rows, int rank, bool has_marks) {
    for (const TableSize& size : kTables)
      for (int64_t i = 0; i < size.rows * size.row_elems; ++i)
        values.push_back(row_value(rows, size, rank, i));
    if (has_marks) marks.resize(values.size() / TouchedBlocks::kElems + 1);
    const TouchedBlocks touched{values.data(),
                                has_marks ? marks.data() : nullptr};
    for (size_t i = 0; i < values.size(); ++i)
      if (values[i] != 0) mark_touched(touched, &values[i], 1);
    size_t begin = 0;
    for (const TableSize& size : kTables) {
      const auto elems = static_cast<size_t>(size.rows * size.row_elems);
      tables.push_back(
          {std::span(values).subspan(begin, elems), size.row_elems, touched});
      begin += elems;
    }
  }
};

// Counts the rows that the members touch.
inline std::vector<TouchedRows> counted_rows(const RowCase& rows,
                                             const Ranks& members) {
  std::vector<TouchedRows> tables;
  for (const TableSize& size : kTables) {
    TouchedRows touched{size.rows * size.row_elems, size.row_elems, {}};
    for (const int rank : members) {
      int64_t count = 0;
      for (int64_t row = 0; row < size.rows; ++row) {
        bool is_touched = false;
        for (int64_t d = 0; d < size.row_elems; ++d)
          is_touched = is_touched || row_value(rows, size, rank,
                                               row * size.row_elems + d) != 0;
        count += is_touched;
      }
      touched.rows.push_back(count);
    }
    tables.push_back(std::move(touched));
  }
  return tables;
}

inline void check_rows_of(Endpoint& endpoint,
                          const Group& group,
                          const RowCase& rows,
                          Wire wire,
                          bool has_marks = false) {
  MarkedTables marked(rows, endpoint.rank(), has_marks);
  const int64_t before = endpoint.traffic().bytes_sent[0];
  HostRows host(marked.tables);
  all_reduce_rows(endpoint, group, host, wire, tags::kCollective, kPayload);
  for (size_t i = 0; has_marks && i < marked.values.size(); ++i)
    EXPECT_TRUE(marked.values[i] == 0 ||
                marked.marks[i / TouchedBlocks::kElems] != 0)
        << rows.name << " " << i;
  for (size_t t = 0; t < kTables.size(); ++t)
    expect_sums(
        marked.tables[t].values, group.members,
        [&](int member, int64_t i) {
          return row_value(rows, kTables[t], member, i);
        },
        rows.name);
  EXPECT_EQ(endpoint.traffic().bytes_sent[0] - before,
            group.size() == 1
                ? 0
                : all_reduce_rows_bytes(counted_rows(rows, group.members),
                                        group.position, wire))
      << rows.name;
}

inline void check_rows(World& world) {
  world.run([](Endpoint& endpoint) {
    for (const Wire wire : {Wire::kF32, Wire::kBf16})
      for (const RowCase& rows : kRowCases)
        for (const bool has_marks : {false, true})
          check_rows_of(endpoint, endpoint.world_group(), rows, wire,
                        has_marks);
  });
}

// Two disjoint groups at the same time, not in rank order; then all but one
// member.
inline void check_rows_in_groups(World& world) {
  world.run([](Endpoint& endpoint) {
    const int n = endpoint.size(), rank = endpoint.rank();
    std::vector<int> half;
    for (int r = n - 1; r >= 0; --r)
      if (r % 2 == rank % 2) half.push_back(r);
    for (const RowCase& rows : kRowCases)
      check_rows_of(endpoint, endpoint.group(half), rows, Wire::kF32);
    for (int out = 0; out < n; ++out) {
      std::vector<int> members;
      for (int r = 0; r < n; ++r)
        if (r != out) members.push_back(r);
      if (rank != out)
        check_rows_of(endpoint, endpoint.group(members), kRowCases[1],
                      Wire::kBf16);
    }
    barrier(endpoint, endpoint.world_group(), tags::kControl);
  });
}

// Exchanges in tasks that every worker starts in a different order.
inline void check_rows_at_once(World& world) {
  world.run([](Endpoint& endpoint) {
    constexpr int64_t kRows = 3000, kElems = 10;
    constexpr int kTasks = 4;
    std::vector<std::vector<float>> values(
        kTasks, std::vector<float>(kRows * kElems, 0.0f));
    const auto value = [](int rank, int task, int64_t i) {
      return (i / kElems + rank) % (20 + task) == 0 ? integer_of(rank, i + task)
                                                    : 0.0f;
    };
    std::vector<Task> tasks(kTasks);
    for (int k = 0; k < kTasks; ++k) {
      const int t = (k + endpoint.rank()) % kTasks;
      for (int64_t i = 0; i < kRows * kElems; ++i)
        values[t][i] = value(endpoint.rank(), t, i);
      tasks[t] = endpoint.start("rows", [&values, t](Endpoint& own) {
        HostRows table({{values[t], kElems}});
        all_reduce_rows(own, own.world_group(), table, Wire::kF32,
                        tags::kBucket + t, kPayload);
      });
    }
    for (const Task& task : tasks) endpoint.join(task);
    for (int t = 0; t < kTasks; ++t)
      expect_sums(
          values[t], endpoint.world_group().members,
          [&](int r, int64_t i) { return value(r, t, i); },
          "task " + std::to_string(t));
  });
}

// Values whose sums are rounded. Sums are formed in order of position, so every
// member ends with the same bits.
inline void check_order_of_rows(World& world) {
  world.run([](Endpoint& endpoint) {
    const int n = endpoint.size(), rank = endpoint.rank();
    constexpr int64_t kRows = 4001, kElems = 7;
    // Computed once, because a compiler may contract the formula differently in
    // two places.
    std::vector<std::vector<float>> of_rank(n);
    for (int r = 0; r < n; ++r)
      for (int64_t i = 0; i < kRows * kElems; ++i) {
        const int64_t row = i / kElems;
        const bool is_touched = row % 13 == 2 || row % 17 == r;
        of_rank[r].push_back(is_touched ? value_of(r, i) : 0.0f);
      }
    for (const Wire wire : {Wire::kF32, Wire::kBf16}) {
      std::vector<float> values = of_rank[rank];
      HostRows table({{values, kElems}});
      all_reduce_rows(endpoint, endpoint.world_group(), table, wire,
                      tags::kCollective, kPayload);
      int64_t wrong = 0;
      for (size_t i = 0; i < values.size(); ++i) {
        float sum = 0;
        for (int r = 0; r < n; ++r) {
          const float term = of_rank[r][i];
          sum += wire == Wire::kBf16 && n > 1 ? from_bf16(bf16_of(term)) : term;
        }
        wrong += std::memcmp(&values[i], &sum, sizeof sum) != 0;
      }
      EXPECT_EQ(wrong, 0);
    }
  });
}

}  // namespace syncopate::contract
