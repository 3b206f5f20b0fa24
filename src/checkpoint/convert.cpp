#include "checkpoint/convert.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace syncopate {
namespace {

constexpr std::string_view kUnknownToVersion1 = "since_start/best";
constexpr std::string_view kYoungerThanVersion2[] = {
    "links/taken_until_s",
    "links/num_taken_later",
    "ema_updates",
    "esync/is_open",
    "order.keeps_leads",
    "sync_switch/to_single_at",
    "sync_switch/plateau_last_loss",
    "sync_switch/plateau_last_metric"};

// CHOCO stored s = sum_j w_ij xhat_j in addition to xhat, but uses only their
// difference.
void join_choco(NamedState& state) {
  constexpr std::string_view kSum = "s/", kCopy = "xhat/";
  for (auto entry = state.lower_bound(std::string(kSum));
       entry != state.end() && entry->first.starts_with(kSum);) {
    const std::string tensor = entry->first.substr(kSum.size());
    auto* sum = std::get_if<std::vector<float>>(&entry->second);
    const auto copy = state.find(std::string(kCopy) + tensor);
    const auto* xhat = copy == state.end()
                           ? nullptr
                           : std::get_if<std::vector<float>>(&copy->second);
    if (sum == nullptr || xhat == nullptr || sum->size() != xhat->size())
      fail(ExitCode::kBadInput, "state 's/{}' has no 'xhat/{}' like it", tensor,
           tensor);
    std::vector<float> c(sum->size());
    for (size_t i = 0; i < c.size(); ++i) c[i] = (*sum)[i] - (*xhat)[i];
    state["c/" + tensor] = std::move(c);
    entry = state.erase(entry);
  }
}

// The straggler detector stored the last steps of each worker (a ring of
// (workers, window) seconds) and counted assessments at every step; now it
// stores the result of the last whole window and counts windows. Known
// stragglers stay known; counts restart.
void end_windows(NamedState& state) {
  const auto ring = state.find("stragglers/step_s");
  const auto seen = state.find("stragglers/observed");
  if (ring == state.end() || seen == state.end()) return;
  const auto* step_s = std::get_if<std::vector<double>>(&ring->second);
  const auto* observed = std::get_if<std::vector<int64_t>>(&seen->second);
  if (step_s == nullptr || observed == nullptr || observed->empty() ||
      step_s->size() % observed->size() != 0)
    fail(ExitCode::kBadInput,
         "state 'stragglers/step_s' is not of the workers of "
         "'stragglers/observed'");
  const size_t workers = observed->size();
  const size_t window = step_s->size() / workers;
  std::vector<double> throughput(workers, 0.0);
  for (size_t worker = 0; worker < workers; ++worker) {
    if ((*observed)[worker] < static_cast<int64_t>(window)) continue;
    double seconds = 0;
    for (size_t i = 0; i < window; ++i)
      seconds += (*step_s)[worker * window + i];
    throughput[worker] = static_cast<double>(window) / seconds;
  }
  state.erase(ring);
  state.erase(seen);
  state["stragglers/throughput"] = std::move(throughput);
  state["stragglers/window_s"] = std::vector<double>(workers, 0.0);
  for (const char* counts :
       {"stragglers/window_steps", "stragglers/slow", "stragglers/fast"})
    state[counts] = std::vector<int64_t>(workers, 0);
}

}  // namespace

void convert_from_version_1(NamedState& state) {
  join_choco(state);
  end_windows(state);
}

// Subtracts multiples of the unit in which choco adds, so that sums stay exact.
void remove_mean(std::vector<float>& c,
                 const std::vector<double>& sums,
                 int workers) {
  constexpr double kUnit = 0x1p-25;
  for (size_t i = 0; i < c.size(); ++i)
    c[i] = static_cast<float>(
        kUnit * std::nearbyint((c[i] - sums.at(i) / workers) / kUnit));
}

bool is_unknown_to_version_1(std::string_view name) {
  return name == kUnknownToVersion1;
}

bool is_younger_than_version_2(std::string_view name) {
  return std::ranges::find(kYoungerThanVersion2, name) !=
         std::end(kYoungerThanVersion2);
}

}  // namespace syncopate
