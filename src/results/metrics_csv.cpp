#include "results/metrics_csv.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "base/text.h"

namespace syncopate {
namespace {

// In front of every row; /eval has them as well.
const std::vector<std::string> kPosition = {"step", "worker_steps", "epoch",
                                            "time_s", "virtual_s"};
const std::vector<std::string> kOfComm = {"exposed_share", "bytes_sent",
                                          "messages_sent", "control_bytes"};

// Appends the shortest text that reads back as the same number; nothing for
// NaN.
void add_cell(std::string& line, double value) {
  line += ',';
  if (!std::isnan(value)) line += fmt::format("{}", value);
}

// Columns that are one number a row and not in front of it.
std::vector<std::string> own_columns(const Table& table) {
  std::vector<std::string> names;
  for (const Column& column : table.columns())
    if (column.width == 0 &&
        std::ranges::find(kPosition, column.name) == kPosition.end())
      names.push_back(column.name);
  return names;
}

double value_of(const Table& table, const std::string& name, int64_t row) {
  return table.column(name).values[static_cast<size_t>(row)];
}

// The sum of a row over the workers that have a value.
double sum_of(const Table& table, const std::string& name, int64_t row) {
  const Column& column = table.column(name);
  double sum = 0;
  for (int64_t worker = 0; worker < column.width; ++worker) {
    const double value =
        column.values[static_cast<size_t>(row * column.width + worker)];
    if (!std::isnan(value)) sum += value;
  }
  return sum;
}

}  // namespace

MetricsCsv::MetricsCsv(const fs::path& path, Results& results)
    : train_(results.table("train")),
      comm_(results.table("comm")),
      eval_(results.table("eval")),
      train_names_(own_columns(train_)),
      eval_names_(own_columns(eval_)) {
  write_file_atomically(path, header() + new_rows());
  file_ = std::make_unique<OutputFile>(path, OutputFile::Begin::kAtEnd);
}

void MetricsCsv::update() {
  file_->write(new_rows());
}

std::string MetricsCsv::header() const {
  std::vector<std::string> names = {"row"};
  names.insert(names.end(), kPosition.begin(), kPosition.end());
  names.insert(names.end(), train_names_.begin(), train_names_.end());
  names.insert(names.end(), kOfComm.begin(), kOfComm.end());
  for (const std::string& name : eval_names_)
    names.push_back(fmt::format("eval_{}", name));
  return join(names, ",") + '\n';
}

// In the order of worker_steps; a row of /train comes before the evaluation at
// its end.
std::string MetricsCsv::new_rows() {
  const auto when = [](const Table& table, int64_t row) {
    return row < table.rows() ? value_of(table, "worker_steps", row)
                              : std::numeric_limits<double>::infinity();
  };
  std::string text;
  while (train_rows_ < train_.rows() || eval_rows_ < eval_.rows())
    text += when(train_, train_rows_) <= when(eval_, eval_rows_)
                ? train_row(train_rows_++)
                : eval_row(eval_rows_++);
  return text;
}

std::string MetricsCsv::train_row(int64_t row) const {
  std::string text = "train";
  const auto add = [&](double value) { add_cell(text, value); };
  for (const auto* names : {&kPosition, &train_names_})
    for (const std::string& name : *names) add(value_of(train_, name, row));
  const double exposed_s = sum_of(comm_, "exposed_s", row);
  add(exposed_s / (sum_of(comm_, "compute_s", row) + exposed_s));
  for (size_t i = 1; i < kOfComm.size(); ++i)
    add(sum_of(comm_, kOfComm[i], row));
  text.append(eval_names_.size(), ',');
  return text + '\n';
}

std::string MetricsCsv::eval_row(int64_t row) const {
  std::string text = "eval";
  for (const std::string& name : kPosition)
    add_cell(text, value_of(eval_, name, row));
  text.append(train_names_.size() + kOfComm.size(), ',');
  for (const std::string& name : eval_names_)
    add_cell(text, value_of(eval_, name, row));
  return text + '\n';
}

}  // namespace syncopate
