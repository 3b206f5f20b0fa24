#include "checkpoint/resized.h"

#include <algorithm>
#include <initializer_list>
#include <numeric>

#include "base/check.h"
#include "base/error.h"
#include "checkpoint/manifest.h"
#include "checkpoint/state_file.h"

namespace syncopate {
namespace {

using Heads = std::initializer_list<std::string_view>;

bool begins_with_any(const std::string& name, Heads heads) {
  return std::ranges::any_of(heads, [&](std::string_view head) {
    return name.starts_with(head) &&
           (name.size() == head.size() || name[head.size()] == '/');
  });
}

bool is_of_model(const std::string& name) {
  return begins_with_any(
      name, {"parameters", "buffers", "momentum", "m", "v", "adam_steps"});
}
// State of which the mean over the workers is kept: what feeds back that which
// was not sent, the moving average of the model, and what the workers of esync
// have come to in an open round.
bool is_averaged(const std::string& name) {
  return begins_with_any(
      name, {"residual", "error", "ema", "esync/local", "esync/local_buffers"});
}
// State that belongs to all workers together and suits any number of them.
bool is_common(const std::string& name) {
  return begins_with_any(
      name, {"centre", "round_start", "outer_velocity", "power_sgd_q",
             "steps_in_round", "esync/is_open", "esync/round"});
}

}  // namespace

int64_t resized_position(const std::vector<int64_t>& before,
                         int64_t batches_per_epoch_before,
                         int64_t workers,
                         int64_t batches_per_epoch,
                         int64_t batches_per_step) {
  CHECK(!before.empty() && workers > 0 && batches_per_step > 0);
  const int64_t all = std::accumulate(before.begin(), before.end(), int64_t{0});
  const int64_t mean = all / std::ssize(before);
  const int64_t epoch = mean / batches_per_epoch_before;
  // How much of this epoch's order all workers together have consumed.
  const int64_t taken =
      all - epoch * batches_per_epoch_before * std::ssize(before);
  const int64_t position =
      epoch * batches_per_epoch + std::min(taken / workers, batches_per_epoch);
  return position - position % batches_per_step;
}

struct ResizedState::Files {
  std::unique_ptr<StateFile> shared;
  std::vector<std::unique_ptr<StateFile>> own;  // of workers that stored some

