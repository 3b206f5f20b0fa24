#include "run/session.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "base/clock.h"
#include "base/text.h"
#include "config/options.h"
#include "device/device.h"
#include "watch/guardian.h"
#include "watch/watchdog.h"

namespace syncopate {
namespace {

int environment_int(const char* name, int otherwise) {
  const char* text = std::getenv(name);
  return text ? static_cast<int>(parse_int(text).value_or(otherwise))
              : otherwise;
}

// srun started several tasks but MPI sees one: usually the launcher and the
// MPI library use different PMI versions.
void refuse_singletons(int world_size) {
  const int tasks = environment_int("SLURM_STEP_NUM_TASKS", 1);
  if (tasks <= 1 || world_size > 1) return;
  fail(ExitCode::kUsage,
       "Slurm started {} tasks, but each sees an MPI world of 1: start with "
       "srun --mpi=pmi2 (srun --mpi=list names what there is), or with mpiexec",
       tasks);
}

}  // namespace

Session::Session(int argc, char** argv)
    : started_s_(monotonic_s()),
      argv_(argv, argv + argc),
      mpi_(launched_by_mpi() ? make_mpi_session(&argc, &argv) : nullptr),
      log_(!mpi_ || mpi_->rank() == 0, [] { activity().progress(); }) {
  // Makes writes beyond a file-size limit or to a closed pipe return an error.
  signal(SIGXFSZ, SIG_IGN);
  signal(SIGPIPE, SIG_IGN);
}

std::string Session::mpi_version() const {
  return mpi_ ? mpi_->library_version() : "not started";
}

std::vector<std::string> Session::hosts() const {
  if (mpi_) return mpi_->hosts();
  char name[256] = "localhost";
  gethostname(name, sizeof name - 1);
  return {name};
}

int Session::threads(int64_t asked) const {
  if (asked > 0) return static_cast<int>(asked);
  if (const char* given = std::getenv("OMP_NUM_THREADS"); given != nullptr)
    // It may have a number for each level of nesting: "4,2".
    if (const auto outer = parse_int(trim(split(given, ',').front()));
        outer && *outer >= 1 && *outer <= kMostThreads)
      return static_cast<int>(*outer);
  return cores_of_rank();
}

int Session::cores_of_rank() const {
  const int sharing = mpi_ ? mpi_->local_size() : 1;
  // If the launcher bound this rank to a subset of the cores, it does not share
  // them.
  const int mine = cpu_features().cores;
  const auto all = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  return std::max(1, mine < all ? mine : mine / sharing);
}

int Session::workers(int64_t asked) const {
  refuse_singletons(size());
  if (size() == 1) return static_cast<int>(std::max<int64_t>(1, asked));
  if (asked != 0 && asked != size())
    fail(ExitCode::kBadInput,
         "run.workers: {}, but MPI started {} ranks: leave it at auto, or "
         "start as many ranks",
         asked, size());
  return size();
}

std::unique_ptr<World> Session::make_world(int workers,
                                           const NetworkCost& cost) {
  if (size() > 1) return mpi_->make_world();
  return make_inproc_world(workers, cost);
}

void Session::agree_on(const std::function<void()>& setup) {
  Outcome outcome;
  try {
    setup();
  } catch (const Error& error) {
    outcome = {error.code(), error.what()};
  } catch (const std::filesystem::filesystem_error& error) {
    outcome = outcome_of(error);
  }
  if (size() > 1)
    mpi_->make_world()->run([&](Endpoint& endpoint) {
      outcome = agree_on_outcome(endpoint, outcome);
    });
  if (!outcome.ok()) throw AgreedError(outcome);
}

std::string Session::share(const std::string& text_of_root) {
  if (size() == 1) return text_of_root;
  std::string text;
  mpi_->make_world()->run(
      [&](Endpoint& endpoint) { text = share_text(endpoint, text_of_root); });
  return text;
}

void Session::watch(const RunOptions& options, const std::string& report) {
  Watchdog* const watchdog = mpi_ ? mpi_->watchdog() : nullptr;
  if (watchdog == nullptr) return;
  if (!report.empty()) watchdog->report_to(report);
  watchdog->set_limits({.gives_verdicts = options.watchdog,
                        .judges_hangs = !report.empty(),
                        .step_timeout_s = options.step_timeout_s,
                        .io_timeout_s = options.io_timeout_s});
  activity().progress();  // data may have been read for longer than the limits
  tell_guardian(options.watchdog);
}

bool Session::hears_neighbours(double limit_s) const {
  const Watchdog* const watchdog = mpi_ ? mpi_->watchdog() : nullptr;
  if (watchdog == nullptr) return true;
  const double until_s = monotonic_s() + limit_s;
  while (!watchdog->hears_neighbours() && monotonic_s() < until_s)
    ::usleep(10000);
  return watchdog->hears_neighbours();
}

void Session::leave(ExitCode code) {
  std::fflush(stdout);
  std::fflush(stderr);
  if (mpi_) mpi_->finish(static_cast<int>(code));
  // Skips exit handlers: HDF5's may crash after a failed write.
  _exit(static_cast<int>(code));
}

void Session::fail_alone(const Error& error) {
  const auto code = static_cast<int>(error.code());
  Watchdog* const watchdog = mpi_ ? mpi_->watchdog() : nullptr;
  if (watchdog != nullptr) {
    // A rank that only lost a peer does not know the cause. The watchdogs
    // determine it and end this process.
    constexpr double kVerdictS = 10;
    if (error.code() == ExitCode::kPeerLost) watchdog->await_verdict(kVerdictS);
    // Another rank reports its error and ends this process.
    if (!watchdog->may_leave(code)) watchdog->await_verdict(kVerdictS);
  }
  const std::string who =
      size() > 1 ? fmt::format("[rank {}] ", rank()) : std::string();
  std::fprintf(stderr, "error: %s%s\n", who.c_str(), error.what());
  std::fflush(stdout);
  std::fflush(stderr);
  if (watchdog != nullptr) watchdog->left(code);
  leave(error.code());
}

}  // namespace syncopate
