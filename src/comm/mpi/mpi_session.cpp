// SPDX-License-Identifier: Apache-2.0
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <set>
#include <string_view>
#include <thread>

#include "base/check.h"
#include "base/clock.h"
#include "base/text.h"
#include "base/thread.h"
#include "comm/mpi/gpu_support.h"
#include "comm/mpi/mpi_check.h"
#include "comm/mpi/mpi_endpoint.h"
#include "comm/tags.h"
#include "comm/world.h"
#include "watch/guardian.h"
#include "watch/operations.h"
#include "watch/watchdog.h"

namespace syncopate {

std::string mpi_error_text(int code) {
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  MPI_Error_string(code, text, &length);
  return std::string(text, static_cast<size_t>(length));
}

void check_mpi(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  const std::string name(call, std::strcspn(call, "("));
  fail(ExitCode::kPeerLost, "{}: {}", name, mpi_error_text(code));
}

namespace {

// Limits for shutdown: a peer may never arrive, or the library may hang in
// MPI_Finalize.
constexpr double kBarrierLimitS = 10;
constexpr double kWatchedBarrierLimitS = 600;  // rank 0 may still write
constexpr double kEagerS = 0.02;
constexpr std::chrono::milliseconds kNap{1};
constexpr std::chrono::milliseconds kFinalizeLimit{5000}, kAbortLimit{5000};
// Shorter under hydra, which can be told that a rank ends normally.
constexpr std::chrono::milliseconds kHydraFinalizeLimit{2000};
// Before MPICH 4.2 (pull request 6596), MPI_Finalize flushes every connection
// and then waits for all ranks. UCX over TCP has the peer confirm a flush, but
// a rank that already waits confirms nothing, so a rank that flushes late
// hangs. After this pause all ranks have left the barrier and begin at about
// the same time, which makes that rare.
constexpr std::chrono::milliseconds kAllLeftBarrier{50};
// Rank 0 leaves after the others: a launcher that sees its exit first kills the
// others with a signal and reports that.
constexpr std::chrono::milliseconds kLastDelay{50};

void flush_output() {
  std::fflush(nullptr);
}

// Returns the connection to hydra's PMI server, or -1 if another launcher
// started this process. (Slurm keeps a process's exit code without being told.)
int connection_to_hydra() {
  const char* descriptor = std::getenv("PMI_FD");
  if (std::getenv("HYDI_CONTROL_FD") == nullptr || descriptor == nullptr)
    return -1;
  return std::atoi(descriptor);
}

// hydra treats a process that exits before the end of MPI_Finalize as failed
// and turns its code into 0 or 9. Its PMI server accepts the job's exit code
// with "abort" and then ends the other ranks.
void tell_hydra(int code) {
  end_in_silence();
  const int hydra = connection_to_hydra();
  if (hydra < 0) return;
  dprintf(hydra, "cmd=abort exitcode=%d\n", code);
  std::this_thread::sleep_for(std::chrono::seconds(1));  // it ends this process
                                                         // too
}

// Stops a thread for good, wherever it is.
void halt(pthread_t thread) {
  const int number = SIGRTMIN + 5;
  struct sigaction action {};
  action.sa_handler = [](int) {
    for (;;) ::pause();
  };
  sigaction(number, &action, nullptr);
  pthread_kill(thread, number);
}

// Sends hydra what MPI_Finalize sends last, so that the exit code counts
// although `finalizer` hangs in MPI_Finalize.
void take_leave_of_hydra(pthread_t finalizer) {
  constexpr int kAnswerMs = 500;
  end_in_silence();
  const int hydra = connection_to_hydra();
  if (hydra < 0) return;
  halt(finalizer);  // it may wait for hydra's answer to something else
  // Without stdio, whose locks the halted thread may hold.
  constexpr std::string_view kLeave = "cmd=finalize\n";
  [[maybe_unused]] const ssize_t written =
      ::write(hydra, kLeave.data(), kLeave.size());
  pollfd answer{hydra, POLLIN, 0};
  ::poll(&answer, 1, kAnswerMs);
}

// Returns the number in an environment variable, or `otherwise` if it is not
// set. Error(kUsage) unless it is a whole number of at least 1.
int64_t count_in_environment(const char* name, int64_t otherwise) {
  const char* const text = std::getenv(name);
  if (text == nullptr) return otherwise;
  const int64_t count = parse_int(text).value_or(0);
  if (count < 1)
    fail(ExitCode::kUsage, "{}={}: expected a whole number of at least 1", name,
         text);
  return count;
}

// MPI_Init waits for ranks that may have died before reaching it.
constexpr int64_t kInitLimitS = 120;

class InitGuard {
 public:
  InitGuard() {
    const int64_t limit_s =
        count_in_environment("SYNCOPATE_START_TIMEOUT_S", kInitLimitS);
    start_without_signals([limit_s, is_over = is_over_] {
      for (const double end_s = monotonic_s() + static_cast<double>(limit_s);
           monotonic_s() < end_s;) {
        if (*is_over) return;
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
      }
      if (*is_over) return;
      std::fprintf(stderr,
                   "error: MPI has not started within %lld s: another rank "
                   "died before it, or cannot be reached "
                   "(SYNCOPATE_START_TIMEOUT_S)\n",
                   static_cast<long long>(limit_s));
      _exit(static_cast<int>(ExitCode::kPeerLost));
    }).detach();
  }
  ~InitGuard() { *is_over_ = true; }

