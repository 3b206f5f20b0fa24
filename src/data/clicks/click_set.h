// Records of shown advertisements, clicked or not: the fields of the Criteo
// Display Advertising Challenge, 13 integers and 26 categories, each as a row
// number of its field's part of a table.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/batch.h"
#include "data/mapped_file.h"
#include "data/options.h"

namespace syncopate {

// Prepared records in the address space.
class ClickSet {
 public:
  virtual ~ClickSet() = default;
  virtual int64_t samples() const = 0;
  virtual std::span<const uint8_t> clicked() const = 0;  // (samples) 0 or 1
  // rows (F), each within its own field: [0, spec.rows[f]).
  virtual void read(int64_t sample, std::span<int32_t> rows) const = 0;
  virtual int64_t memory_bytes() const = 0;  // beside mapped files
};

struct ClickData {
  std::unique_ptr<ClickSet> train, test;
  ClickSpec spec;
  std::string source;
  std::string digest;
  // synthetic_criteo: the AUC of the probabilities by which the test set was
  // drawn, which no model can beat but by chance.
  std::optional<double> best_auc;
};

// criteo: data.path is a folder that prepare_criteo wrote. Errors as
// load_dataset. Everything is checked but the records of mapped files, whose
// digests validate looks at.
ClickData load_clicks(const DataOptions& options);

// Damage in the prepared files of `folder`, one line each; reads all of it.
std::vector<std::string> check_clicks(const fs::path& folder);

// label, 13 integers, 26 hexadecimal categories, tab-separated, empty where
// missing -> compact binary. An integer above 2 becomes floor(ln(v)^2), others
// v - 2; values that occur fewer than `threshold` times in the training records
// share a row of their field. Two passes over the file, in memory that the
// vocabulary alone determines.
struct PrepareCriteo {
  fs::path from;  // TSV, also .gz
  fs::path to;    // a folder that does not exist yet or is empty
  int64_t threshold = 10;
  double test_share = 0.1;  // drawn by `seed`
  uint64_t seed = 42;
  bool skips_bad_lines = false;  // otherwise the first one ends it
  int threads = 1;
  std::function<void(int64_t done, int64_t total)> progress;  // bytes, or empty
};
struct PreparedCriteo {
  int64_t train = 0, test = 0, skipped = 0;  // records
  ClickSpec spec;
  int64_t bytes = 0;  // read
};
PreparedCriteo prepare_criteo(const PrepareCriteo& wanted);

// Batches on the host.
struct ClickBatch {
  std::vector<int32_t> labels, rows;
  int64_t fields = 0;
  void fill(const ClickSet& set,
            const ClickSpec& spec,
            std::span<const int64_t> samples);
  Batch view() const;
};

}  // namespace syncopate
