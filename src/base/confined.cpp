#include "base/confined.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <new>

#include "base/error.h"

namespace syncopate {
namespace {

constexpr size_t kAnswerBytes = 16 << 20;

// --- the child ---------------------------------------------------------------

int64_t address_space_bytes() {
  long long pages = 0;
  FILE* const file = std::fopen("/proc/self/statm", "re");
  const bool is_known =
      file != nullptr && std::fscanf(file, "%lld", &pages) == 1;
  if (file != nullptr) std::fclose(file);
  return is_known ? pages * ::sysconf(_SC_PAGESIZE) : 0;
}

void limit(__rlimit_resource resource, int64_t most) {
  struct rlimit now {};
  ::getrlimit(resource, &now);
  const rlim_t wanted = static_cast<rlim_t>(most);
  now.rlim_cur = std::min(wanted, now.rlim_max);
  ::setrlimit(resource, &now);
}

void confine(const Confinement& limits) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // must not outlive its parent
  for (const int signal :
       {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGPROF, SIGXCPU})
    ::signal(signal, SIG_DFL);
  limit(RLIMIT_CORE, 0);
  limit(RLIMIT_CPU, limits.cpu_s);
  if (const int64_t bytes = address_space_bytes(); bytes > 0)
    limit(RLIMIT_AS, bytes + limits.memory_bytes);
  const int nowhere = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  for (const int fd : {STDOUT_FILENO, STDERR_FILENO}) ::dup2(nowhere, fd);
}

// Returns the exit code as one byte, followed by the text.
std::string answer_of(const std::string& origin,
                      const std::function<std::string()>& work) {
  ExitCode code = ExitCode::kDone;
  std::string text;
  try {
    text = work();
    if (text.size() >= kAnswerBytes)
      fail(ExitCode::kBadInput, "{}: a text of {} bytes, at most {} expected",
           origin, text.size(), kAnswerBytes - 1);
  } catch (const Error& error) {
    code = error.code();
    text = error.what();
  } catch (const std::bad_alloc&) {
    code = ExitCode::kBadInput;
    text = origin + ": needs more memory than a file of its size should";
  } catch (const std::exception& error) {
    code = ExitCode::kBadInput;
    text = origin + ": " + error.what();
  }
  return static_cast<char>(code) + text;
}

[[noreturn]] void answer_and_leave(int pipe, std::string_view answer) {
  while (!answer.empty()) {
    const ssize_t written = ::write(pipe, answer.data(), answer.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) break;
    answer.remove_prefix(static_cast<size_t>(written));
  }
  ::_exit(0);
}

// --- the parent --------------------------------------------------------------

class Child {
 public:
  Child(pid_t pid, int pipe) : pid_(pid), pipe_(pipe) {}
  ~Child() {
    ::close(pipe_);
    if (!is_gone_) end();
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  // Returns everything the child writes up to end of file, or an empty string
  // if that takes too long or is too much.
  std::string read_all(std::chrono::seconds patience) {
    using Clock = std::chrono::steady_clock;
    const Clock::time_point end = Clock::now() + patience;
    std::string text;
    char piece[4096];
    while (text.size() <= kAnswerBytes) {
      const auto left =
          std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now());
      if (left.count() <= 0) return "";
      pollfd wait = {.fd = pipe_, .events = POLLIN, .revents = 0};
      const int ready = ::poll(&wait, 1, static_cast<int>(left.count()));
      if (ready <= 0) continue;  // a signal, or the timeout expired
      const ssize_t got = ::read(pipe_, piece, sizeof piece);
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) return text;
      text.append(piece, static_cast<size_t>(got));
    }
    return "";
  }

  // Kills the child if it is still running and returns its waitpid status.
  int end() {
    ::kill(pid_, SIGKILL);  // no effect on a child that has exited
    is_gone_ = true;
    int status = 0;
    while (::waitpid(pid_, &status, 0) < 0)
      if (errno != EINTR) return 0;  // SIGCHLD is ignored elsewhere
    return status;
  }

 private:
  pid_t pid_;
  int pipe_;
  bool is_gone_ = false;
};

std::string describe_end(int status, const Confinement& limits) {
  if (!WIFSIGNALED(status)) return "ended without an answer";
  const int signal = WTERMSIG(status);
  if (signal == SIGXCPU)
    return fmt::format("did not end within {} s", limits.cpu_s);
  if (signal == SIGKILL)
    return "did not finish in time, or was killed for using too much memory";
  return fmt::format("crashed ({})", ::strsignal(signal));
}

}  // namespace

std::string run_confined(const std::string& origin,
                         const std::string& user,
                         const Confinement& limits,
                         const std::function<std::string()>& work) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0)
    fail_errno(ExitCode::kIoError, origin, "make a pipe");
  const pid_t pid = ::fork();
  if (pid == 0) {
    confine(limits);
    answer_and_leave(ends[1], answer_of(origin, work));
  }
  const int saved = errno;
  ::close(ends[1]);
  if (pid < 0) {
    ::close(ends[0]);
    errno = saved;
    fail_errno(ExitCode::kIoError, origin, "start a process to read it");
  }
  Child child(pid, ends[0]);
  const std::string answer =
      child.read_all(std::chrono::seconds(60 + 10 * limits.cpu_s));
  const int status = child.end();
  if (answer.empty())
    fail(ExitCode::kBadInput, "{}: cannot be read: {} {}", origin, user,
         describe_end(status, limits));
  if (answer[0] != 0)
    throw Error(static_cast<ExitCode>(answer[0]), answer.substr(1));
  return answer.substr(1);
}

SharedBytes::SharedBytes(int64_t num_bytes) {
  const auto length = static_cast<size_t>(std::max<int64_t>(num_bytes, 1));
  void* const start = ::mmap(nullptr, length, PROT_READ | PROT_WRITE,
                             MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (start == MAP_FAILED)
    fail_errno(ExitCode::kInternal, "memory to share", "map");
  bytes_ = {static_cast<uint8_t*>(start), length};
}

SharedBytes::~SharedBytes() {
  ::munmap(bytes_.data(), bytes_.size());
}

}  // namespace syncopate
