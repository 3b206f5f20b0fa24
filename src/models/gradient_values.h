// A replica's gradients, with marks of the blocks of embedding tables that the
// step touched.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <utility>
#include <vector>

#include "device/device_vector.h"
#include "models/model.h"

namespace syncopate {

// In the memory of the replica's device. Reading is free. Backward marks what
// it adds to; whoever else writes marks as well, or asks for it anew in each
// step, after which the step's marks no longer count: its passes read
// everything, and so does the next clear().
class GradientValues {
 public:
  GradientValues(Context& context, const Model& model);

  int64_t size() const { return values_.size(); }
  operator std::span<const float>() const { return values_; }

  std::span<float> span() {
    is_written_ = true;
    return values_;
  }
  // The whole range, for those who write `elems` elements from `offset` only:
  // the marks still count if none of them is in a table.
  std::span<float> span_for(int64_t offset, int64_t elems);
  operator std::span<float>() { return span(); }
  float* data() { return span().data(); }
  void assign(std::span<const float> values) {
    is_written_ = true;
    values_.assign(values);
  }
  // Leaves the marks as backward does: in each embedding table, only the given
  // rows may be non-zero. `rows` has one entry per table, in the order of the
  // model's parameters.
  void assign(std::span<const float> values,
              const ParameterTable& parameters,
              std::span<const std::vector<int32_t>> rows);

  // The number of rows of each embedding table that the step touches, in the
  // order of the model's parameters: for a simulation, where there are no
  // values to look at.
  const std::vector<int64_t>& touched_rows() const { return touched_rows_; }
  void set_touched_rows(std::vector<int64_t> rows) {
    touched_rows_ = std::move(rows);
  }

  // Sets all to zero before the step's first backward pass.
  void clear(Context& context);
  // The values, for callers that mark what they add to or write only zeros.
  std::span<float> marked() { return values_; }
  TouchedBlocks marks() const { return {values_.data(), marks_.data()}; }
  // marks(), or none if they no longer count.
  TouchedBlocks touched() const {
    return is_written_ ? TouchedBlocks() : marks();
  }

 private:
  DeviceVector<float> values_;
  DeviceVector<uint8_t> marks_;  // empty: the model does not mark
  // Begin and end of successive tables, in elements.
  std::vector<std::pair<int64_t, int64_t>> tables_;
  std::vector<int64_t> touched_rows_;
  bool is_written_ = false;
};

}  // namespace syncopate
