#include "train/step_durations.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "base/file.h"
#include "base/rng.h"
#include "base/text.h"

namespace syncopate {
namespace {

// A gamma variate of shape k >= 1 and scale 1 by rejection: Marsaglia & Tsang,
// "A Simple Method for Generating Gamma Variables", 2000.
double gamma_of_large_shape(Rng& rng, double k) {
  const double d = k - 1.0 / 3;
  const double c = 1 / std::sqrt(9 * d);
  for (;;) {
    const double x = rng.normal();
    const double v = std::pow(1 + c * x, 3);
    if (v <= 0) continue;
    const double u = 1 - rng.uniform();
    if (std::log(u) < 0.5 * x * x + d * (1 - v + std::log(v))) return d * v;
  }
}

double gamma(Rng& rng, double k) {
  if (k >= 1) return gamma_of_large_shape(rng, k);
  const double u = 1 - rng.uniform();
  return gamma_of_large_shape(rng, k + 1) * std::pow(u, 1 / k);
}

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

// Whether no cell is a number, not even one that is out of range.
bool is_header(const std::vector<std::string>& cells) {
  return std::ranges::none_of(cells, [](const std::string& cell) {
    const std::string text(trim(cell));
    char* end = nullptr;
    std::strtod(text.c_str(), &end);
    return !text.empty() && *end == '\0';
  });
}

}  // namespace

RecordedDurations::RecordedDurations(const std::string& path,
                                     int workers,
                                     int64_t steps) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored))
    fail(ExitCode::kBadInput,
         "compute.trace: {} is a folder, expected a CSV file", path);
  std::ifstream file(path);
  if (!file)
    fail(ExitCode::kInputMissing, "compute.trace: cannot read {}", path);
  std::string line;
  bool is_first = true;
  for (int64_t number = 1; std::getline(file, line); ++number) {
    if (number == 1 && line.starts_with(kByteOrderMark))
      line.erase(0, kByteOrderMark.size());
    if (trim(line).empty() || line[0] == '#') continue;
    const std::vector<std::string> cells = split(line, ',');
    if (std::exchange(is_first, false) && is_header(cells)) continue;
    std::vector<double> row;
    for (const std::string& cell : cells)
      if (const auto value = parse_double(trim(cell))) row.push_back(*value);
    if (columns_ == 0) columns_ = static_cast<int>(cells.size());
    if (row.size() < cells.size() || std::ssize(row) != columns_ ||
        (columns_ != 1 && columns_ != workers))
      fail(ExitCode::kBadInput,
           "{}: line {}: expected one number or {}, one for each worker", path,
           number, workers);
    for (const double seconds : row) {
      if (seconds <= 0)
        fail(ExitCode::kBadInput, "{}: line {}: expected seconds > 0, found {}",
             path, number, seconds);
      if (seconds > kLongestStep_s)
        fail(ExitCode::kBadInput,
             "{}: line {}: expected at most {} seconds, found {}", path, number,
             kLongestStep_s, seconds);
      seconds_.push_back(seconds);
    }
  }
  const int64_t rows = columns_ > 0 ? std::ssize(seconds_) / columns_ : 0;
  if (rows < steps)
    fail(ExitCode::kBadInput,
         "compute.trace: {} has {} rows, expected one for each of the run's {} "
         "steps",
         path, rows, steps);
}

double RecordedDurations::seconds(int rank, int64_t step) const {
  const int64_t rows = std::ssize(seconds_) / columns_;
  return seconds_[step % rows * columns_ + (columns_ == 1 ? 0 : rank)];
}

StepDurations::StepDurations(const Options& options,
                             int rank,
                             const RecordedDurations* trace)
    : options_(options.compute),
      seed_(static_cast<uint64_t>(options.run.seed)),
      rank_(rank),
      speed_(of_worker(options.compute.speed, rank, 1)),
      trace_(trace) {
  options_.speed = {};
  CHECK(options_.law != StepLaw::kTrace || trace_ != nullptr);
}

double StepDurations::seconds(int64_t step) const {
  if (options_.law == StepLaw::kTrace)
    return trace_->seconds(rank_, step) / speed_;
  return options_.step_s * relative(step) / speed_;
}

double StepDurations::relative(int64_t step) const {
  if (options_.law == StepLaw::kConstant) return 1;
  Rng rng(seed_, Purpose::kStepTime, static_cast<uint64_t>(rank_),
          static_cast<uint64_t>(step));
  const double variance = options_.spread * options_.spread;
  if (options_.law == StepLaw::kGamma)
    return gamma(rng, 1 / variance) * variance;
  const double sigma_squared = std::log1p(variance);
  return std::exp(std::sqrt(sigma_squared) * rng.normal() - sigma_squared / 2);
}

}  // namespace syncopate
