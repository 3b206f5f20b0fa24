// Keys that describe a cluster: [compute], [network] and [stragglers].
#include "config/key_sections.h"

namespace syncopate {

// Virtual costs, which determine time in the in-process world.
Keys compute_keys() {
  return not_negative({
      {.name = "compute.law",
       .place = &ComputeOptions::law,
       .doc =
           "How the virtual duration of steps varies, independently for each "
           "worker and step; trace: as recorded in compute.trace."},
      {.name = "compute.step_s",
       .place = &ComputeOptions::step_s,
       .doc = "Mean virtual seconds per step at speed 1; for workers in "
              "one process.",
       .high = kLongestStep_s,
       .is_low_open = true,
       .used_when = {{"compute.law", {"constant", "lognormal", "gamma"}}}},
      {.name = "compute.update_s",
       .place = &ComputeOptions::update_s,
       .doc = "Virtual seconds per step at speed 1 for a worker's computations "
              "after the backward pass: the optimizer, averaging and "
              "compression; for workers in one process. Under asp and ssp, "
              "fewer servers than workers, or servers apart, spend it for each "
              "update, shared among them, instead of the workers.",
       .high = kLongestStep_s},
      {.name = "compute.spread",
       .place = &ComputeOptions::spread,
       .doc = "Standard deviation of a step's duration relative to its mean.",
       .high = 100,
       .is_low_open = true,
       .used_when = {{"compute.law", {"lognormal", "gamma"}}}},
      {.name = "compute.trace",
       .place = &ComputeOptions::trace,
       .doc = "CSV file of virtual seconds with one row per step and "
              "one column per worker, or one column for all; required.",
       .zero_word = "-",
       .used_when = {{"compute.law", {"trace"}}}},
      {.name = "compute.speed",
       .place = &ComputeOptions::speed,
       .doc = "Speed of each worker, or one number for all; for workers "
              "in one process.",
       .low = 1e-6,
       .zero_word = "1",
       .is_by_worker = true},
  });
}

// Virtual time between workers in one process (comm/inproc/network.h).
Keys network_keys() {
  const std::vector<UsedWhen> with_groups = {{"network.group", {}}};
  return not_negative({
      {.name = "network.latency_us",
       .place = &NetworkOptions::latency_us,
       .doc = "Virtual latency of each worker's link in microseconds, "
              "or one number for all; a message has the mean latency of "
              "its two ends.",
       .high = 1e6 * kLongestStep_s,
       .zero_word = "0"},
      {.name = "network.mbit_s",
       .place = &NetworkOptions::mbit_s,
       .doc = "Virtual bandwidth of each worker's link in megabits per second "
              "and direction, or one number for all; 0: no limit.",
       .zero_word = "0"},
      {.name = "network.efficiency",
       .place = &NetworkOptions::efficiency,
       .doc = "Fraction of every bandwidth of [network] that is "
              "available for a message's own bytes; 0.94 for TCP over "
              "Ethernet.",
       .high = 1,
       .is_low_open = true},
      {.name = "network.message_us",
       .place = &NetworkOptions::message_us,
       .doc = "Virtual microseconds for which a message occupies a "
              "worker's link in addition to the time of its bytes.",
       .high = 1e6 * kLongestStep_s},
      {.name = "network.device_mbit_s",
       .place = &NetworkOptions::device_mbit_s,
       .doc = "Virtual bandwidth in megabits per second and direction of "
              "copies between a worker's memory and its link, which messages "
              "need unless sync.transport = nccl; 0: no limit."},
      {.name = "network.group",
       .place = &NetworkOptions::group,
       .doc = "Workers per group, such as a host, with separate links inside "
              "the group; sync.collective = hierarchical treats it as a host; "
              "0: no groups."},
      {.name = "network.group_latency_us",
       .place = &NetworkOptions::group_latency_us,
       .doc = "Virtual latency in microseconds within a group.",
       .high = 1e6 * kLongestStep_s,
       .used_when = with_groups},
      {.name = "network.group_mbit_s",
       .place = &NetworkOptions::group_mbit_s,
       .doc = "Virtual bandwidth of a worker's link within its group in "
              "megabits per second and direction; 0: no limit.",
       .used_when = with_groups},
      {.name = "network.uplink_mbit_s",
       .place = &NetworkOptions::uplink_mbit_s,
       .doc = "Virtual bandwidth from a group to others, shared by its "
              "workers, in megabits per second and direction; 0: no "
              "limit.",
       .used_when = with_groups},
      {.name = "network.servers",
       .place = &NetworkOptions::servers,
       .doc = "Where parameter servers are: those of asp and ssp, of "
              "sync.collective = parameter_server, and the state server of "
              "esync. on_workers: on the first workers, whose links they use; "
              "apart: each on a machine of its own, outside all groups, whose "
              "messages have the latency of the worker's link."},
      {.name = "network.server_mbit_s",
       .place = &NetworkOptions::server_mbit_s,
       .doc = "Virtual bandwidth of the link of each parameter server's "
              "machine in megabits per second and direction; 0: no limit.",
       .used_when = {{"network.servers", {"apart"}}}},
      {.name = "network.ties_seed",
       .place = &NetworkOptions::ties_seed,
       .doc = "Order of workers that act at the same virtual moment. "
              "0: by rank; otherwise the seed of an order that is random at "
              "each moment. Under schemes whose workers wait for each "
              "other, the model must not depend on it."},
  });
}

// Stragglers cost virtual time in one process and sleep under MPI.
Keys straggler_keys() {
  const std::vector<UsedWhen> with_random = {
      {"stragglers.random", {"uniform", "exponential", "pareto"}}};
  const std::vector<UsedWhen> with_delay = {{"stragglers.delay_ms", {}}};
  return not_negative({
      {.name = "stragglers.factor",
       .place = &StragglerOptions::factor,
       .doc = "Factor by which each worker's computation is slowed down, or "
              "one number for all.",
       .low = 1,
       .high = 1e6,
       .zero_word = "1",
       .is_by_worker = true},
      {.name = "stragglers.delay_ms",
       .place = &StragglerOptions::delay_ms,
       .doc = "Milliseconds added to each step of the delayed workers.",
       .high = 1e3 * kLongestStep_s,
       .is_by_worker = true},
      {.name = "stragglers.delay_workers",
       .place = &StragglerOptions::delay_workers,
       .doc = "Ranks of the delayed workers; required.",
       .zero_word = "none",
       .used_when = with_delay,
       .is_by_worker = true},
      {.name = "stragglers.delay_from",
       .place = &StragglerOptions::delay_from,
       .doc = "The worker's own step at which the delay begins.",
       .used_when = with_delay,
       .is_by_worker = true},
      {.name = "stragglers.delay_until",
       .place = &StragglerOptions::delay_until,
       .doc = "The worker's own step at which the delay ends; 0: never.",
       .used_when = with_delay,
       .is_by_worker = true},
      {.name = "stragglers.random",
       .place = &StragglerOptions::random,
       .doc = "Distribution of random delays of all workers' steps; "
              "pareto has exponent 2."},
      {.name = "stragglers.random_ms",
       .place = &StragglerOptions::random_ms,
       .doc = "Mean of the random delays in milliseconds.",
       .high = 1e3 * kLongestStep_s,
       .is_low_open = true,
       .used_when = with_random},
      {.name = "stragglers.random_share",
       .place = &StragglerOptions::random_share,
       .doc = "Fraction of a worker's steps that are delayed at random.",
       .high = 1,
       .is_low_open = true,
       .used_when = with_random},
      {.name = "stragglers.episodes",
       .place = &StragglerOptions::episodes,
       .doc = "Temporarily slow workers and links, such as "
              "6+7:link:+30ms:from=60s:for=94s (Stragglers in "
              "inputs/README.md explains them).",
       .zero_word = "none",
       .is_by_worker = true},
  });
}

}  // namespace syncopate
