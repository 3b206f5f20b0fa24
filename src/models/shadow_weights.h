// bf16 copies of a replica's weights, which an optimizer's update writes in its
// pass. Whoever else writes parameters makes them stale, and the next step
// renews them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "device/device_vector.h"
#include "layers/walk.h"
#include "ops/shadow_weights.h"

namespace syncopate {

class ShadowWeights {
 public:
  ShadowWeights() = default;  // no copies
  // Copies of the table's entries (null: none), stale at first. Context and
  // table must outlive it.
  ShadowWeights(Context& context, const ShadowTable* table);

  void mark_stale() { is_stale_ = true; }
  // Copies all of `parameters` if the copies are stale.
  void renew(Context& context, std::span<const float> parameters);
  // For an update of all parameters that writes the copies as well.
  ShadowSlice rewrite();
  CopiedWeights view() const { return {table_, values_.data()}; }

 private:
  ShadowSlice slice() const {
    return {entries_.data(), entries_.size(), values_.data(), 0};
  }
  const ShadowTable* table_ = nullptr;
  DeviceVector<ShadowEntry> entries_;
  DeviceVector<Bf16> values_;
  bool is_stale_ = true;
};

// A replica's parameters in the memory of its device. Reading is free; who
// writes asks for it anew whenever the copies may have been used meanwhile.
class ParameterValues {
 public:
  ParameterValues() = default;
  ParameterValues(Context& context, int64_t elems, const ShadowTable* copies)
      : values_(context.device(), context.stream(), elems),
        shadow_(context, copies) {}

  int64_t size() const { return values_.size(); }
  const float* data() const { return values_.data(); }
  std::span<const float> span() const { return values_; }
  operator std::span<const float>() const { return values_; }
  ShadowWeights& shadow() { return shadow_; }

  const DeviceVector<float>& write() {
    shadow_.mark_stale();
    return values_;
  }
  void assign(std::span<const float> values) {
    shadow_.mark_stale();
    values_.assign(values);
  }
  // Write access for an update that writes copies as well.
  struct Update {
    std::span<float> values;
    ShadowSlice copies;
  };
  Update update() { return {values_, shadow_.rewrite()}; }

 private:
  DeviceVector<float> values_;
  ShadowWeights shadow_;
};

}  // namespace syncopate
