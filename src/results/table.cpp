// Tables in memory: columns of equal length.
#include "base/check.h"
#include "results/results.h"

namespace syncopate {
namespace {

int64_t values_a_row(const Column& column) {
  return column.width == 0 ? 1 : column.width;
}

}  // namespace

void Table::declare(Column column) {
  CHECK_MSG(rows() == 0, "column {} declared after a row", column.name);
  CHECK(!column.name.empty() && !column.unit.empty() &&
        !column.description.empty() && column.width >= 0 &&
        column.values.empty());
  for (const Column& other : columns_) CHECK(other.name != column.name);
  row_width_ += values_a_row(column);
  columns_.push_back(std::move(column));
}

void Table::append(const std::vector<double>& row) {
  CHECK_MSG(std::ssize(row) == row_width_, "{} values, {} expected", row.size(),
            row_width_);
  auto next = row.begin();
  for (Column& column : columns_) {
    const auto end = next + values_a_row(column);
    column.values.insert(column.values.end(), next, end);
    next = end;
  }
}

int64_t Table::rows() const {
  if (columns_.empty()) return 0;
  return std::ssize(columns_[0].values) / values_a_row(columns_[0]);
}

const Column& Table::column(const std::string& name) const {
  for (const Column& column : columns_)
    if (column.name == name) return column;
  CHECK_MSG(false, "no column {}", name);
  return columns_.front();
}

void Table::keep_up_to(const std::string& column_name, double limit) {
  const std::vector<double> key = column(column_name).values;
  CHECK(column(column_name).width == 0);
  for (Column& column : columns_) {
    const int64_t width = values_a_row(column);
    std::vector<double> kept;
    for (int64_t row = 0; row < std::ssize(key); ++row)
      if (key[row] <= limit)
        kept.insert(kept.end(), column.values.begin() + row * width,
                    column.values.begin() + (row + 1) * width);
    column.values = std::move(kept);
  }
}

}  // namespace syncopate
