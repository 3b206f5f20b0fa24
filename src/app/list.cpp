// syncopate list WHAT: the choices of keys, and the keys themselves.
#include "app/commands.h"
#include "base/text.h"
#include "comm/collectives.h"
#include "compress/compressor.h"
#include "config/config.h"
#include "data/kinds.h"
#include "optim/schedule.h"
#include "sync/scheme.h"
#include "topology/topology.h"

namespace syncopate {
namespace {

using Rows = std::vector<std::pair<std::string, std::string>>;

Rows model_rows() {
  Rows rows;
  for (const ModelInfo& info : model_table())
    rows.emplace_back(
        info.family,
        info.description + (info.options.empty()
                                ? std::string()
                                : " (keys: " + join(info.options, ", ") + ")"));
  return rows;
}

Rows scheme_rows() {
  Rows rows;
  for (const SchemeInfo& info : scheme_table())
    rows.emplace_back(info.keyword, info.description);
  return rows;
}

Rows data_rows() {
  Rows rows;
  for (const DataKind& kind : data_kind_table())
    rows.emplace_back(kind.name, kind.description);
  return rows;
}

template <typename Table>
std::string text_of(const Table& rows) {
  std::string text;
  for (const auto& [name, description] : rows)
    text += fmt::format("{:<18} {}\n", fmt::format("{}", name), description);
  return text;
}

// Lists the kinds or, with --workers, their matrices or that of --kind.
std::string topologies_text(const CommandLine& line) {
  constexpr int64_t kMostWorkers = 1024;  // W is looked at as a full matrix
  const auto& options = line.options;
  if (!options.contains("workers")) {
    if (!options.empty())
      fail(ExitCode::kUsage, "list: --{} needs --workers=N as well",
           options.begin()->first);
    return text_of(topology_table()) +
           "\nNeighbours, weights and spectral gap: syncopate list topologies "
           "--workers=N\n[--kind=KIND [--group=G --between=KIND]]\n";
  }
  const auto workers =
      static_cast<int>(line.whole_number("workers", 1, kMostWorkers, 1));
  TopologyOptions topology;
  if (options.contains("kind")) topology.kind = options.at("kind");
  for (const std::string name : {"group", "between"})
    if (options.contains(name) && topology.kind != "hierarchical")
      fail(ExitCode::kUsage, "list: --{} is for --kind=hierarchical", name);
  if (options.contains("group"))
    topology.group = line.whole_number("group", 1, kMostWorkers, 1);
  if (options.contains("between")) topology.between = options.at("between");
  return options.contains("kind") ? list_topology(topology, workers)
                                  : list_topologies(workers);
}

std::string keys_text(const CommandLine& line) {
  const auto& words = line.positional;
  return list_keys(words.size() > 1 ? words[1] : "");
}

struct Listing {
  const char* name;
  const char* description;
  std::string (*text)(const CommandLine& line);
};

constexpr Listing kListings[] = {
    {"models", "networks (model.family)",
     [](const CommandLine&) { return text_of(model_rows()); }},
    {"data", "kinds of data (data.kind)",
     [](const CommandLine&) { return text_of(data_rows()); }},
    {"schemes", "how workers synchronize (sync.scheme)",
     [](const CommandLine&) { return text_of(scheme_rows()); }},
    {"compressors", "how messages are compressed (compress.kind)",
     [](const CommandLine&) { return text_of(compressor_table()); }},
    {"topologies", "graphs of neighbours (topology.kind)", &topologies_text},
    {"optimizers", "optimizers (optimizer.kind)",
     [](const CommandLine&) { return text_of(optimizer_table()); }},
    {"schedules", "schedules of the learning rate (schedule.kind)",
     [](const CommandLine&) { return text_of(schedule_table()); }},
    {"collectives", "algorithms of collectives (sync.collective)",
     [](const CommandLine&) { return text_of(collective_table()); }},
    {"keys",
     "every key of an input; list keys WORD: the key SECTION.NAME, the keys of "
     "a section, or those that a scheme or network uses",
     &keys_text}};

// What can be listed.
std::string listings_text() {
  Rows rows;
  for (const Listing& listing : kListings)
    rows.emplace_back(listing.name, listing.description);
  return text_of(rows);
}

std::string list_text(const CommandLine& line) {
  if (line.positional.empty()) return listings_text();
  const std::string& what = line.positional[0];
  if (what != "keys") line.only_argument("what to list");
  if (line.positional.size() > 2)
    fail(ExitCode::kUsage, "list keys: one word expected, also given: {}",
         line.positional[2]);
  for (const Listing& listing : kListings)
    if (listing.name == what) return listing.text(line);
  fail(ExitCode::kUsage, "list {}: one of {}", what, list_words());
}

}  // namespace

std::string list_words() {
  std::vector<std::string> names;
  for (const Listing& listing : kListings) names.emplace_back(listing.name);
  return join(names, " ");
}

ExitCode command_list(Session& session, const CommandLine& line) {
  session.agree_on([&] {
    const bool is_of_workers =
        !line.positional.empty() && line.positional[0] == "topologies";
    line.allow_only(is_of_workers ? std::vector<std::string>{"workers", "kind",
                                                             "group", "between"}
                                  : std::vector<std::string>{},
                    CommandLine::Keys::kRefused);
    const std::string text = list_text(line);
    if (session.rank() == 0) std::fputs(text.c_str(), stdout);
  });
  return ExitCode::kDone;
}

}  // namespace syncopate
