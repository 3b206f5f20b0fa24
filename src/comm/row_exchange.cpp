// A member's message holds the numbers of its rows, table after table, then
// their values in the same order.
// SPDX-License-Identifier: Apache-2.0
#include "comm/row_exchange.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <numeric>
#include <optional>
#include <type_traits>

#include "base/check.h"
#include "comm/collectives.h"

namespace syncopate {
namespace {

int64_t row_bytes(int64_t row_elems, Wire wire) {
  return int64_t{sizeof(uint32_t)} + wire_bytes(wire, row_elems);
}

// Calls body(elems) with the row width, as a compile-time constant for common
// widths (the published one, and one weight per row).
template <typename Body>
void with_width(int64_t row_elems, const Body& body) {
  if (row_elems == 1) return body(std::integral_constant<int64_t, 1>());
  if (row_elems == 10) return body(std::integral_constant<int64_t, 10>());
  body(row_elems);
}

bool has_value(const float* row, auto elems) {
  uint64_t bits = 0;
  for (int64_t i = 0; i + 2 <= elems; i += 2) {
    uint64_t two;
    std::memcpy(&two, row + i, sizeof two);
    bits |= two;
  }
  if (elems % 2 != 0) {
    uint32_t one;
    std::memcpy(&one, row + elems - 1, sizeof one);
    bits |= one;
  }
  return bits != 0;
}

void find_touched(std::vector<uint32_t>& touched, const RowTable& table) {
  const auto values = table.values;
  CHECK(table.row_elems > 0 && std::ssize(values) % table.row_elems == 0);
  const int64_t rows = std::ssize(values) / table.row_elems;
  CHECK(rows <= std::numeric_limits<uint32_t>::max());
  touched.clear();
  constexpr int64_t kBlock = 1024;
  std::array<uint32_t, kBlock> found;  // branchless: touched rows are random
  int64_t next = 0;  // a row may reach into several marked parts
  with_width(table.row_elems, [&](auto elems) {
    const auto look_through = [&](int64_t first, int64_t last) {
      const int64_t part_end = (last + elems - 1) / elems;
      for (int64_t begin = std::max(next, first / elems); begin < part_end;
           begin += kBlock) {
        int64_t count = 0;
        const int64_t end = std::min(part_end, begin + kBlock);
        for (int64_t row = begin; row < end; ++row) {
          found[static_cast<size_t>(count)] = static_cast<uint32_t>(row);
          count += has_value(values.data() + row * elems, elems);
        }
        touched.insert(touched.end(), found.begin(), found.begin() + count);
      }
      next = part_end;
    };
    for_touched(table.touched, values.data(), 0, std::ssize(values),
                look_through);
  });
}

// Calls body(row, elems) for each of `rows`, and prefetches rows some
// iterations ahead, since they are scattered in memory.
template <typename Body>
void for_each_row(const RowTable& table,
                  std::span<const uint32_t> rows,
                  const Body& body) {
  float* const values = table.values.data();
  with_width(table.row_elems, [&](auto elems) {
    constexpr size_t kAhead = 24;
    for (size_t i = 0; i < rows.size(); ++i) {
      if (i + kAhead < rows.size())
        __builtin_prefetch(values + rows[i + kAhead] * elems, 1);
      body(values + rows[i] * elems, elems);
    }
  });
}

// Moves rows side by side into `to` and sets those of the table to 0.
void take_rows(float* to,
               const RowTable& table,
               std::span<const uint32_t> rows) {
  for_each_row(table, rows, [&](float* __restrict row, auto elems) {
    float* __restrict out = to;
    for (int64_t j = 0; j < elems; ++j) out[j] = row[j];
    for (int64_t j = 0; j < elems; ++j) row[j] = 0;
    to += elems;
  });
}

void add_rows(const RowTable& table,
              std::span<const uint32_t> rows,
              const float* from) {
  for_each_row(table, rows, [&](float* __restrict row, auto elems) {
    const float* __restrict in = from;
    for (int64_t j = 0; j < elems; ++j) row[j] += in[j];
    mark_touched(table.touched, row, elems);
    from += elems;
  });
}

// Returns the first row number that is left, if there is any.
template <typename Rows>
std::optional<int64_t> first_of(std::span<const Rows> left) {
  std::optional<int64_t> first;
  for (const Rows& rows : left)
    if (!rows.numbers.empty())
      first =
          std::min(first.value_or(rows.numbers[0]), int64_t{rows.numbers[0]});
  return first;
}

// Places the parts of a member's message: the numbers of all tables, then their
// values. Returns its bytes.
int64_t place_parts(RowParts& parts,
                    std::span<const RowTable> tables,
                    Wire wire) {
  int64_t bytes = 0;
  for (RowPart& part : parts) {
    part.numbers = bytes;
    bytes += part.rows * int64_t{sizeof(uint32_t)};
  }
  for (size_t t = 0; t < tables.size(); ++t) {
    parts[t].values = bytes;
    bytes += wire_bytes(wire, parts[t].rows * tables[t].row_elems);
  }
  return bytes;
}

}  // namespace

bool travels_as_rows(const TouchedRows& table, Wire wire) {
  const int64_t touched =
      std::accumulate(table.rows.begin(), table.rows.end(), int64_t{0});
  // Total bytes of all members, divided by N - 1.
  return touched * row_bytes(table.row_elems, wire) <=
         2 * wire_bytes(wire, table.elems);
}

int64_t all_reduce_rows_bytes(std::span<const TouchedRows> tables,
                              int position,
                              Wire wire) {
  int64_t bytes = 0;
  for (const TouchedRows& table : tables) {
    const auto N = static_cast<int>(table.rows.size());
    bytes += (N - 1) * int64_t{sizeof(int64_t)};
    bytes +=
        travels_as_rows(table, wire)
            ? (N - 1) * table.rows[position] * row_bytes(table.row_elems, wire)
            : all_reduce_bytes(CollectiveAlgorithm::kRing, N, position,
                               table.elems, wire);
  }
  return bytes;
}

RowPlan plan_rows(Endpoint& endpoint,
                  const Group& group,
                  std::span<const RowTable> tables,
                  const std::vector<int64_t>& touched,
                  Wire wire,
                  Tag tag,
                  Traffic kind) {
  const size_t T = tables.size();
  std::vector<int64_t> counts(T * group.size());
  std::vector<Request> requests;
  for (int p = 0; p < group.size(); ++p) {
    const std::span<int64_t> theirs(counts.data() + p * T, T);
    if (p == group.position) {
      std::copy(touched.begin(), touched.end(), theirs.begin());
      continue;
    }
    requests.push_back(
        endpoint.irecv(bytes_span(theirs), group.members[p], tag));
    requests.push_back(
        endpoint.isend(bytes_view(std::span<const int64_t>(touched)),
                       group.members[p], tag, kind));
  }
  for (const Request& request : requests) endpoint.wait(request);
  RowPlan plan;
  plan.parts.assign(group.size(), RowParts(T));
  for (size_t t = 0; t < T; ++t) {
    TouchedRows rows{std::ssize(tables[t].values), tables[t].row_elems, {}};
    for (int p = 0; p < group.size(); ++p)
      rows.rows.push_back(counts[p * T + t]);
    plan.is_sparse.push_back(travels_as_rows(rows, wire));
    for (int p = 0; p < group.size() && plan.is_sparse.back(); ++p)
      plan.parts[p][t].rows = rows.rows[p];
  }
  for (RowParts& parts : plan.parts)
    plan.message_bytes.push_back(place_parts(parts, tables, wire));
  return plan;
}

namespace {

void exchange_rows(Endpoint& endpoint,
                   const Group& group,
                   RowTables& tables,
                   const RowPlan& plan,
                   Wire wire,
                   Tag tag,
                   Traffic kind) {
  std::vector<Bytes> messages;
  for (int p = 0; p < group.size(); ++p)
    messages.push_back(tables.message(p, plan.message_bytes[p]));
  std::vector<Request> requests;
  // Start with the next position, so that no member receives from all at once.
  for (int k = 1; k < group.size(); ++k) {
    const int from = (group.position + group.size() - k) % group.size();
    requests.push_back(
        endpoint.irecv(messages[from], group.members[from], tag));
  }
  tables.take(endpoint, group.position, plan.parts[group.position], wire);
  const Bytes own = messages[group.position];
  for (int k = 1; k < group.size(); ++k) {
    const int to = (group.position + k) % group.size();
    requests.push_back(
        endpoint.isend({own.data, own.bytes}, group.members[to], tag, kind));
  }
  for (const Request& request : requests) endpoint.wait(request);
  tables.add(plan.parts, wire);
}

}  // namespace

void all_reduce_rows(Endpoint& endpoint,
                     const Group& group,
                     RowTables& tables,
                     Wire wire,
                     Tag tag,
                     Traffic kind) {
  check_group(endpoint, group);
  if (group.size() == 1) return;
  const std::vector<int64_t> touched = tables.find(endpoint);
  endpoint.perform([&](Endpoint& here) {
    const RowPlan plan =
        plan_rows(here, group, tables.tables(), touched, wire, tag, kind);
    exchange_rows(here, group, tables, plan, wire, tag, kind);
    for (size_t t = 0; t < plan.is_sparse.size(); ++t) {
      if (plan.is_sparse[t]) continue;
      all_reduce_sum(here, group, tables.whole(here, t),
                     CollectiveAlgorithm::kRing, wire, tag, kind);
      tables.put_whole(t);
    }
  });
}

// --- in host memory ----------------------------------------------------------

std::vector<int64_t> HostRows::find(Endpoint&) {
  touched_.resize(tables().size());
  std::vector<int64_t> counts;
  for (size_t t = 0; t < tables().size(); ++t) {
    find_touched(touched_[t], tables()[t]);
    counts.push_back(std::ssize(touched_[t]));
  }
  return counts;
}

Bytes HostRows::message(int position, int64_t bytes) {
  if (std::ssize(messages_) <= position) messages_.resize(position + 1);
  Block& block = messages_[position];
  if (block.bytes < bytes || !block.data) {
    const int64_t room = bytes + bytes / 8;  // slack: counts vary a little
    block = {room, std::make_unique_for_overwrite<std::byte[]>(room)};
  }
  return {block.data.get(), bytes};
}

// Returns room for the values of `rows` rows.
float* HostRows::values_of(int64_t rows, const RowTable& table) {
  const auto elems = static_cast<size_t>(rows * table.row_elems);
  if (values_.size() < elems) values_.resize(elems);
  return values_.data();
}

void HostRows::take(Endpoint&, int position, const RowParts& parts, Wire wire) {
  constexpr size_t kBlock = 256;  // rows rounded together
  for (size_t t = 0; t < tables().size(); ++t) {
    if (parts[t].rows == 0) continue;
    const RowTable& table = tables()[t];
    const std::span<const uint32_t> touched = touched_[t];
    std::byte* const message = messages_[position].data.get();
    std::memcpy(message + parts[t].numbers, touched.data(),
                touched.size_bytes());
    std::byte* values = message + parts[t].values;
    if (wire == Wire::kF32) {
      take_rows(reinterpret_cast<float*>(values), table, touched);
      continue;
    }
    for (size_t i = 0; i < touched.size(); i += kBlock) {
      const auto block =
          touched.subspan(i, std::min(kBlock, touched.size() - i));
      const int64_t elems = std::ssize(block) * table.row_elems;
      float* wide = values_of(kBlock, table);
      take_rows(wide, table, block);
      pack_bf16(reinterpret_cast<uint16_t*>(values), wide, elems);
      values += wire_bytes(wire, elems);
    }
  }
}

// Adds one block of rows of a table at a time, which then stays in the cache
// while the rows of all positions are added.
void HostRows::add(std::span<const RowParts> by_position, Wire wire) {
  constexpr int64_t kRangeElems = int64_t{1} << 16;
  for (size_t t = 0; t < tables().size(); ++t) {
    const RowTable& table = tables()[t];
    const int64_t range = std::max<int64_t>(1, kRangeElems / table.row_elems);
    std::vector<Rows> left;
    for (size_t p = 0; p < by_position.size(); ++p) {
      const RowPart& part = by_position[p][t];
      const std::byte* message = messages_[p].data.get();
      left.push_back(
          {{reinterpret_cast<const uint32_t*>(message + part.numbers),
            static_cast<size_t>(part.rows)},
           message + part.values});
    }
    while (const auto row = first_of(std::span<const Rows>(left))) {
      const int64_t end = (*row / range + 1) * range;
      for (Rows& of_member : left) add_range(of_member, table, end, wire);
    }
  }
}

// Adds those of `rows` below `end`.
void HostRows::add_range(Rows& rows,
                         const RowTable& table,
                         int64_t end,
                         Wire wire) {
  const auto last =
      std::lower_bound(rows.numbers.begin(), rows.numbers.end(), end);
  const auto count = static_cast<size_t>(last - rows.numbers.begin());
  const auto elems = static_cast<int64_t>(count) * table.row_elems;
  const float* from = reinterpret_cast<const float*>(rows.values);
  if (wire == Wire::kBf16) {
    float* wide = values_of(static_cast<int64_t>(count), table);
    unpack_bf16(wide, reinterpret_cast<const uint16_t*>(rows.values), elems);
    from = wide;
  }
  add_rows(table, rows.numbers.first(count), from);
  rows.numbers = rows.numbers.subspan(count);
  rows.values += wire_bytes(wire, elems);
}

std::span<float> HostRows::whole(Endpoint&, size_t table) {
  return tables()[table].values;
}

void HostRows::put_whole(size_t table) {
  const RowTable& whole = tables()[table];
  mark_touched(whole.touched, whole.values.data(), std::ssize(whole.values));
}

}  // namespace syncopate
