#include "sync/bucket.h"

#include <algorithm>

namespace syncopate {
namespace {

// Successive tensors that are all tables, or all not tables.
struct Run {
  int64_t begin, end;
  bool is_table;
};

std::vector<Run> runs_of(const ParameterTable& parameters, Tables tables) {
  std::vector<Run> runs;
  for (const ParameterEntry& entry : parameters.entries()) {
    const bool is_table =
        tables == Tables::kWhole && entry.role == Role::kEmbedding;
    if (runs.empty() || runs.back().is_table != is_table)
      runs.push_back({entry.offset, entry.offset, is_table});
    runs.back().end = entry.offset + entry.elems();
  }
  return runs;
}

}  // namespace

int64_t bucket_elems(const SyncOptions& options,
                     int64_t range_elems,
                     const DeviceCollectives* collectives) {
  const auto elems = [](double mb) {
    return static_cast<int64_t>(mb * 1e6 / sizeof(float));
  };
  // Not tuned; keeps messages from being so small that their number matters.
  constexpr double kSmallest_mb = 0.064, kLargest_mb = 4;
  constexpr double kBetweenDevices_mb = 32;
  if (options.bucket_mb != 0) return elems(options.bucket_mb);
  if (collectives != nullptr) return elems(kBetweenDevices_mb);
  return std::clamp((range_elems + 7) / 8, elems(kSmallest_mb),
                    elems(kLargest_mb));
}

Tables tables_of(const SyncOptions& options) {
  const bool has_rows =
      options.tables == TableTraffic::kRows &&
      any_scheme(options, [](const auto& info) { return info.sends_rows; });
  return has_rows ? Tables::kWhole : Tables::kCut;
}

bool sends_rows(const SyncOptions& options, const ParameterTable& parameters) {
  return tables_of(options) == Tables::kWhole &&
         std::ranges::any_of(parameters.entries(), [](const auto& entry) {
           return entry.role == Role::kEmbedding;
         });
}

Bucketer::Bucketer(const ParameterTable& parameters,
                   int64_t bucket_elems,
                   Tables tables) {
  const int64_t range_elems = parameters.num_elems();
  CHECK(range_elems > 0 && bucket_elems > 0);
  const std::vector<Run> runs = runs_of(parameters, tables);
  // Every run may end in a partial bucket.
  const int64_t full_buckets = kMaxBuckets - std::ssize(runs);
  CHECK_MSG(full_buckets > 0, "{} runs of tensors", runs.size());
  bucket_elems =
      std::max(bucket_elems, (range_elems + full_buckets - 1) / full_buckets);
  for (auto run = runs.rbegin(); run != runs.rend(); ++run)
    for (int64_t end = run->end; end > run->begin;) {
      const int64_t begin =
          run->is_table ? run->begin : std::max(run->begin, end - bucket_elems);
      buckets_.push_back({.index = static_cast<int>(buckets_.size()),
                          .offset = begin,
                          .elems = end - begin,
                          .is_last = begin == 0,
                          .is_table = run->is_table,
                          .stretch_offset = run->begin,
                          .stretch_elems = run->end - run->begin});
      end = begin;
    }
}

}  // namespace syncopate
