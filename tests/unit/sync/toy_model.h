// A model that consists only of tables of tensors, and a worker's state in
// memory.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <string>

#include "sync/scheme.h"

namespace syncopate::test {

// Tables of tensors without any computation.
class ToyModel : public Model {
 public:
  ToyModel(const std::vector<int64_t>& tensors, int64_t num_buffers) {
    for (size_t i = 0; i < tensors.size(); ++i)
      parameters_.add("tensor" + std::to_string(i), Shape{tensors[i]},
                      Role::kWeight);
    if (num_buffers > 0)
      buffers_.add("statistics", Shape{num_buffers}, Role::kStatistic);
  }
  // Makes tensors of these shapes, the first ones as embedding tables.
  explicit ToyModel(const std::vector<Shape>& shapes) : ToyModel(0, shapes) {}
  ToyModel(size_t num_tables, const std::vector<Shape>& shapes) {
    for (size_t i = 0; i < shapes.size(); ++i)
      parameters_.add("tensor" + std::to_string(i), shapes[i],
                      i < num_tables ? Role::kEmbedding : Role::kWeight);
  }
  std::vector<MetricInfo> metrics() const override { return {{"loss", ""}}; }
  void initialise(std::span<float>, std::span<float>, uint64_t) const override {
  }
  void plan(Context&, int64_t, int64_t) override {}
  const std::vector<int64_t>& gradient_reports() const override {
    static const std::vector<int64_t> kAtTheEnd = {0};
    return kAtTheEnd;
  }
  int64_t activation_bytes() const override { return 0; }
  PendingSums forward_backward(Context&,
                               const ReplicaView&,
                               const Batch&,
                               const StepSettings&,
                               const GradientListener&) override {
    CHECK(false);
  }
  PendingSums evaluate(Context&, const ReplicaView&, const Batch&) override {
    CHECK(false);
  }
  void recompute_statistics(Context&,
                            const ReplicaView&,
                            const Batch&,
                            int64_t) override {}
  void predict(Context&,
               const ReplicaView&,
               const Batch&,
               std::vector<float>&) override {}
  double forward_macs() const override { return 0; }
};

// A worker's state as a checkpoint would hold it, in memory.
class StateInMemory final : public StateVisitor {
 public:
  enum class Way { kSave, kLoad };
  explicit StateInMemory(Way way) : way_(way) {}
  void turn(Way way) {
    way_ = way;
    visited_ = 0;
  }
  void visit(Owner owner, std::string_view name, Values values) override {
    std::visit([&](auto v) { take(owner, name, v.data(), v.size_bytes()); },
               values);
  }
  void check_all_loaded() const { EXPECT_EQ(visited_, values_.size()); }

 private:
  void take(Owner owner, std::string_view name, void* data, size_t bytes) {
    const std::string key =
        (owner == Owner::kShared ? "shared/" : "worker/") + std::string(name);
    if (way_ == Way::kSave) {
      EXPECT_EQ(values_.count(key), 0u) << key << " is visited twice";
      values_[key].assign(static_cast<char*>(data), bytes);
      return;
    }
    ++visited_;
    EXPECT_EQ(values_.count(key), 1u) << key << " was not saved";
    EXPECT_EQ(values_[key].size(), bytes) << key;
    if (values_[key].size() == bytes && bytes > 0)
      std::memcpy(data, values_[key].data(), bytes);
  }
  Way way_;
  size_t visited_ = 0;
  std::map<std::string, std::string> values_;
};

}  // namespace syncopate::test
