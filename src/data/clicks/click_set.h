// Records of advertisements shown, with the fields of the Criteo Display
// Advertising Challenge: 13 integers and 26 categories. Each value is the
// number of a row in its field's part of a table.
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
#include "data/thread_pool.h"

namespace syncopate {

// A set of records.
class ClickSet {
 public:
  virtual ~ClickSet() = default;
  // Several threads may read at once.
  virtual int64_t samples() const = 0;
  virtual std::span<const uint8_t> clicked() const = 0;  // (samples) 0 or 1
  // rows (F): each within its own field, [0, spec.rows[f]).
  virtual void read(int64_t sample, std::span<int32_t> rows) const = 0;
  virtual int64_t memory_bytes() const = 0;  // not counting mapped files
};

struct ClickData {
  std::unique_ptr<ClickSet> train, test;
  ClickSpec spec;
  std::string source;
  std::string digest;
  std::string vocabulary;  // its digest; "": the records were made
  // synthetic_criteo: the AUC of the probabilities from which the labels of the
  // test set were drawn, an upper bound in expectation for every model.
  std::optional<double> best_auc;
};

// For criteo, data.path is a folder that prepare_criteo wrote. Errors as in
// load_dataset. Checks everything but the digests of the mapped records, which
// check_clicks does.
ClickData load_clicks(const DataOptions& options);

// The faults in a prepared folder, one line each. Reads every byte.
std::vector<std::string> check_clicks(const fs::path& folder);

// Converts tab-separated lines (label, 13 integers, 26 hexadecimal categories,
// missing values empty) to a compact binary form. Integers v above 2 become
// floor(ln(v)^2), others v - 2. Values that occur fewer than `threshold` times
// in the training records share a row of their field. Makes two passes over the
// file; memory use depends only on the vocabulary. With `vocabulary`, one pass
// writes all records as a test set whose rows are those of an earlier
// preparation, on which models that were trained with that one can be used.
struct PrepareCriteo {
  fs::path from;             // TSV, also .gz
  fs::path to;               // must not exist, or be an empty folder
  fs::path vocabulary = {};  // a folder that prepare_criteo wrote, or ""
  bool keeps_vocabulary() const { return !vocabulary.empty(); }
  // Unused with `vocabulary`:
  static constexpr int64_t kThresholdLimit = 1'000'000'000;
  int64_t threshold = 10;
  double test_share = 0.1;  // drawn by `seed`
  uint64_t seed = 42;

  bool skips_bad_lines = false;  // false: fail at the first one
  int threads = 1;
  std::function<void(int64_t done, int64_t total)>
      progress;  // bytes; may be empty
};
struct PreparedCriteo {
  int64_t train = 0, test = 0, skipped = 0;  // records
  ClickSpec spec;
  int64_t bytes = 0;  // read
};
PreparedCriteo prepare_criteo(const PrepareCriteo& wanted);

// A batch on the host.
struct ClickBatch {
  std::vector<int32_t> labels, rows;
  int64_t fields = 0;
  // The threads of `pool` divide the samples among themselves; null: the caller
  // reads all.
  void fill(const ClickSet& set,
            const ClickSpec& spec,
            std::span<const int64_t> samples,
            ThreadPool* pool = nullptr);
  Batch view() const;
};

}  // namespace syncopate
