// The grammar of stragglers.episodes: workers or links that are slow for a
// while, once, repeatedly or at random.
//
//   WORKERS:KIND:AMOUNT[:from=T][:for=T | :until=T]
//                      [:every=T[:count=N][:at=random]]
//
//   WORKERS  7, 6+7, 0-3, all; any2: two, redrawn for every repetition
//   KIND     compute   a step's computing
//            link      every message of the scheme that the worker sends
//            pause     nothing: the worker begins its step later
//   AMOUNT   +30ms, +0.5s   compute: added to the step; link: to the latency;
//                           pause: its length
//            x4             compute: times as long; link: the bandwidth
//                           divided by it
//   T        94s, 500ms     virtual seconds of the worker's own clock (under
//                           MPI wall seconds since this start)
//            200steps       the worker's own steps
//
// An episode starts at `from` (0), lasts for `for` or until `until` (without
// either, forever) and comes again every `every`, `count` times in all (without
// it, forever). at=random moves each repetition to a random moment at which it
// ends within its period. Random choices depend on run.seed, the episode's
// place in the list and the repetition only. Overlapping episodes add up:
// amounts with + are added, amounts with x multiplied.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/choice.h"

namespace syncopate {

CHOICE(EpisodeKind, "compute link pause", {kCompute, kLink, kPause});

struct Episode {
  using Kind = EpisodeKind;
  bool is_of_all = false;
  int64_t any = 0;           // workers drawn for each repetition; 0: `workers`
  std::vector<int> workers;  // ranks
  Kind kind = Kind::kCompute;
  double added_s = 0, times = 1;
  bool is_in_steps = false;  // the unit of what follows, else seconds
  double from = 0;
  double length = 0;  // 0: forever
  double every = 0;   // 0: once
  int64_t count = 0;  // repetitions; 0: without end
  bool is_at_random = false;
};

// Parses `text` into `episode`, or returns what is wrong with it.
std::string parse_episode(const std::string& text, Episode& episode);
// Returns the first mistake among `texts`, including ranks that are not below
// `workers` (0: not known yet), or "".
std::string episodes_mistake(const std::vector<std::string>& texts,
                             int64_t workers);

// The combined effect of all episodes of a run, as a pure function of time. For
// one thread.
class Episodes {
 public:
  // `texts` must have no mistakes.
  Episodes(const std::vector<std::string>& texts, int workers, uint64_t seed);

  struct Effect {
    double added_s = 0, times = 1;
  };
  // The effect on this worker at `now_s` of its clock, in its step `step`.
  Effect at(Episode::Kind kind, int rank, double now_s, int64_t step) const;
  bool has(Episode::Kind kind) const;

 private:
  bool is_under_way(size_t index, int rank, double now) const;
  bool concerns(size_t index, int64_t repetition, int rank) const;

  // The workers that were drawn for a repetition, ascending.
  const std::vector<int>& drawn(size_t index, int64_t repetition) const;

  std::vector<Episode> episodes_;
  int workers_;
  uint64_t seed_;
  // What was last drawn, by episode and repetition: every worker asks.
  mutable std::map<std::pair<size_t, int64_t>, std::vector<int>> drawn_;
};

}  // namespace syncopate