 private:
  std::shared_ptr<std::atomic<bool>> is_over_ =
      std::make_shared<std::atomic<bool>>(false);
};

// Exits with `code`, after `tell` has told the launcher, if the process still
// exists after the limit.
void leave_after(std::chrono::milliseconds limit,
                 int code,
                 std::function<void()> tell) {
  std::thread([=] {
    std::this_thread::sleep_for(limit);
    tell();
    _exit(code);
  }).detach();
}

class MpiWorld : public World {
 public:
  MpiWorld(mpi::Communicators& communicators, int num_hosts)
      : communicators_(communicators), num_hosts_(num_hosts) {}

  int size() const override { return communicators_.size; }
  bool is_inproc() const override { return false; }
  std::string description() const override {
    return counted(size(), "MPI rank") + " on " + counted(num_hosts_, "host");
  }

  void run(const std::function<void(Endpoint&)>& body) override {
    TrafficCounters traffic;
    mpi::Progress progress(communicators_);
    std::exception_ptr error;
    try {
      mpi::MpiEndpoint endpoint(progress, communicators_, traffic, nullptr);
      body(endpoint);
    } catch (...) {
      error = std::current_exception();
    }
    using Stop = mpi::Progress::Stop;
    progress.stop(error != nullptr ? Stop::kAbandon : Stop::kDrain);
    if (error == nullptr) error = progress.unjoined_error();
    if (error != nullptr) std::rethrow_exception(error);
  }

