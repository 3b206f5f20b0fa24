// Measured plans in a file, by GPU, libraries and problem.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <map>
#include <string>

#include "base/file.h"
#include "ops/plans.h"

namespace syncopate {

// Where plans were measured: with another GPU or version of a library they may
// not exist, or be slow.
struct PlanOrigin {
  std::string gpu;        // "NVIDIA H200, 139.8 GiB"
  std::string libraries;  // "cuDNN 9.19.0, cuBLASLt 13.1.0"
  auto operator<=>(const PlanOrigin&) const = default;
};
PlanOrigin plan_origin_of(const Device& device);

struct MeasuredPlan {
  std::string plan;
  double seconds;
  bool operator==(const MeasuredPlan&) const = default;
};

// The file is text, one entry a line, its words separated by tabs:
//
//   syncopate plans 1
//   on  GPU  LIBRARIES
//   plan  MICROSECONDS  PROBLEM  PLAN
//
// where plans belong to the line "on" above them.
class PlanTable {
 public:
  // Errors: as read_file; kBadInput "FILE:LINE: ..." for anything but the
  // above.
  static PlanTable read(const fs::path& path);
  void write(const fs::path& path) const;

  // Replaces what is there for this problem.
  void put(const PlanOrigin& origin,
           const std::string& problem,
           const MeasuredPlan& plan);
  // Null if there is none.
  const MeasuredPlan* find(const PlanOrigin& origin,
                           const std::string& problem) const;
  int64_t count(const PlanOrigin& origin) const;
  // One clause: how many plans there are for this origin or, if none, for
  // which others.
  std::string describe(const PlanOrigin& origin) const;

 private:
  std::map<PlanOrigin, std::map<std::string, MeasuredPlan>> plans_;
};

// Takes a table's plan where it has one that is still allowed; else the
// library's.
class TablePlans final : public PlanChooser {
 public:
  TablePlans(PlanTable table, PlanOrigin here)
      : table_(std::move(table)), here_(std::move(here)) {}
  size_t choose(Context& context, const PlanRequest& request) override;
  std::string describe() const { return table_.describe(here_); }

 private:
  PlanTable table_;
  PlanOrigin here_;
};

// Runs every plan and puts the fastest into a table. The operands' values are
// afterwards of no use: products may have been added to them many times.
class PlanTuner final : public PlanChooser {
 public:
  PlanTuner(PlanTable& table, PlanOrigin here)
      : table_(table), here_(std::move(here)) {}
  size_t choose(Context& context, const PlanRequest& request) override;

  // Times of all problems so far, by the library's choices and by the fastest.
  struct Gain {
    int64_t problems = 0;
    double before_s = 0, after_s = 0;
  };
  const Gain& gain() const { return gain_; }

 private:
  PlanTable& table_;
  PlanOrigin here_;
  Gain gain_;
};

}  // namespace syncopate