  // Adds up the workers' values into `sums` and returns how many had them.
  int sum(const std::string& name, std::vector<double>& sums) const {
    int count = 0;
    for (const auto& file : own) {
      if (!file->has_values(name)) continue;
      const std::vector<float> values = file->read<float>(name);
      if (sums.empty()) sums.resize(values.size(), 0.0);
      if (values.size() != sums.size())
        fail(ExitCode::kBadInput, "{}: the workers' sizes differ", name);
      for (size_t i = 0; i < sums.size(); ++i) sums[i] += values[i];
      ++count;
    }
    return count;
  }
};

ResizedState::ResizedState(const FoundCheckpoint& found, int rank, int workers)
    : files_(std::make_unique<Files>()),
      rank_(rank),
      steps_(found.facts.worker_steps / workers),
      worker_steps_(steps_ * workers) {
  for (const CheckpointFile& file : found.files) {
    auto state = StateFile::open(found, file.name);
    if (file.name == kReplicaFileName)
      files_->shared = std::move(state);
    else
      files_->own.push_back(std::move(state));
  }
}

ResizedState::~ResizedState() = default;

std::vector<int64_t> ResizedState::of_workers(const std::string& name) {
  std::vector<int64_t> all;
  for (const auto& file : files_->own)
    if (file->has_values(name)) all.push_back(file->read<int64_t>(name).at(0));
  return all;
}

template <typename Number>
void ResizedState::add_of_all(const std::string& name, std::span<Number> v) {
  for (const auto& own : files_->own) {
    const std::vector<Number> theirs = own->template read<Number>(name);
    for (size_t i = 0; i < std::min(theirs.size(), v.size()); ++i)
      v[i] += theirs[i];
  }
}

void ResizedState::load(const std::string& name, std::span<float> v) {
  if (is_of_model(name) ? !has_model_ : is_averaged(name) || is_common(name))
    read_tensor(name, v);
}

void ResizedState::load(const std::string& name, std::span<int64_t> v) {
  if (name == "adam_steps" && !has_model_) {
    std::vector<int64_t> all = of_workers(name);
    if (files_->shared->has_values(name))
      all = files_->shared->read<int64_t>(name);
    if (!all.empty())
      v[0] =
          std::accumulate(all.begin(), all.end(), int64_t{0}) / std::ssize(all);
  } else if (name == "steps" || name == "pushes") {
    v[0] = steps_;
  } else if (name == "ema_updates") {
    for (const int64_t updates : of_workers(name))
      v[0] = std::max(v[0], updates);
  } else if (name == "updates") {
    v[0] = worker_steps_;
  } else if (name == "since_start/skipped_steps" && rank_ == 0) {
    for (const int64_t steps : of_workers(name)) v[0] += steps;
  } else if (name.starts_with("since_row/") && rank_ == 0) {
    add_of_all(name, v);
  } else if (is_common(name) && files_->shared->has_values(name)) {
    files_->shared->take(name, {std::ssize(v)}, v);
  }
}

void ResizedState::load(const std::string& name, std::span<double> v) {
  const auto of_file = [&](size_t index, const char* other) {
    return files_->own.at(index)->read<double>(other);
  };
  if (name == "rate") {
    v[0] = of_file(0, "rate").at(0);
  } else if (name == "virtual_s") {
    for (size_t i = 0; i < files_->own.size(); ++i)
      v[0] = std::max(v[0], of_file(i, "virtual_s").at(0));
  } else if (name == "since_start/totals" && rank_ == 0) {
    const std::vector<double> totals = of_file(0, "since_start/totals");
    std::copy_n(totals.begin(), std::min(totals.size(), v.size()), v.begin());
  } else if (name == "since_row/virtual_seconds") {
    add_of_all(name, v);
    for (double& seconds : v)
      seconds /= static_cast<double>(files_->own.size());
  } else if (name.starts_with("since_row/") && rank_ == 0) {
    add_of_all(name, v);
  } else if (name == "since_start/best" && rank_ == 0 &&
             !files_->own.at(0)->is_younger(name)) {
    const std::vector<double> best = of_file(0, "since_start/best");
    std::copy_n(best.begin(), std::min(best.size(), v.size()), v.begin());
  }
}

void ResizedState::visit_slice(Owner owner,
                               std::string_view name,
                               const ParameterTable& table,
                               int64_t begin,
                               std::span<float> slice) {
  const std::string text(name);
  if (is_of_model(text) && has_model_) return;
  if (begin != 0 || std::ssize(slice) != table.num_elems() ||
      !read_flat(text, slice))
    StateVisitor::visit_slice(owner, name, table, begin, slice);
}

// Reads a range that version 1 stored without its tensors.
bool ResizedState::read_flat(const std::string& name, std::span<float> slice) {
  if (files_->shared->take_flat(name, slice)) return true;
  std::vector<float> all;
  std::vector<double> sums;
  for (const auto& file : files_->own) {
    if (!file->has_values(name)) continue;
    const std::vector<float> values = file->read<float>(name);
    all.insert(all.end(), values.begin(), values.end());
  }
  if (all.empty()) return false;
  if (all.size() == slice.size()) {  // a server's slices, or one worker's
    std::copy(all.begin(), all.end(), slice.begin());
    return true;
  }
  const int count = files_->sum(name, sums);
  if (sums.size() != slice.size())
    fail(ExitCode::kBadInput, "{}: {} values found, {} expected", name,
         all.size(), slice.size());
  for (size_t i = 0; i < sums.size(); ++i)
    slice[i] = static_cast<float>(sums[i] / count);
  return true;
}

// Reads shared values, the mean of values that each worker has whole, or the
// pieces of servers, joined.
void ResizedState::read_tensor(const std::string& name, std::span<float> v) {
  if (files_->shared->has_values(name)) {
    const std::vector<float> values = files_->shared->read<float>(name);
    if (values.size() != v.size())
      fail(ExitCode::kBadInput, "{}: {} values found, {} expected", name,
           values.size(), v.size());
    std::copy(values.begin(), values.end(), v.begin());
    return;
  }
  std::vector<double> sums(v.size(), 0.0);
  std::vector<int> counts(v.size(), 0);
  for (const auto& file : files_->own) {
    if (!file->has_values(name)) continue;
    const std::vector<float> values = file->read<float>(name);
    const int64_t first = file->first_of(name);
    if (first < 0 || first + std::ssize(values) > std::ssize(v))
      fail(ExitCode::kBadInput, "{}: {} values found, {} expected", name,
           values.size(), v.size());
    for (size_t i = 0; i < values.size(); ++i) {
      sums[static_cast<size_t>(first) + i] += values[i];
      ++counts[static_cast<size_t>(first) + i];
    }
  }
  if (std::find(counts.begin(), counts.end(), 0) != counts.end())
    fail(ExitCode::kBadInput, "no state '{}' in the checkpoint, or not all",
         name);
  for (size_t i = 0; i < v.size(); ++i)
    v[i] = static_cast<float>(sums[i] / counts[i]);
}

}  // namespace syncopate
