// Checks of `doctor`: placement of each rank, and interaction between ranks.
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include <cstring>
#include <map>
#include <set>

#include "base/child.h"
#include "base/clock.h"
#include "base/median.h"
#include "base/text.h"
#include "comm/collectives.h"
#include "comm/tags.h"
#include "device/device.h"
#include "machine/doctor.h"
#include "run/run_lock.h"
#include "run/signals.h"
#include "run/slurm.h"
#include "train/device_transport.h"

namespace syncopate {
namespace {

// --- where each rank is ------------------------------------------------------

// Ranks send it as it is.
struct RankPlacement {
  int threads = 1;
  cpu_set_t cores = {};  // that it may run on
  char gpu[256] = "";    // identity; empty: none
};

// "0-3,8"
std::string ranges(const cpu_set_t& cores) {
  std::string text;
  for (int first = 0; first < CPU_SETSIZE; ++first) {
    if (!CPU_ISSET(first, &cores)) continue;
    int last = first;
    while (last + 1 < CPU_SETSIZE && CPU_ISSET(last + 1, &cores)) ++last;
    text += fmt::format("{}{}", text.empty() ? "" : ",", first);
    if (last != first) text += fmt::format("-{}", last);
    first = last;
  }
  return text;
}

void warn_of_crowds(DoctorReport& report,
                    const std::vector<std::string>& host_of,
                    const std::vector<RankPlacement>& placements) {
  struct Host {
    cpu_set_t cores = {};
    int threads = 0, ranks = 0;
  };
  std::map<std::string, Host> hosts;
  std::map<std::pair<std::string, std::string>, int> ranks_of_gpu;
  for (size_t rank = 0; rank < placements.size(); ++rank) {
    const RankPlacement& placement = placements[rank];
    Host& host = hosts[host_of[rank]];
    CPU_OR(&host.cores, &host.cores, &placement.cores);
    host.threads += placement.threads;
    ++host.ranks;
    if (placement.gpu[0]) ++ranks_of_gpu[{host_of[rank], placement.gpu}];
  }
  bool is_crowded = false;
  for (const auto& [name, host] : hosts) {
    if (host.threads <= CPU_COUNT(&host.cores)) continue;
    is_crowded = true;
    report.note("cores",
                "{}: {} ranks with {} threads together on {} cores: fewer "
                "ranks, run.threads, or srun --cpus-per-task (mpiexec -bind-to "
                "none)",
                name, host.ranks, host.threads, CPU_COUNT(&host.cores));
  }
  if (!is_crowded) report.ok("cores", "enough for every rank's threads");
  for (const auto& [gpu, ranks] : ranks_of_gpu)
    if (ranks > 1)
      report.note("gpu",
                  "{}: {} ranks share the one at {}: start as many ranks per "
                  "node as it has GPUs (jobs/multi_gpu.sbatch)",
                  gpu.first, ranks, gpu.second);
}

void report_placements(DoctorReport& report,
                       const Session& session,
                       const Device& device,
                       Endpoint& endpoint) {
  constexpr size_t kMostLines = 32;
  RankPlacement mine{.threads = session.threads(0)};
  sched_getaffinity(0, sizeof mine.cores, &mine.cores);
  if (device.kind() != DeviceKind::kCpu)
    device.identity().copy(mine.gpu, sizeof mine.gpu - 1);
  const auto all =
      gather_bytes(endpoint, endpoint.world_group(), {&mine, sizeof mine}, 0,
                   tags::kControl, Traffic::kControl);
  if (endpoint.rank() != 0) return;
  const std::vector<std::string> hosts = session.hosts();
  std::vector<RankPlacement> placements(all.size());
  for (size_t rank = 0; rank < all.size(); ++rank) {
    RankPlacement& placement = placements[rank];
    std::memcpy(&placement, all[rank].data(), sizeof placement);
    if (rank >= kMostLines) continue;
    report.ok(fmt::format("rank {}", rank), "on {}, cores {}, {}, {}{}",
              hosts[rank], ranges(placement.cores),
              counted(placement.threads, "thread"),
              placement.gpu[0] ? "GPU " : "no GPU", placement.gpu);
  }
  if (all.size() > kMostLines)
    report.ok("ranks", "{} more", all.size() - kMostLines);
  warn_of_crowds(report, hosts, placements);
}

// Says once what other ranks found and rank 0 did not. Only rank 0's log
// prints, and only its exit code counts.
void report_others(DoctorReport& report,
                   const std::vector<std::string>& host_of,
                   Endpoint& endpoint) {
  // Texts, such as a loader's errors, may have lines and tabs.
  constexpr char kEnd = '\x1e', kNext = '\x1f';
  std::string mine;
  for (const DoctorReport::Finding& finding : report.findings())
    mine += fmt::format("{}{}{}{}{}{}", static_cast<int>(finding.code), kNext,
                        finding.what, kNext, finding.text, kEnd);
  const auto all = gather_bytes(endpoint, endpoint.world_group(),
                                {mine.data(), std::ssize(mine)}, 0,
                                tags::kControl, Traffic::kControl);
  if (endpoint.rank() != 0) return;
  std::set<std::string> said;
  for (size_t rank = 0; rank < all.size(); ++rank) {
    const std::string text(reinterpret_cast<const char*>(all[rank].data()),
                           all[rank].size());
    for (const std::string& one : divide(text, kEnd)) {
      if (one.empty() || !said.insert(one).second || rank == 0) continue;
      const std::vector<std::string> parts = divide(one, kNext);
      const auto code = static_cast<ExitCode>(std::stoi(parts[0]));
      const std::string found =
          fmt::format("rank {} on {}: {}", rank, host_of[rank], parts[2]);
      if (code == ExitCode::kDone)
        report.note(parts[1], "{}", found);
      else
        report.bad(code, parts[1], "{}", found);
    }
  }
}

// --- signals -----------------------------------------------------------------

// Slurm signals all tasks of this step, as before the job's end. Without Slurm,
// every rank signals itself, which reveals a handler that a library installed.
void check_signals(DoctorReport& report, Endpoint& endpoint) {
  constexpr double kPatience_s = 5;
  const char* step = std::getenv("SLURM_STEP_ID");
  const bool by_slurm = !slurm_job().empty() && step && endpoint.size() > 1;
  std::string obstacle;
  barrier(endpoint, endpoint.world_group(), tags::kControl);
  if (!by_slurm)
    ::raise(SIGUSR1);
  else if (endpoint.rank() == 0)
    obstacle = run_child({"scancel", "--signal=USR1",
                          fmt::format("{}.{}", slurm_job(), step)},
                         kPatience_s)
                   .obstacle;
  const double until_s = monotonic_s() + kPatience_s;
  while (requested_stop() != StopRequest::kSignal && monotonic_s() < until_s)
    usleep(10000);
  const double mine = requested_stop() == StopRequest::kSignal ? 1 : 0;
  const auto all = all_gather(endpoint, endpoint.world_group(), {&mine, 1},
                              tags::kControl, Traffic::kControl);
  if (endpoint.rank() != 0) return;
  std::vector<std::string> deaf;
  for (size_t rank = 0; rank < all.size(); ++rank)
    if (all[rank][0] == 0) deaf.push_back(std::to_string(rank));
  // scancel belongs to this step too, and the signal may end it.
  if (!obstacle.empty() && deaf.size() == all.size())
    report.note("signals", "not tried: {}", obstacle);
  else if (!deaf.empty())
    report.bad(ExitCode::kInternal, "signals", "SIGUSR1 did not reach rank {}",
               join(deaf, ", "));
  else
    report.ok("signals", "{}",
              by_slurm ? "Slurm's SIGUSR1 reached every rank"
                       : "SIGUSR1 asks for a checkpoint, in every rank");
}

// --- the ring of watchdogs ---------------------------------------------------

// Checks that the watchdogs reach each other; otherwise a run would end after a
// minute.
void check_watchdogs(DoctorReport& report,
                     const Session& session,
                     Endpoint& endpoint) {
  constexpr double kPatience_s = 10;
  const double mine = session.hears_neighbours(kPatience_s) ? 1 : 0;
  const auto all = all_gather(endpoint, endpoint.world_group(), {&mine, 1},
                              tags::kControl, Traffic::kControl);
  if (endpoint.rank() != 0) return;
  const std::vector<std::string> hosts = session.hosts();
  std::vector<std::string> deaf;
  for (size_t rank = 0; rank < all.size(); ++rank)
    if (all[rank][0] == 0)
      deaf.push_back(fmt::format("{} ({})", rank, hosts[rank]));
  if (deaf.empty())
    return report.ok("watchdog", "every rank reaches its neighbours");
  report.bad(ExitCode::kPeerLost, "watchdog",
             "a neighbour of rank {} is unreachable by TCP, which would end a "
             "run after a minute: open ports between the nodes, "
             "SYNCOPATE_INTERFACE=NAME, or run.watchdog = no",
             join(deaf, ", "));
}

// --- locks between hosts -----------------------------------------------------

// Checks with one rank per host that the others cannot acquire a folder that
// rank 0 owns: some file systems lock within a node only.
void check_lock_between_hosts(DoctorReport& report,
                              const std::vector<std::string>& hosts,
                              Endpoint& endpoint) {
  const auto rank = static_cast<size_t>(endpoint.rank());
  bool is_first = true;
  for (size_t i = 0; i < rank; ++i) is_first &= hosts[i] != hosts[rank];
  const RunsFolder runs;
  const auto folder_of = [&](double pid) {
    return runs.path() / fmt::format("syncopate-doctor-{:.0f}", pid);
  };
  double pid = 0;  // of rank 0 if it owns the folder
  std::optional<RunLock> owned;
  std::string why_not;
  if (rank == 0) {
    const auto own_pid = static_cast<double>(::getpid());
    try {
      syncopate::create_directories(folder_of(own_pid));
      owned.emplace(folder_of(own_pid));
      pid = own_pid;
    } catch (const Error& error) {
      why_not = error.what();
      std::error_code ignored;
      fs::remove_all(folder_of(own_pid), ignored);
    }
  }
  agree(endpoint, endpoint.world_group(), {&pid, 1}, Combine::kMax,
        tags::kControl);
  if (pid == 0) {
    if (rank == 0) report.bad(ExitCode::kCannotCreate, "lock", "{}", why_not);
    return;
  }
  const fs::path folder = folder_of(pid);
  constexpr double kKeptOut = 0, kNotShared = 1, kLetIn = 2, kNoFile = 3;
  double mine = kKeptOut;
  if (rank != 0 && is_first) {
    std::error_code ignored;
    try {
      if (!fs::exists(folder / "lock", ignored)) {
        mine = kNotShared;
      } else {
        const RunLock second(folder);
        mine = kLetIn;
      }
    } catch (const FolderInUse&) {
      mine = kKeptOut;
    } catch (const Error&) {
      mine = kNoFile;
    }
  }
  const auto all = all_gather(endpoint, endpoint.world_group(), {&mine, 1},
                              tags::kControl, Traffic::kControl);
  if (rank != 0) return;
  owned.reset();
  std::error_code ignored;
  fs::remove_all(folder, ignored);
  for (size_t i = 0; i < all.size(); ++i) {
    if (all[i][0] == kNotShared)
      return report.note("lock",
                         "{} does not see the folder of runs ({}): use one "
                         "that all hosts share",
                         hosts[i], runs.path().string());
    if (all[i][0] == kNoFile)
      return report.note("lock", "{} cannot write in the folder of runs ({})",
                         hosts[i], runs.path().string());
    if (all[i][0] == kLetIn)
      return report.note("lock",
                         "holds within a host only, not for {}: take care that "
                         "no two jobs use one run directory",
                         hosts[i]);
  }
  report.ok("lock", "holds between all hosts");
}

// --- messages ----------------------------------------------------------------

size_t num_hosts(const std::vector<std::string>& hosts) {  // by rank
  return std::set<std::string>(hosts.begin(), hosts.end()).size();
}

// How gradients would travel between the GPUs of this job's ranks, as
// sync.transport = auto chooses.
void check_transport(DoctorReport& report,
                     const Session& session,
                     const Device& device,
                     Endpoint& endpoint) {
  const std::string obstacle =
      nccl_obstacle(device, session.hosts()[session.rank()], endpoint);
  if (endpoint.rank() != 0) return;
  if (obstacle.empty())
    report.ok("transport", "NCCL");
  else
    report.note("transport", "{}: {} (NCCL needs a separate GPU for each rank)",
                endpoint.takes_device_memory() ? "GPU-aware MPI" : "MPI",
                obstacle);
}

void check_messages(DoctorReport& report,
                    const std::vector<std::string>& hosts,
                    Endpoint& endpoint) {
  const Group group = endpoint.world_group();
  std::vector<double> seconds;
  bool is_right = true;
  for (int i = 0; i < 20; ++i) {
    std::vector<float> values(1 << 18, static_cast<float>(endpoint.rank()));
    barrier(endpoint, group, tags::kControl);
    const double begin = monotonic_s();
    all_reduce_sum(endpoint, group, values, CollectiveAlgorithm::kRing,
                   Wire::kF32, tags::kCollective, Traffic::kPayload);
    seconds.push_back(monotonic_s() - begin);
    const auto expected =
        static_cast<float>(group.size() * (group.size() - 1) / 2);
    for (const float value : values) is_right &= value == expected;
  }
  if (endpoint.rank() != 0) return;
  if (!is_right)
    report.bad(ExitCode::kInternal, "messages",
               "an all-reduce returned a wrong sum");
  else
    report.ok("messages", "{} on {}, 1 MiB all-reduce {:.2f} ms",
              counted(group.size(), "rank"),
              counted(static_cast<int64_t>(num_hosts(hosts)), "host"),
              1e3 * median(seconds));
}

}  // namespace

void check_ranks(DoctorReport& report, Session& session) {
  if (!session.is_mpi())
    report.note("mpi",
                "not under a launcher: one process (mpiexec -n 2 "
                "syncopate doctor tries messages)");
  const int gpus = cuda_device_count();
  const std::unique_ptr<Device> device =
      gpus > 0 ? make_cuda_device(session.local_rank() % gpus)
               : make_cpu_device();
  const std::vector<std::string> hosts = session.hosts();
  const auto world = session.make_world(session.size(), NetworkCost{});
  world->run([&](Endpoint& endpoint) {
    report_others(report, hosts, endpoint);
    report_placements(report, session, *device, endpoint);
    check_signals(report, endpoint);
    if (num_hosts(hosts) > 1) check_lock_between_hosts(report, hosts, endpoint);
    if (!session.is_mpi()) return;
    check_watchdogs(report, session, endpoint);
    check_transport(report, session, *device, endpoint);
    check_messages(report, hosts, endpoint);
  });
}

}  // namespace syncopate
