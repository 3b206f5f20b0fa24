// results.h5: self-describing series of a run, consistent at every moment.
//
// Every column is a series over its table's column step, which is its dimension
// scale.
//
// Tables are kept in memory. Each commit rewrites the file: to a temporary
// beside it, closed, fsynced, renamed, so a reader, or a kill, finds the old
// file or the new one. The file is sealed (base/hdf5_seal.h): it contains a
// digest of itself that is checked before HDF5 reads it. Kept by rank 0 only.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/detail.h"
#include "base/file.h"

namespace syncopate {

// One dataset: (rows) if width == 0, else (rows, width).
struct Column {
  std::string name;         // "loss"
  std::string unit;         // UDUNITS text, "1" where there is none
  std::string description;  // one sentence
  int64_t width = 0;        // per-worker columns: number of workers
  bool is_integer = false;  // stored as int64, else float64
  // Depends on wall time, so equal runs differ in it; becomes the dataset's
  // attribute depends_on_clock.
  bool is_time = false;
  std::vector<double> values = {};
  std::string across = "worker";  // the second axis
};

class Table {
 public:
  // Declare all columns before the first row.
  void declare(Column column);
  // What a row is, as the group's attribute "description".
  void describe(std::string text) { description_ = std::move(text); }
  const std::string& description() const { return description_; }
  // Values in order of declaration; `width` values for a per-worker column.
  void append(const std::vector<double>& row);
  int64_t rows() const;
  const std::vector<Column>& columns() const { return columns_; }
  const Column& column(const std::string& name) const;
  // Keeps the rows whose `column` is <= limit, for a resume.
  void keep_up_to(const std::string& column, double limit);

 private:
  friend class Results;
  std::string description_;
  std::vector<Column> columns_;
  int64_t row_width_ = 0;
};

class Hdf5Reader;

class Results {
 public:
  explicit Results(fs::path path);
  Table& table(const std::string& group);  // "train", "eval", "comm", "sync"
  // Attributes of /provenance (text or integers) and of /summary's datasets.
  void provenance(const std::string& name, const std::string& value);
  void provenance(const std::string& name, int64_t value);
  // Of a run's first start: a resumed run keeps what it had.
  void first_provenance(const std::string& name, const std::string& value);
  void summary(const std::string& name,
               double value,
               const std::string& unit,
               const std::string& description);
  // Records how the run ended, if it was stopped, by what, and at which step:
  // attributes "ended" ("finished", ...), "stopped_by" and "step" of /summary.
  void ended(const std::string& how,
             const std::string& stopped_by,
             int64_t step);

  // Returns nullopt if it was not set.
  std::optional<int64_t> provenance_integer(const std::string& name) const;

  // Fills declared tables from an earlier file of this run; drops rows later
  // than `worker_steps` (column "worker_steps" in every table). Adopts
  // provenance that was not set yet. Columns that an earlier version did not
  // write become NaN (integers: 0). A file that cannot be read is
  // Error(kBadInput), an absent one Error(kInputMissing).
  void resume(int64_t worker_steps);
  // Returns how many workers wide that file's columns are, from its provenance.
  // Errors: as for resume.
  int64_t workers_in_file() const;
  // Adopts only its provenance, for a run whose rows continue in another file.
  void take_provenance();

  void commit();  // Error(kIoError / kCannotCreate)
  // Commits if the last commit was 10 s ago and commits so far took at most 1%
  // of the time since the start.
  void commit_if_due();
  const fs::path& path() const { return path_; }

 private:
  void read_provenance(const Hdf5Reader& file);
  void write(const fs::path& temporary) const;

  fs::path path_;
  std::map<std::string, Table> tables_;
  std::map<std::string, std::string> provenance_text_;
  std::map<std::string, int64_t> provenance_int_;
  std::set<std::string> first_provenance_;  // names
  struct Scalar {
    double value;
    std::string unit, description;
  };
  std::map<std::string, Scalar> summary_;
  std::map<std::string, std::string> summary_text_;
  double created_s_, last_commit_s_, spent_s_ = 0;
};

// For `status`: the last row's step and the attributes of Results::ended
// ("none" if the run has not ended or was killed; `ended_at` is then the last
// row's step, too). Errors: as for Results::resume.
struct RunOutcome {
  int64_t step = 0, ended_at = 0;
  std::string ended = "none", stopped_by = "none";
};
RunOutcome read_outcome(const fs::path& path);

// For `inspect`: tables, columns, rows, provenance; the input with kAll.
std::string describe_results(const fs::path& path,
                             Detail detail = Detail::kAll);

}  // namespace syncopate
