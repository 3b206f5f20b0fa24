#include "base/child.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>
#include <optional>
#include <thread>

#include <fmt/core.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/text.h"

namespace syncopate {
namespace {

constexpr size_t kMostOutput = 1 << 20;  // bounds the output of a program that
                                         // never stops

struct Pipe {
  int ends[2] = {-1, -1};
  Pipe() {
    if (::pipe2(ends, O_CLOEXEC) != 0) ends[0] = ends[1] = -1;
  }
  ~Pipe() {
    close_end(0);
    close_end(1);
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  void close_end(int which) {
    if (ends[which] >= 0) ::close(ends[which]);
    ends[which] = -1;
  }
};

// Launchers leave descriptors open that a child must not keep alive. (glibc
// has a call for it since 2.34 only.)
void close_others(posix_spawn_file_actions_t& actions) {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator("/proc/self/fd", ignored)) {
    const auto descriptor = parse_int(entry.path().filename().string());
    if (descriptor.value_or(0) > STDERR_FILENO)
      posix_spawn_file_actions_addclose(&actions,
                                        static_cast<int>(*descriptor));
  }
}

// Returns 0 or an errno.
int start(pid_t& child,
          const std::vector<std::string>& words,
          const Pipe& out,
          const Pipe& errors) {
  std::vector<char*> argv;
  for (const std::string& word : words)
    argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null",
                                   O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, out.ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, errors.ends[1], STDERR_FILENO);
  close_others(actions);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK |
                                            POSIX_SPAWN_SETSIGDEF |
                                            POSIX_SPAWN_SETPGROUP);
  const int error = posix_spawnp(&child, argv[0], &actions, &attributes,
                                 argv.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  return error;
}

// Reads both pipes to end of file; returns false if `until_s` comes first.
bool read_all(Pipe& out, Pipe& errors, double until_s, ChildAnswer& answer) {
  Pipe* pipes[] = {&out, &errors};
  std::string* texts[] = {&answer.output, &answer.errors};
  for (;;) {
    pollfd waiting[2];
    for (int i = 0; i < 2; ++i) waiting[i] = {pipes[i]->ends[0], POLLIN, 0};
    if (waiting[0].fd < 0 && waiting[1].fd < 0) return true;
    const double left_ms = 1e3 * (until_s - monotonic_s());
    if (left_ms <= 0) return false;
    if (::poll(waiting, 2, static_cast<int>(std::ceil(left_ms))) <= 0) continue;
    for (int i = 0; i < 2; ++i) {
      if (waiting[i].revents == 0) continue;
      char buffer[4096];
      const ssize_t count = ::read(waiting[i].fd, buffer, sizeof buffer);
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0)
        pipes[i]->close_end(0);
      else if (texts[i]->size() < kMostOutput)
        texts[i]->append(buffer, static_cast<size_t>(count));
    }
  }
}

// Returns the exit status, or nullopt if the child is still running by then.
std::optional<int> wait_until(pid_t child, double until_s) {
  for (;;) {
    int status = 0;
    const pid_t ended = ::waitpid(child, &status, WNOHANG);
    if (ended == child) return status;
    if (ended < 0 && errno != EINTR) return 0;  // SIGCHLD ignored: no status
    if (monotonic_s() >= until_s) return std::nullopt;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

}  // namespace

ChildAnswer run_child(const std::vector<std::string>& words, double timeout_s) {
  ChildAnswer answer;
  const double until_s = monotonic_s() + timeout_s;
  Pipe out, errors;
  pid_t child = -1;
  int error = EMFILE;
  if (out.ends[0] >= 0 && errors.ends[0] >= 0)
    error = start(child, words, out, errors);
  if (error != 0) {
    answer.obstacle = fmt::format("{}: {}", words[0], std::strerror(error));
    return answer;
  }
  out.close_end(1);
  errors.close_end(1);
  std::optional<int> status;
  if (read_all(out, errors, until_s, answer))
    status = wait_until(child, until_s);
  if (!status) {
    ::kill(-child, SIGKILL);
    // A child that hangs in the kernel is left behind.
    wait_until(child, monotonic_s() + 1);
    answer.obstacle =
        fmt::format("{}: no answer in {:.3g} s", words[0], timeout_s);
  } else if (*status != 0) {
    const std::string said(trim(answer.errors));
    answer.obstacle = said.empty() ? fmt::format("{}: failed", words[0])
                                   : said.substr(0, said.find('\n'));
  }
  return answer;
}

}  // namespace syncopate
