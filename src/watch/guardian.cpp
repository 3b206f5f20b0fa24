#include "watch/guardian.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "base/error.h"
#include "base/process.h"

namespace syncopate {
namespace {

constexpr int kTickMs = 100;
// After the child dies, the others name it within 8 s and exit soon after. A
// launcher that sees this process end earlier may kill them.
constexpr int kTicksToSpeak = 60;
// For a stopped child: longer than the 6 s in which the others notice it.
constexpr int kTicksStopped = 80;

// Time for hydra to forward a line: it loses what it has not read when it ends.
// (5 of 12 lines arrived without a pause, 12 of 12 with a pause of 20 ms.)
constexpr int kForwardMs = 100;
constexpr int kOthersMs = 500;  // for the watchdog to tell the other ranks

constexpr int kPassedOn[] = {SIGTERM, SIGUSR1, SIGHUP};

int to_guardian = -1;
std::atomic<bool> is_rank_watched = false;
volatile sig_atomic_t child = 0, last_passed_on = 0;

// Repeating a stop request is harmless, so one that may have reached only this
// process is passed on. An interrupt is counted, and reaches the whole process
// group anyway.
void pass_on(int number) {
  const int errno_before = errno;
  last_passed_on = number;
  if (child > 0) kill(static_cast<pid_t>(child), number);
  errno = errno_before;
}

// Ends the way the child did, for whoever waits for this process.
[[noreturn]] void die_of(int number) {
  // One core dump, the child's, is enough.
  const rlimit no_core{0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  signal(number, SIG_DFL);
  sigset_t one;
  sigemptyset(&one);
  sigaddset(&one, number);
  sigprocmask(SIG_UNBLOCK, &one, nullptr);
  raise(number);
  _exit(128 + number);
}

// The words of a command line are contiguous.
void rename_process(char** argv, pid_t pid) {
  prctl(PR_SET_NAME, "guardian");
  if (argv == nullptr || *argv == nullptr) return;
  char** last = argv;
  while (last[1] != nullptr) ++last;
  char* const end = *last + std::strlen(*last);
  const auto size = static_cast<size_t>(end - *argv);
  std::memset(*argv, 0, size);
  std::snprintf(*argv, size, "guardian of %d", pid);
}

// --- the report of a rank whose guardian was killed --------------------------

// Not used by anything else, and delivered whatever the main thread does.
int guardian_died() {
  return SIGRTMIN + 6;
}

// Prepared in advance: a signal handler may do little but write.
char last_line[512], to_launcher[32];
size_t last_line_size = 0, to_launcher_size = 0;
int launcher = -1;

std::atomic<LastWords> last_words_now = LastWords::kUnspoken;

bool claim_last_words(LastWords words) {
  LastWords unspoken = LastWords::kUnspoken;
  return last_words_now.compare_exchange_strong(unspoken, words);
}

void say(int descriptor, const char* text, size_t size) {
  [[maybe_unused]] const ssize_t written = ::write(descriptor, text, size);
}

// The launcher has not heard of the death yet, because the kernel tells
// children first, so hydra can take the code from its PMI server ("abort"). It
// then kills the other ranks one by one, so they are told first: otherwise they
// would report each other's deaths.
void on_guardian_died(int) {
  if (!claim_last_words(LastWords::kReporting))
    _exit(static_cast<int>(ExitCode::kPeerLost));
  say(STDERR_FILENO, last_line, last_line_size);
  ::usleep(1000 * kForwardMs);
  last_words_now = LastWords::kReported;
  for (int ms = 0; is_rank_watched && last_words_now == LastWords::kReported &&
                   ms < kOthersMs;
       ++ms)
    ::usleep(1000);
  if (launcher >= 0) say(launcher, to_launcher, to_launcher_size);
  _exit(static_cast<int>(ExitCode::kPeerLost));
}

const char* rank_by_launcher() {
  for (const char* name : {"PMI_RANK", "PMIX_RANK", "SLURM_PROCID"})
    if (const char* rank = std::getenv(name)) return rank;
  return "?";
}

// Users know a node by Slurm's name for it.
const char* host_name() {
  static char name[128] = "?";
  if (const char* node = std::getenv("SLURMD_NODENAME")) return node;
  ::gethostname(name, sizeof name - 1);
  return name;
}

// What hydra is told, in the rank and in its guardian.
void prepare_abort() {
  const char* descriptor = std::getenv("PMI_FD");
  if (descriptor == nullptr || std::getenv("HYDI_CONTROL_FD") == nullptr)
    return;
  launcher = std::atoi(descriptor);
  to_launcher_size = static_cast<size_t>(
      std::snprintf(to_launcher, sizeof to_launcher, "cmd=abort exitcode=%d\n",
                    static_cast<int>(ExitCode::kPeerLost)));
}

void watch_guardian(pid_t guardian) {
  last_line_size = static_cast<size_t>(
      std::snprintf(last_line, sizeof last_line,
                    "error: rank %s (host %s, pid %d) exits because its "
                    "guardian (pid %d) was killed\n",
                    rank_by_launcher(), host_name(), getpid(), guardian));
  struct sigaction action {};
  action.sa_handler = &on_guardian_died;
  sigfillset(&action.sa_mask);
  sigaction(guardian_died(), &action, nullptr);
  prctl(PR_SET_PDEATHSIG, guardian_died());
  if (getppid() != guardian) raise(guardian_died());
}

// --- the guardian ------------------------------------------------------------

// Once a rank has reported a death, hydra ends this process. If it has not, no
// rank was left. Other launchers keep this process until it ends by itself, so
// it cannot know, and its line might be a second one.
void report_death_to_hydra(pid_t pid, int number) {
  if (launcher < 0) return;
  last_line_size = static_cast<size_t>(std::snprintf(
      last_line, sizeof last_line,
      "error: rank %s (host %s, pid %d) was killed by signal %d "
      "(%s)\n",
      rank_by_launcher(), host_name(), pid, number, strsignal(number)));
  say(STDERR_FILENO, last_line, last_line_size);
  ::usleep(1000 * kForwardMs);
  say(launcher, to_launcher, to_launcher_size);
}

[[noreturn]] void guard(pid_t pid, int from_child, const sigset_t& mask) {
  child = pid;
  struct sigaction action {};
  action.sa_handler = &pass_on;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  for (const int number : kPassedOn) sigaction(number, &action, nullptr);
  signal(SIGINT, SIG_IGN);
  sigprocmask(SIG_SETMASK, &mask, nullptr);
  bool is_watched = false, is_stopped = false;
  int stopped_ticks = 0;
  for (;;) {
    pollfd input{from_child, POLLIN, 0};
    if (::poll(&input, 1, kTickMs) > 0) {
      char words[16];
      const ssize_t count = ::read(from_child, words, sizeof words);
      if (count > 0) is_watched = words[count - 1] == 'w';
      // The pipe closes a moment before the child exits: do not spin.
      if (count == 0) ::usleep(1000);
    }
    int status = 0;
    while (waitpid(pid, &status, WNOHANG | WUNTRACED | WCONTINUED) == pid) {
      if (WIFEXITED(status)) _exit(WEXITSTATUS(status));
      if (WIFSIGNALED(status)) {
        const int number = WTERMSIG(status);
        // The signal was deliberate; its sender needs no report.
        const bool is_asked_for = number == SIGINT || number == last_passed_on;
        if (!is_watched || is_asked_for) die_of(number);
        child = 0;
        // Not if a launcher that has heard of it already ends the others: Slurm
        // kills this process KillWait seconds after SIGTERM.
        for (int i = 0; i < kTicksToSpeak && last_passed_on != SIGTERM; ++i)
          ::usleep(1000 * kTickMs);
        if (last_passed_on != SIGTERM) report_death_to_hydra(pid, number);
        _exit(static_cast<int>(ExitCode::kPeerLost));
      }
      is_stopped = WIFSTOPPED(status);
      stopped_ticks = 0;
    }
    // Ticks, not a clock: none pass while this process is stopped too.
    if (is_stopped && is_watched && ++stopped_ticks > kTicksStopped)
      kill(pid, SIGKILL);
  }
}

}  // namespace

void go_on_under_guardian(char** argv) {
  const char* wish = std::getenv("SYNCOPATE_GUARDIAN");
  if (wish != nullptr && std::string_view(wish) == "0") return;
  if (is_traced()) return;  // a debugger follows the process it started
  int ends[2] = {-1, -1};
  if (::pipe2(ends, O_CLOEXEC) != 0) return;
  const pid_t guardian = getpid();
  prepare_abort();
  // Block signals until there is a child to pass them on to.
  sigset_t passed_on, mask;
  sigemptyset(&passed_on);
  for (const int number : kPassedOn) sigaddset(&passed_on, number);
  sigprocmask(SIG_BLOCK, &passed_on, &mask);
  const pid_t pid = ::fork();
  if (pid > 0) {
    ::close(ends[1]);
    rename_process(argv, pid);
    guard(pid, ends[0], mask);
  }
  sigprocmask(SIG_SETMASK, &mask, nullptr);
  ::close(ends[0]);
  if (pid < 0) {
    ::close(ends[1]);
    return;
  }
  to_guardian = ends[1];
  watch_guardian(guardian);
}

void end_in_silence() {
  claim_last_words(LastWords::kSilence);
}

LastWords last_words() {
  return last_words_now;
}

void others_know() {
  last_words_now = LastWords::kKnown;
}

void tell_guardian(bool is_watched) {
  is_rank_watched = is_watched;
  if (to_guardian < 0) return;
  const char word = is_watched ? 'w' : 'q';
  [[maybe_unused]] const ssize_t written = ::write(to_guardian, &word, 1);
}

}  // namespace syncopate
