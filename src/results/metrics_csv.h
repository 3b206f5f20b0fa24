// metrics.csv: what /train, /comm and /eval hold, as text that grows while the
// run goes on, for tail -f and for programs that read tables.
//
// One line per row of /train, with the totals over all workers of the same row
// of /comm, and one per row of /eval, whose values are in columns of their own;
// cells without a value are empty. Kept by rank 0 only.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "results/results.h"

namespace syncopate {

class MetricsCsv {
 public:
  // Replaces the file by the rows that the tables hold: those up to the
  // checkpoint, if the run resumes. Error(kCannotCreate), Error(kIoError).
  MetricsCsv(const fs::path& path, Results& results);

  // Appends the rows that the tables have gained, with one write.
  // Error(kIoError).
  void update();

 private:
  std::string header() const;
  std::string new_rows();
  std::string train_row(int64_t row) const;
  std::string eval_row(int64_t row) const;

  const Table& train_;
  const Table& comm_;
  const Table& eval_;
  // The columns of the file that are columns of /train and of /eval.
  std::vector<std::string> train_names_, eval_names_;
  int64_t train_rows_ = 0, eval_rows_ = 0;  // that the file has
  std::unique_ptr<OutputFile> file_;
};

}  // namespace syncopate