 private:
  mpi::Communicators& communicators_;
  int num_hosts_;
};

class ProcessSession : public MpiSession {
 public:
  ProcessSession(int* argc, char*** argv) {
    const InitGuard guard;
    int provided = MPI_THREAD_SINGLE;
    CHECK_MPI(MPI_Init_thread(argc, argv, MPI_THREAD_MULTIPLE, &provided));
    CHECK_MPI(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    CHECK_MPI(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    if (provided < MPI_THREAD_MULTIPLE)
      fail(ExitCode::kUsage,
           "this MPI library offers thread level {} only, and "
           "MPI_THREAD_MULTIPLE is needed",
           provided);
    mpi::Communicators& all = communicators_;
    CHECK_MPI(MPI_Comm_rank(MPI_COMM_WORLD, &all.rank));
    CHECK_MPI(MPI_Comm_size(MPI_COMM_WORLD, &all.size));
    CHECK_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &all.messages));
    CHECK_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &all.internal));
    CHECK_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &all.native[Ranks::all(all.size)]));

    MPI_Comm node = MPI_COMM_NULL;
    CHECK_MPI(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0,
                                  MPI_INFO_NULL, &node));
    CHECK_MPI(MPI_Comm_rank(node, &local_rank_));
    CHECK_MPI(MPI_Comm_size(node, &local_size_));
    CHECK_MPI(MPI_Comm_free(&node));
    gather_hosts();
    all.device_memory = mpi::cuda_support();
  }

  ~ProcessSession() override { abort(static_cast<int>(ExitCode::kInternal)); }

  int rank() const override { return communicators_.rank; }
  int size() const override { return communicators_.size; }
  int local_rank() const override { return local_rank_; }
  int local_size() const override { return local_size_; }
  std::vector<std::string> hosts() const override { return hosts_; }

  std::string library_version() const override {
    char text[MPI_MAX_LIBRARY_VERSION_STRING] = {};
    int length = 0;
    MPI_Get_library_version(text, &length);
    // The first line suffices; MPICH separates word and number by a tab.
    std::string line(text, std::strcspn(text, "\n"));
    for (char& c : line) {
      if (c == '\t') c = ' ';
    }
    return line;
  }

  void start_watchdog() override {
    if (size() == 1) return;
    // A rank without a doorbell says why, so that the error is the same on all.
    struct Introduction {
      RankCard card;
      int32_t code = 0;
      std::array<char, 256> error = {};
    };
    Introduction own;
    int listener = -1;
    try {
      const Doorbell bell = make_doorbell(local_size_ == size());
      own.card = bell.card;
      listener = bell.listener;
      check_interface(own.card);
    } catch (const Error& error) {
      own.code = static_cast<int32_t>(error.code());
      std::strncpy(own.error.data(), error.what(), own.error.size() - 1);
    }
    std::vector<Introduction> all(static_cast<size_t>(size()));
    CHECK_MPI(MPI_Allgather(&own, sizeof own, MPI_BYTE, all.data(), sizeof own,
                            MPI_BYTE, communicators_.internal));
    std::vector<RankCard> cards;
    for (const Introduction& one : all) {
      if (one.code != 0)
        fail(static_cast<ExitCode>(one.code), "rank {}: {}", cards.size(),
             one.error.data());
      cards.push_back(one.card);
    }
    operations().name_tags(&tags::name_of);
    tell_before_exit(&tell_hydra);
    // Never deleted: it watches until the process ends.
    watchdog_ = new Watchdog(rank(), std::move(cards), listener);
    tell_guardian(true);
  }

  Watchdog* watchdog() override { return watchdog_; }

  std::unique_ptr<World> make_world() override {
    const std::set<std::string> distinct(hosts_.begin(), hosts_.end());
    return std::make_unique<MpiWorld>(communicators_,
                                      static_cast<int>(distinct.size()));
  }

  [[noreturn]] void finish(int exit_code) override {
    const int own_code = rank() == 0 ? exit_code : 0;
    flush_output();
    activity().wait_begins();
    meet_at_end();
    const auto limit =
        connection_to_hydra() >= 0 ? kHydraFinalizeLimit : kFinalizeLimit;
    leave_after(rank() == 0 ? limit + kLastDelay : limit, own_code,
                [watchdog = watchdog_, finalizer = pthread_self()] {
                  if (watchdog != nullptr) watchdog->say_goodbye();
                  take_leave_of_hydra(finalizer);
                });
    // Ranks of one host use TCP only if they are told to.
    if (local_size_ < size() || std::getenv("UCX_TLS") != nullptr)
      std::this_thread::sleep_for(kAllLeftBarrier);
    MPI_Finalize();
    if (watchdog_ != nullptr) watchdog_->say_goodbye();
    if (own_code != 0) std::this_thread::sleep_for(kLastDelay);
    _exit(own_code);
  }

  [[noreturn]] void abort(int exit_code) override {
    flush_output();
    leave_after(kAbortLimit, exit_code, [=] { tell_hydra(exit_code); });
    MPI_Abort(MPI_COMM_WORLD, exit_code);
    _exit(exit_code);
  }

 private:
  void gather_hosts() {
    char name[MPI_MAX_PROCESSOR_NAME] = {};
    int length = 0;
    CHECK_MPI(MPI_Get_processor_name(name, &length));
    const auto count = static_cast<size_t>(size());
    std::vector<char> names(count * sizeof name);
    CHECK_MPI(MPI_Allgather(name, sizeof name, MPI_CHAR, names.data(),
                            sizeof name, MPI_CHAR, communicators_.internal));
    for (size_t i = 0; i < count; ++i)
      hosts_.emplace_back(names.data() + i * sizeof name);
    const int64_t part = part_of_host();
    std::vector<int64_t> parts(count);
    CHECK_MPI(MPI_Allgather(&part, 1, MPI_INT64_T, parts.data(), 1, MPI_INT64_T,
                            communicators_.internal));
    std::map<std::pair<std::string, int64_t>, int> first;  // rank of a part
    for (size_t i = 0; i < count; ++i)
      communicators_.hosts.push_back(
          first.try_emplace({hosts_[i], parts[i]}, static_cast<int>(i))
              .first->second);
  }

  // Hosts may be divided, such as by their sockets.
  int64_t part_of_host() const {
    return local_rank_ /
           count_in_environment("SYNCOPATE_RANKS_PER_HOST", local_size_);
  }

  // Of this rank, whose environment may differ from the others'.
  static void check_interface(const RankCard& card) {
    const char* const name = std::getenv("SYNCOPATE_INTERFACE");
    if (card.addresses[0] == 0)
      fail(ExitCode::kUsage,
           "SYNCOPATE_INTERFACE={}: no network interface of {} with an IPv4 "
           "address",
           name != nullptr ? name : "", card.host.data());
  }

  // A barrier that gives up only when no watchdog judges missing ranks.
  // Shutdown must terminate, if late when the others are known to be alive.
  void meet_at_end() const {
    MPI_Request request = MPI_REQUEST_NULL;
    if (MPI_Ibarrier(communicators_.internal, &request) != MPI_SUCCESS) return;
    int done = 0;
    const double start = monotonic_s();
    const bool has_judge = watchdog_ != nullptr && watchdog_->judges_hangs();
    const double limit_s =
        watchdog_ != nullptr ? kWatchedBarrierLimitS : kBarrierLimitS;
    while (!done && (has_judge || monotonic_s() - start < limit_s)) {
      if (MPI_Test(&request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS) break;
      // Rank 0 may still write for a long time, on these cores.
      if (monotonic_s() - start < kEagerS)
        sched_yield();
      else
        std::this_thread::sleep_for(kNap);
    }
  }

  mpi::Communicators communicators_;
  int local_rank_ = 0, local_size_ = 1;
  std::vector<std::string> hosts_;
  Watchdog* watchdog_ = nullptr;  // once started, with two ranks or more
};

}  // namespace

std::unique_ptr<MpiSession> make_mpi_session(int* argc, char*** argv) {
  return std::make_unique<ProcessSession>(argc, argv);
}

}  // namespace syncopate
