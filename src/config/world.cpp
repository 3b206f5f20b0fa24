#include "config/world.h"

#include <cmath>

#include "config/episodes.h"

namespace syncopate {

bool is_virtual_cost(const std::string& key) {
  return key.starts_with("compute.") || key.starts_with("network.");
}

bool is_of_link(const std::string& episode) {
  Episode parsed;
  return parse_episode(episode, parsed).empty() &&
         parsed.kind == Episode::Kind::kLink;
}

namespace {

struct WorldCheck {
  ParsedInput& input;
  int ranks;
  const Options& options = input.options;

  void complain(const std::string& name, const std::string& what) const {
    input.errors.push_back(input.place_of(name) + ": " + name + ": " + what);
  }

  void by_worker(const char* name, size_t numbers) const {
    if (numbers <= 1 || static_cast<int>(numbers) == ranks ||
        (ranks > 1 && is_virtual_cost(name)))
      return;
    complain(name,
             ranks == 1
                 ? fmt::format("has {} numbers for 1 worker (run.workers = "
                               "auto), expected one, or run.workers = {}",
                               numbers, numbers)
                 : fmt::format("has {} numbers for {} MPI ranks, expected one, "
                               "or one for each",
                               numbers, ranks));
  }

  void expect_rank(const char* name, double rank) const {
    if (rank < ranks) return;
    complain(name,
             ranks == 1
                 ? fmt::format("{} is not a rank of 1 worker (run.workers "
                               "= auto), expected 0, or run.workers",
                               rank)
                 : fmt::format("{} is not a rank: {} MPI ranks are "
                               "numbered 0 to {}",
                               rank, ranks, ranks - 1));
  }

  // If run.workers states their number, these were judged with the rest.
  void unstated_workers() const {
    by_worker("stragglers.factor", options.stragglers.factor.size());
    by_worker("data.batch_by_worker", options.data.batch_by_worker.size());
    by_worker("compute.speed", options.compute.speed.size());
    by_worker("network.latency_us", options.network.latency_us.size());
    by_worker("network.mbit_s", options.network.mbit_s.size());
    if (const std::string mistake =
            episodes_mistake(options.stragglers.episodes, ranks);
        !mistake.empty())
      complain("stragglers.episodes", mistake);
    for (const double rank : options.stragglers.delay_workers)
      expect_rank("stragglers.delay_workers", rank);
    if (options.faults.kind != FaultKind::kNone)
      expect_rank("faults.rank", static_cast<double>(options.faults.rank));
    if (ranks == 1 && options.network.group > 1)
      complain("network.group",
               fmt::format("is {} and does not divide 1 worker (run.workers = "
                           "auto), expected run.workers",
                           options.network.group));
  }

  void mpi_ranks() const {
    if (options.run.virtual_limit_s > 0)
      complain("run.virtual_limit_s",
               fmt::format("limits virtual time, which {} MPI ranks do not "
                           "have: end at a result (run.target) or with a limit "
                           "of wall time (run.time_limit_s, or the Slurm "
                           "job's)",
                           ranks));
    if (options.run.workers != 0 && options.run.workers != ranks)
      complain("run.workers",
               fmt::format("is {}, but there are {} MPI ranks, one per worker; "
                           "expected auto or {}",
                           options.run.workers, ranks, ranks));
    for (const std::string& text : options.stragglers.episodes)
      if (is_of_link(text))
        complain("stragglers.episodes",
                 fmt::format("{}: only the virtual links of workers in one "
                             "process can be slowed down, not those of {} MPI "
                             "ranks",
                             text, ranks));
    // A file may also describe a cluster for runs in one process; train logs
    // that these keys are not used.
    for (const auto& [name, place] : input.given)
      if (is_virtual_cost(name) && place == kCommandLinePlace)
        complain(name, fmt::format("is used by workers in one process, not by "
                                   "{} MPI ranks",
                                   ranks));
    std::erase_if(input.resolved, [](const auto& entry) {
      return is_virtual_cost(entry.first);
    });
    input.options.network = {};
  }
};

}  // namespace

void check_world(ParsedInput& input, int ranks) {
  const WorldCheck check{input, ranks};
  if (input.options.run.workers == 0) check.unstated_workers();
  if (ranks > 1) check.mpi_ranks();
}

}  // namespace syncopate
