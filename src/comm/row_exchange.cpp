// A member's message: the numbers of its rows, table after table, then their
// values in the same order.
// SPDX-License-Identifier: Apache-2.0
#include "comm/row_exchange.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <memory>
#include <numeric>

#include "base/check.h"
#include "comm/collectives.h"

namespace syncopate {
namespace {

int64_t row_bytes(int64_t row_elems, Wire wire) {
  return int64_t{sizeof(uint32_t)} + wire_bytes(wire, row_elems);
}

// kElems: of a row where that is known when compiled, else 0.
template <int kElems>
bool has_value(const float* row, int64_t row_elems) {
  const int64_t elems = kElems > 0 ? kElems : row_elems;
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

template <int kElems>
std::vector<uint32_t> touched_rows(const RowTable& table) {
  const int64_t rows = std::ssize(table.values) / table.row_elems;
  std::vector<uint32_t> touched;
  constexpr int64_t kBlock = 1024;
  std::array<uint32_t, kBlock> found;  // without a branch: rows come at random
  for (int64_t begin = 0; begin < rows; begin += kBlock) {
    size_t count = 0;
    const int64_t end = std::min(rows, begin + kBlock);
    for (int64_t row = begin; row < end; ++row) {
      found[count] = static_cast<uint32_t>(row);
      count += has_value<kElems>(table.values.data() + row * table.row_elems,
                                 table.row_elems);
    }
    touched.insert(touched.end(), found.begin(), found.begin() + count);
  }
  return touched;
}

std::vector<uint32_t> touched_rows(const RowTable& table) {
  CHECK(table.row_elems > 0 && table.values.size() % table.row_elems == 0);
  CHECK(std::ssize(table.values) / table.row_elems <=
        std::numeric_limits<uint32_t>::max());
  if (table.row_elems == 1) return touched_rows<1>(table);
  if (table.row_elems == 10) return touched_rows<10>(table);  // as published
  return touched_rows<0>(table);
}

// Memory that what comes in overwrites.
class Message {
 public:
  Message() = default;
  explicit Message(int64_t bytes)
      : bytes_(bytes),
        memory_(std::make_unique_for_overwrite<std::byte[]>(
            static_cast<size_t>(bytes))) {}
  Bytes bytes() { return {memory_.get(), bytes_}; }
  std::byte* at(int64_t byte) { return memory_.get() + byte; }

 private:
  int64_t bytes_ = 0;
  std::unique_ptr<std::byte[]> memory_;
};

class RowExchange {
 public:
  RowExchange(Endpoint& endpoint,
              const Group& group,
              std::span<const RowTable> tables,
              Wire wire,
              Tag tag,
              Traffic kind)
      : endpoint_(endpoint),
        group_(group),
        tables_(tables),
        wire_(wire),
        tag_(tag),
        kind_(kind) {}

  // `touched`: this member's rows, by table.
  void run(const std::vector<std::vector<uint32_t>>& touched) {
    tell_counts(touched);
    Message own = pack(touched);
    std::vector<Message> messages(group_.size());
    std::vector<Request> sends, receives(group_.size());
    // To the next position first, so that no member gets all at once.
    for (int k = 1; k < group_.size(); ++k) {
      const int from = (group_.position + group_.size() - k) % group_.size();
      messages[from] = Message(message_bytes(from));
      receives[from] =
          endpoint_.irecv(messages[from].bytes(), group_.members[from], tag_);
    }
    for (int k = 1; k < group_.size(); ++k) {
      const int to = (group_.position + k) % group_.size();
      const Bytes all = own.bytes();
      sends.push_back(endpoint_.isend({all.data, all.bytes}, group_.members[to],
                                      tag_, kind_));
    }
    for (size_t t = 0; t < tables_.size(); ++t)
      if (is_sparse_[t]) clear(tables_[t], touched[t]);
    for (int p = 0; p < group_.size(); ++p) {
      if (p != group_.position) endpoint_.wait(receives[p]);
      add(p == group_.position ? own : messages[p], p);
    }
    for (const Request& send : sends) endpoint_.wait(send);
    for (size_t t = 0; t < tables_.size(); ++t)
      if (!is_sparse_[t])
        all_reduce_sum(endpoint_, group_, tables_[t].values,
                       CollectiveAlgorithm::kRing, wire_, tag_, kind_);
  }

 private:
  void tell_counts(const std::vector<std::vector<uint32_t>>& touched) {
    const size_t T = tables_.size();
    std::vector<int64_t> own(T), counts(T * group_.size());
    for (size_t t = 0; t < T; ++t) own[t] = std::ssize(touched[t]);
    std::vector<Request> requests;
    for (int p = 0; p < group_.size(); ++p) {
      const std::span<int64_t> theirs(counts.data() + p * T, T);
      if (p == group_.position) {
        std::copy(own.begin(), own.end(), theirs.begin());
        continue;
      }
      requests.push_back(
          endpoint_.irecv(bytes_span(theirs), group_.members[p], tag_));
      requests.push_back(
          endpoint_.isend(bytes_view(std::span<const int64_t>(own)),
                          group_.members[p], tag_, kind_));
    }
    for (const Request& request : requests) endpoint_.wait(request);
    for (size_t t = 0; t < T; ++t) {
      TouchedRows rows{std::ssize(tables_[t].values), tables_[t].row_elems, {}};
      for (int p = 0; p < group_.size(); ++p)
        rows.rows.push_back(counts[p * T + t]);
      is_sparse_.push_back(travels_as_rows(rows, wire_));
      counts_.push_back(std::move(rows.rows));
    }
  }

  int64_t message_bytes(int position) const {
    int64_t bytes = 0;
    for (size_t t = 0; t < tables_.size(); ++t)
      if (is_sparse_[t])
        bytes += counts_[t][position] * row_bytes(tables_[t].row_elems, wire_);
    return bytes;
  }
  int64_t number_bytes(int position) const {
    int64_t bytes = 0;
    for (size_t t = 0; t < tables_.size(); ++t)
      if (is_sparse_[t])
        bytes += counts_[t][position] * int64_t{sizeof(uint32_t)};
    return bytes;
  }

  Message pack(const std::vector<std::vector<uint32_t>>& touched) const {
    Message message(message_bytes(group_.position));
    std::byte* number = message.at(0);
    std::byte* value = message.at(number_bytes(group_.position));
    for (size_t t = 0; t < tables_.size(); ++t) {
      if (!is_sparse_[t] || touched[t].empty()) continue;
      const auto& [values, elems] = tables_[t];
      const size_t bytes = touched[t].size() * sizeof(uint32_t);
      std::memcpy(number, touched[t].data(), bytes);
      number += bytes;
      for (const uint32_t row : touched[t]) {
        const float* from = values.data() + row * elems;
        if (wire_ == Wire::kBf16)
          pack_bf16(reinterpret_cast<uint16_t*>(value), from, elems);
        else
          std::memcpy(value, from,
                      static_cast<size_t>(wire_bytes(wire_, elems)));
        value += wire_bytes(wire_, elems);
      }
    }
    return message;
  }

  static void clear(const RowTable& table, const std::vector<uint32_t>& rows) {
    for (const uint32_t row : rows)
      std::fill_n(table.values.data() + row * table.row_elems, table.row_elems,
                  0.0f);
  }

  void add(Message& message, int position) const {
    const auto* number = reinterpret_cast<const uint32_t*>(message.at(0));
    const std::byte* value = message.at(number_bytes(position));
    for (size_t t = 0; t < tables_.size(); ++t) {
      if (!is_sparse_[t]) continue;
      const int64_t rows = counts_[t][position];
      if (wire_ == Wire::kBf16)
        add_rows(tables_[t], {number, static_cast<size_t>(rows)},
                 reinterpret_cast<const uint16_t*>(value));
      else
        add_rows(tables_[t], {number, static_cast<size_t>(rows)},
                 reinterpret_cast<const float*>(value));
      number += rows;
      value += wire_bytes(wire_, rows * tables_[t].row_elems);
    }
  }

  static float wide(float value) { return value; }
  static float wide(uint16_t bits) { return from_bf16(bits); }

  template <typename Value>
  static void add_rows(const RowTable& table,
                       std::span<const uint32_t> rows,
                       const Value* from) {
    constexpr size_t kAhead = 16;  // rows lie far apart: asked for beforehand
    const int64_t elems = table.row_elems;
    for (size_t i = 0; i < rows.size(); ++i, from += elems) {
      const int64_t soon = rows[std::min(i + kAhead, rows.size() - 1)];
      __builtin_prefetch(table.values.data() + soon * elems, 1);
      float* to = table.values.data() + rows[i] * elems;
      for (int64_t j = 0; j < elems; ++j) to[j] += wide(from[j]);
    }
  }

  Endpoint& endpoint_;
  const Group& group_;
  const std::span<const RowTable> tables_;
  const Wire wire_;
  const Tag tag_;
  const Traffic kind_;
  std::vector<std::vector<int64_t>> counts_;  // by table, by position
  std::vector<bool> is_sparse_;               // by table
};

}  // namespace

bool travels_as_rows(const TouchedRows& table, Wire wire) {
  const int64_t touched =
      std::accumulate(table.rows.begin(), table.rows.end(), int64_t{0});
  // Of all members together, over N - 1.
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

void all_reduce_rows(Endpoint& endpoint,
                     const Group& group,
                     std::span<const RowTable> tables,
                     Wire wire,
                     Tag tag,
                     Traffic kind) {
  CHECK(group.position >= 0 && group.position < group.size());
  CHECK(group.members[group.position] == endpoint.rank());
  if (group.size() == 1) return;
  std::vector<std::vector<uint32_t>> touched;
  for (const RowTable& table : tables) touched.push_back(touched_rows(table));
  endpoint.perform([&](Endpoint& here) {
    RowExchange(here, group, tables, wire, tag, kind).run(touched);
  });
}

}  // namespace syncopate
