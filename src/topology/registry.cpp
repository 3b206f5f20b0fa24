#include "topology/topology.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "base/text.h"
#include "topology/kinds.h"

namespace syncopate {
namespace {

constexpr std::array kKinds = {&kComplete, &kRing,   &kTorus,      &kExpander,
                               &kMargulis, &kSocial, &kExponential};
constexpr const char* kHierarchical = "hierarchical";

// Returns the kind that `keyword` names; `key` is for the error message.
const TopologyKind& find_kind(const std::string& key,
                              const std::string& keyword) {
  std::vector<std::string> names;
  for (const TopologyKind* kind : kKinds) {
    if (kind->keyword == keyword) return *kind;
    names.push_back(kind->keyword);
  }
  if (key == "topology.kind") names.push_back(kHierarchical);
  const auto meant = nearest(keyword, names);
  fail(ExitCode::kBadInput, "{}: {}: not one of {}{}", key, keyword,
       join(names, ", "), meant ? " (did you mean " + *meant + "?)" : "");
}

// Returns "; 9 or 12 would do": the nearest suitable numbers below and above,
// times `group`.
std::string near_numbers(int workers, int group, bool (*suits)(int)) {
  std::vector<std::string> near;
  const auto add = [&](int64_t groups) {
    const int64_t number = groups * group;
    const bool is_one = number <= std::numeric_limits<int>::max() &&
                        suits(static_cast<int>(groups));
    if (is_one) near.push_back(std::to_string(number));
    return is_one;
  };
  for (int64_t n = (workers - 1) / group; n >= 1; --n)
    if (add(n)) break;
  const int64_t next = workers / group + int64_t{1};
  // 32 is social's; every other kind has a number between n and 2n.
  for (int64_t n = next; n <= 2 * next + 32; ++n)
    if (add(n)) break;
  return near.empty() ? "" : "; " + join(near, " or ") + " would do";
}

std::string workers_text(int workers) {
  return workers == 1 ? "1 worker" : std::to_string(workers) + " workers";
}

Topology make_plain(const TopologyKind& kind, int workers) {
  if (!kind.suits(workers))
    fail(ExitCode::kBadInput, "topology {}: not for {}: it needs {}{}",
         kind.keyword, workers_text(workers), kind.needs,
         near_numbers(workers, 1, kind.suits));
  return Topology(kind.keyword, workers, [workers, &kind](int rank) {
    return kind.row(workers, rank);
  });
}

Topology make_hierarchical(const TopologyOptions& options, int workers) {
  if (options.between == kHierarchical)
    fail(ExitCode::kBadInput,
         "topology.between: hierarchical inside hierarchical is not "
         "available; any other topology is");
  const TopologyKind& between = find_kind("topology.between", options.between);
  if (options.group < 1 || options.group > std::numeric_limits<int>::max())
    fail(ExitCode::kBadInput,
         "topology.group: {}: not a number of workers of at least 1",
         options.group);
  const int group = static_cast<int>(options.group);
  const bool is_whole = workers % group == 0;
  if (!is_whole || !between.suits(workers / group))
    fail(ExitCode::kBadInput,
         "topology hierarchical: not for {} in groups of {}: {}{}",
         workers_text(workers), group,
         is_whole ? fmt::format("{} between {} of them needs {}",
                                between.keyword, workers / group, between.needs)
                  : "it needs whole groups",
         near_numbers(workers, group, between.suits));
  return Topology(
      kHierarchical, workers,
      [group, groups = make_plain(between, workers / group)](int rank) {
        return hierarchical_row(groups, group, rank);
      });
}

// Returns "1/3" if exact, else the shortest digits that round-trip.
std::string weight_text(double weight) {
  if (weight == 0) return "0";
  const double parts = std::round(1 / weight);
  return std::abs(weight * parts - 1) < 1e-14 ? fmt::format("1/{:.0f}", parts)
                                              : fmt::format("{}", weight);
}

}  // namespace

const std::vector<std::pair<std::string, std::string>>& topology_table() {
  static const auto table = [] {
    std::vector<std::pair<std::string, std::string>> rows;
    for (const TopologyKind* kind : kKinds)
      rows.emplace_back(
          kind->keyword,
          fmt::format("{} (workers: {})", kind->description, kind->needs));
    rows.emplace_back(
        kHierarchical,
        "groups that average exactly, and a topology between them (workers: "
        "a valid count for that, times the group size)");
    return rows;
  }();
  return table;
}

Topology make_topology(const TopologyOptions& options, int workers) {
  CHECK(workers >= 1);
  return options.kind == kHierarchical
             ? make_hierarchical(options, workers)
             : make_plain(find_kind("topology.kind", options.kind), workers);
}

std::string list_topology(const TopologyOptions& options, int workers) {
  const Topology topology = make_topology(options, workers);
  std::string text =
      fmt::format("{}{}: {} workers, spectral gap {:.4f}\n", options.kind,
                  options.kind == kHierarchical
                      ? fmt::format(" (groups of {}, {} between)",
                                    options.group, options.between)
                      : "",
                  workers, topology.spectral_gap());
  text += "  worker  itself  neighbours:weights\n";
  for (int rank = 0; rank < workers; ++rank) {
    const MixingRow row = topology.row(rank);
    text += fmt::format("  {:>6}  {:<6}", rank, weight_text(row.self));
    for (const auto& [other, weight] : row.neighbours)
      text += fmt::format("  {}:{}", other, weight_text(weight));
    text += '\n';
  }
  return text;
}

std::string list_topologies(int workers) {
  std::string text;
  for (const auto& [keyword, description] : topology_table()) {
    try {
      text += list_topology({.kind = keyword}, workers);
    } catch (const Error& error) {
      if (error.code() != ExitCode::kBadInput) throw;
      text += fmt::format("{}\n", error.what());
    }
    text += '\n';
  }
  text.pop_back();
  return text;
}

}  // namespace syncopate
