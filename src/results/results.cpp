#include "results/results.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/hdf5_file.h"
#include "base/hdf5_foreign.h"
#include "base/text.h"

namespace syncopate {
namespace {

constexpr const char* kFormat = "syncopate results";
constexpr int64_t kFormatVersion = 1;
constexpr double kCommitEvery_s = 10;    // maximum staleness for readers
constexpr double kCommitShare = 0.01;    // of the run's time
constexpr double kMaxExact = 1LL << 53;  // integers that a double holds exactly

void write_column(Hdf5Writer& file,
                  const std::string& group,
                  const Column& column,
                  int64_t rows,
                  const std::string& axis) {
  const std::string name = group + "/" + column.name;
  std::vector<int64_t> dims = {rows};
  if (column.width > 0) dims.push_back(column.width);
  if (column.is_integer) {
    std::vector<int64_t> integers;
    for (double value : column.values) {
      CHECK_MSG(std::abs(value) <= kMaxExact, "{} = {}", name, value);
      integers.push_back(static_cast<int64_t>(value));
    }
    file.write(name, dims, std::span<const int64_t>(integers));
  } else {
    file.write(name, dims, std::span<const double>(column.values));
  }
  file.attribute(name, "units", column.unit);
  file.attribute(name, "description", column.description);
  file.attribute(name, "depends_on_clock", int64_t{column.is_time});
  file.label(name, 0, axis);
  if (column.width > 0) file.label(name, 1, column.across);
}

// Makes the table's first column, a step or a rank, the scale of all others.
void write_scales(Hdf5Writer& file,
                  const std::string& group,
                  const std::vector<Column>& columns) {
  for (const Column& column : columns)
    if (column.name != columns.front().name)
      file.scale(group + "/" + column.name, 0,
                 fmt::format("{}/{}", group, columns.front().name));
}

void read_column(const Hdf5Reader& file,
                 const std::string& name,
                 const std::string& path,
                 int64_t rows,
                 Column& column) {
  if (!file.has(name)) {  // newer than the file
    column.values.assign(
        static_cast<size_t>(rows * std::max<int64_t>(column.width, 1)),
        column.is_integer ? 0 : std::numeric_limits<double>::quiet_NaN());
    return;
  }
  Hdf5Dataset expected{
      name,
      column.is_integer ? ElementType::kInt64 : ElementType::kFloat64,
      {rows}};
  if (column.width > 0) expected.dims.push_back(column.width);
  const Hdf5Dataset found = file.dataset(name);
  if (describe(found) != describe(expected))
    fail(ExitCode::kBadInput, "{}: {}: {} found, {} expected", path, name,
         describe(found), describe(expected));
  column.values.resize(static_cast<size_t>(expected.elems()));
  if (column.is_integer) {
    std::vector<int64_t> integers(column.values.size());
    file.read(name, std::span<int64_t>(integers));
    column.values.assign(integers.begin(), integers.end());
  } else {
    file.read(name, std::span<double>(column.values));
  }
}

// Verifies a file of ours before HDF5 sees it.
void require_whole(const fs::path& path) {
  check_seal(path);
  const Hdf5Reader file(path);
  const std::optional<int64_t> version =
      file.int_attribute("/", "format_version");
  if (file.text_attribute("/", "format") != kFormat || !version)
    fail(ExitCode::kBadInput, "{}: not a results file", path.string());
  if (*version != kFormatVersion)
    fail(ExitCode::kBadInput, "{}: format version {}; this program reads {}",
         path.string(), *version, kFormatVersion);
}

// For a run that continues.
void require_usable(const fs::path& path) {
  try {
    require_whole(path);
  } catch (const Error& error) {
    fail(error.code(), "{} (move it away to continue without its rows)",
         error.what());
  }
}

}  // namespace

Results::Results(fs::path path)
    : path_(std::move(path)),
      created_s_(monotonic_s()),
      last_commit_s_(created_s_) {}

Table& Results::table(const std::string& group) {
  return tables_[group];
}

void Results::provenance(const std::string& name, const std::string& value) {
  CHECK(!provenance_int_.contains(name));
  provenance_text_[name] = value;
}

void Results::provenance(const std::string& name, int64_t value) {
  CHECK(!provenance_text_.contains(name));
  provenance_int_[name] = value;
}

void Results::first_provenance(const std::string& name,
                               const std::string& value) {
  provenance(name, value);
  first_provenance_.insert(name);
}

std::optional<int64_t> Results::provenance_integer(
    const std::string& name) const {
  const auto found = provenance_int_.find(name);
  if (found == provenance_int_.end()) return std::nullopt;
  return found->second;
}

void Results::summary(const std::string& name,
                      double value,
                      const std::string& unit,
                      const std::string& description) {
  summary_[name] = {value, unit, description};
}

void Results::ended(const std::string& how,
                    const std::string& stopped_by,
                    int64_t step) {
  summary_text_["step"] = std::to_string(step);
  summary_text_["ended"] = how;
  summary_text_["stopped_by"] = stopped_by;
}

void Results::resume(int64_t worker_steps) {
  require_usable(path_);
  const Hdf5Reader file(path_);
  for (auto& [group, table] : tables_) {
    if (!file.has(group)) continue;
    CHECK_MSG(table.rows() == 0, "{} has rows already", group);
    const Hdf5Dataset key = file.dataset(group + "/worker_steps");
    const int64_t rows = key.dims.empty() ? 0 : key.dims[0];
    for (Column& column : table.columns_) {
      const std::string name = group + "/" + column.name;
      read_column(file, name, path_.string(), rows, column);
    }
    table.keep_up_to("worker_steps", static_cast<double>(worker_steps));
  }
  read_provenance(file);
}

int64_t Results::workers_in_file() const {
  require_usable(path_);
  const Hdf5Reader file(path_);
  const std::optional<int64_t> workers =
      file.int_attribute("provenance", "workers");
  if (!workers)
    fail(ExitCode::kBadInput, "{}: provenance/workers is missing",
         path_.string());
  return *workers;
}

void Results::take_provenance() {
  require_whole(path_);
  read_provenance(Hdf5Reader(path_));
}

void Results::read_provenance(const Hdf5Reader& file) {
  if (!file.has("provenance")) return;
  for (const std::string& name : file.attribute_names("provenance")) {
    const bool is_set =
        provenance_int_.contains(name) || provenance_text_.contains(name);
    if (is_set && !first_provenance_.contains(name)) continue;
    if (const auto value = file.int_attribute("provenance", name))
      provenance_int_[name] = *value;
    else if (const auto text = file.text_attribute("provenance", name))
      provenance_text_[name] = *text;
  }
}

void Results::write(const fs::path& temporary) const {
  Hdf5Writer file(temporary, Seal::kDigest);
  file.attribute("/", "format", std::string(kFormat));
  file.attribute("/", "format_version", kFormatVersion);
  for (const auto& [group, table] : tables_) {
    file.make_group(group);
    if (!table.description().empty())
      file.attribute(group, "description", table.description());
    for (const Column& column : table.columns())
      write_column(file, group, column, table.rows(),
                   table.columns().front().name);
    write_scales(file, group, table.columns());
  }
  file.make_group("provenance");
  for (const auto& [name, value] : provenance_text_)
    file.attribute("provenance", name, value);
  for (const auto& [name, value] : provenance_int_)
    file.attribute("provenance", name, value);
  file.make_group("summary");
  for (const auto& [name, text] : summary_text_)
    file.attribute("summary", name, text);
  for (const auto& [name, scalar] : summary_) {
    const std::string path = "summary/" + name;
    file.write(path, {}, std::span<const double>(&scalar.value, 1));
    file.attribute(path, "units", scalar.unit);
    file.attribute(path, "description", scalar.description);
  }
  file.close();
}

void Results::commit() {
  const double start_s = monotonic_s();
  replace_file(path_, [this](const fs::path& temporary) { write(temporary); });
  last_commit_s_ = monotonic_s();
  spent_s_ += last_commit_s_ - start_s;
}

void Results::commit_if_due() {
  const double now_s = monotonic_s();
  if (now_s - last_commit_s_ >= kCommitEvery_s &&
      spent_s_ <= kCommitShare * (now_s - created_s_))
    commit();
}

RunOutcome read_outcome(const fs::path& path) {
  require_whole(path);
  const Hdf5Reader file(path);
  RunOutcome outcome;
  if (file.has("train/step")) {
    std::vector<int64_t> steps(
        static_cast<size_t>(file.dataset("train/step").elems()));
    file.read("train/step", std::span<int64_t>(steps));
    if (!steps.empty()) outcome.step = outcome.ended_at = steps.back();
  }
  if (!file.has("summary")) return outcome;
  if (const auto step = file.text_attribute("summary", "step"))
    outcome.ended_at = parse_int(*step).value_or(outcome.step);
  outcome.ended =
      file.text_attribute("summary", "ended").value_or(outcome.ended);
  outcome.stopped_by =
      file.text_attribute("summary", "stopped_by").value_or(outcome.stopped_by);
  return outcome;
}

namespace {

// Returns the last value of a column of real numbers, if it has no width.
std::optional<double> last_value(const Hdf5Reader& file,
                                 const Hdf5Dataset& dataset) {
  if (dataset.type != ElementType::kFloat64 || dataset.dims.size() != 1 ||
      dataset.dims[0] == 0)
    return std::nullopt;
  double value = 0;
  file.read_rows(dataset.name, dataset.dims[0] - 1, 1,
                 std::span<double>(&value, 1));
  return value;
}

// What most people look for: what ran, how far, and the last values.
std::string describe_run(const Hdf5Reader& file, const RunOutcome& outcome) {
  const auto fact = [&](const char* name) {
    return file.text_attribute("provenance", name).value_or("?");
  };
  const std::string state =
      fact("world") == "simulation"
          ? "simulation"
          : fmt::format("{} at step {}",
                        outcome.ended == "none" ? "not ended" : outcome.ended,
                        outcome.ended_at);
  std::string text = fmt::format(
      "  {}: scheme {}, {}, workers {} ({})\n", state, fact("scheme"),
      fact("model"), file.int_attribute("provenance", "workers").value_or(0),
      fact("data"));
  for (const char* table : {"train", "eval"}) {
    std::string values;
    for (const Hdf5Dataset& dataset : file.datasets()) {
      const size_t slash = dataset.name.find('/');
      if (dataset.name.substr(0, slash) != table) continue;
      if (const auto value = last_value(file, dataset))
        values +=
            fmt::format(", {} {:.5g}", dataset.name.substr(slash + 1), *value);
    }
    if (!values.empty())
      text += fmt::format("  last row of {}: {}\n", table, values.substr(2));
  }
  return text;
}

// Lists the datasets of predictions or prepared samples, which have neither a
// seal nor a format, and of whole files of ours with another format. Returns ""
// for any other file.
std::string describe_other_data(const fs::path& path) {
  try {
    const bool is_whole = is_sealed(path);
    if (is_whole) check_seal(path);
    const ForeignHdf5 file(path);
    const auto format = file.text_attribute("/", "format");
    if (format == kFormat || (format && !is_whole)) return "";
    return fmt::format("data {}: not a results file\n{}", path.string(),
                       file.listing());
  } catch (const Error&) {
    return "";
  }
}

}  // namespace

std::string describe_results(const fs::path& path, Detail detail) {
  try {
    require_whole(path);
  } catch (const Error& error) {
    if (error.code() != ExitCode::kBadInput) throw;
    const std::string other = describe_other_data(path);
    if (!other.empty()) return other;
    return fmt::format("results {}\n  damaged, or not a results file: {}\n",
                       path.string(), error.what());
  }
  const Hdf5Reader file(path);
  std::string text = fmt::format(
      "results {}\n{}  intact: the stored digest matches the contents\n",
      path.string(), describe_run(file, read_outcome(path)));
  for (const Hdf5Dataset& dataset : file.datasets()) {
    text += fmt::format(
        "  {:<32} {:<20} [{}] {}\n", dataset.name, describe(dataset),
        file.text_attribute(dataset.name, "units").value_or("?"),
        file.text_attribute(dataset.name, "description").value_or(""));
    if (!dataset.dims.empty()) continue;
    double value = 0;
    file.read(dataset.name, std::span<double>(&value, 1));
    text += fmt::format("    = {}\n", value);
  }
  for (const std::string& name : file.attribute_names("summary"))
    text += fmt::format("  summary {} = {}\n", name,
                        file.text_attribute("summary", name).value_or("?"));
  text += "provenance\n";
  for (const std::string& name : file.attribute_names("provenance")) {
    if (name == "input" && detail == Detail::kOutline) continue;
    const auto number = file.int_attribute("provenance", name);
    text += fmt::format(
        "  {} = {}\n", name,
        number ? fmt::format("{}", *number)
               : file.text_attribute("provenance", name).value_or("?"));
  }
  return text;
}

}  // namespace syncopate
