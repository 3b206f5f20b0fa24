#include "run/run_lock.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <fstream>
#include <regex>
#include <thread>

#include "base/clock.h"
#include "base/error.h"
#include "base/text.h"
#include "run/slurm.h"

namespace syncopate {
namespace {

// owner_of() holds the lock for a moment, which does not make it an owner.
constexpr double kPatience_s = 0.5;
// The owner touches its file twice a second, but storage may stall for minutes.
constexpr double kGoneJobsSilence_s = 60;
constexpr double kAnyonesSilence_s = 300;
constexpr int64_t kMostText = 4096;
constexpr char kOwnerFile[] = "lock.owner";

void sleep_ms(int milliseconds) {
  std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
}

std::string text_of(const fs::path& path) {
  try {
    return std::string(trim(read_file(path, kMostText)));
  } catch (const Error&) {
    return {};  // removed in the meantime
  }
}

void write_text(int file, const fs::path& path) {
  const std::string text = RunOwner::self().text() + "\n";
  if (::ftruncate(file, 0) != 0 ||
      ::pwrite(file, text.data(), text.size(), 0) != std::ssize(text))
    fail_errno(ExitCode::kIoError, path, "write");
}

bool lacks_locks(int error) {
  return error == ENOLCK || error == EOPNOTSUPP || error == ENOSYS ||
         error == EINVAL;
}

// Returns the seconds since `path` was touched, by the clock of its file system
// (which may differ from this host's); 0 if that cannot be determined.
double silence_s(const fs::path& path) {
  const fs::path probe = fmt::format("{}.clock-{}", path.string(), ::getpid());
  const bool is_written{std::ofstream(probe) << '\n' << std::flush};
  std::error_code no_probe, no_file;
  const auto now = fs::last_write_time(probe, no_probe);
  const auto then = fs::last_write_time(path, no_file);
  ::unlink(probe.c_str());
  if (!is_written || no_probe || no_file) return 0;
  return std::chrono::duration<double>(now - then).count();
}

// Returns whether the owner is certainly dead, which allows removing its file.
bool is_gone(const std::string& text, const fs::path& path) {
  const double silent_s = silence_s(path);
  if (silent_s > kAnyonesSilence_s) return true;
  const std::optional<RunOwner> owner = RunOwner::from_text(text);
  if (!owner) return false;  // the text is still being written
  const RunOwner self = RunOwner::self();
  if (owner->host == self.host &&
      (owner->pid == self.pid ||
       (::kill(static_cast<pid_t>(owner->pid), 0) != 0 && errno == ESRCH)))
    return true;
  if (owner->job.empty()) return false;
  if (owner->job == self.job) return owner->restarts < self.restarts;
  // Also requires silence, because squeue may ask another cluster.
  return silent_s > kGoneJobsSilence_s &&
         slurm_job_state(owner->job) == SlurmJobState::kGone;
}

// Returns false only if `path` is known to be another file now, or missing.
bool is_same_file(int file, const fs::path& path) {
  struct stat mine {
  }, there{};
  if (::stat(path.c_str(), &there) != 0) return errno != ENOENT;
  return ::fstat(file, &mine) != 0 ||
         (mine.st_ino == there.st_ino && mine.st_dev == there.st_dev);
}

struct Found {
  std::string text;      // empty: no owner
  bool by_file = false;  // found in lock.owner
};

[[noreturn]] void refuse(const fs::path& folder, const Found& owner) {
  const std::string mend = owner.by_file
                               ? fmt::format(
                                     " (this file system has no locks: if that "
                                     "process has ended, remove {})",
                                     (folder / kOwnerFile).string())
                               : "";
  throw FolderInUse(
      ExitCode::kCannotCreate,
      fmt::format("{}: in use by {}{}", folder.string(),
                  owner.text.empty() ? "another process" : owner.text, mend));
}

Found find_owner(const fs::path& folder) {
  const fs::path path = folder / "lock", owner_path = folder / kOwnerFile;
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return {};
  const bool is_free = ::flock(file, LOCK_SH | LOCK_NB) == 0;
  const int error = errno;
  ::close(file);
  if (is_free) return {};
  if (!lacks_locks(error)) return {text_of(path)};
  const std::string owner = text_of(owner_path);
  if (owner.empty() || is_gone(owner, owner_path)) return {};
  return {owner, true};
}

}  // namespace

RunOwner RunOwner::self() {
  char host[256] = "localhost";
  ::gethostname(host, sizeof host - 1);
  return {slurm_job(), slurm_restarts(), ::getpid(), host};
}

std::string RunOwner::text() const {
  std::string text = fmt::format("process {} on {}", pid, host);
  if (job.empty()) return text;
  const std::string again =
      restarts > 0 ? fmt::format(" (restart {})", restarts) : "";
  return fmt::format("job {}{}, {}", job, again, text);
}

std::optional<RunOwner> RunOwner::from_text(const std::string& text) {
  static const std::regex form(
      "(?:job (\\S+)(?: \\(restart (\\d+)\\))?, )?process (\\d+) on (\\S+)");
  std::smatch found;
  if (!std::regex_match(text, found, form)) return std::nullopt;
  RunOwner owner{found[1], 0, parse_int(found[3].str()).value_or(0), found[4]};
  owner.restarts = static_cast<int>(parse_int(found[2].str()).value_or(0));
  if (owner.pid <= 0) return std::nullopt;
  return owner;
}

RunLock::RunLock(const fs::path& folder)
    : folder_(folder), owner_path_(folder / kOwnerFile) {
  const fs::path path = folder / "lock";
  lock_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (lock_ < 0) fail_errno(ExitCode::kCannotCreate, path, "open");
  try {
    if (!lock(path)) take_owner_file();
    write_text(lock_, path);
  } catch (...) {
    release();
    throw;
  }
}

RunLock::~RunLock() {
  release();
}

void RunLock::release() {
  if (owner_file_ >= 0) {
    if (is_same_file(owner_file_, owner_path_)) ::unlink(owner_path_.c_str());
    ::close(owner_file_);
  }
  ::close(lock_);
}

// Returns false if the file system does not support locks.
bool RunLock::lock(const fs::path& path) {
  const double until_s = monotonic_s() + kPatience_s;
  while (::flock(lock_, LOCK_EX | LOCK_NB) != 0) {
    if (lacks_locks(errno)) return false;
    if (errno != EWOULDBLOCK && errno != EINTR)
      fail_errno(ExitCode::kCannotCreate, path, "lock");
    if (monotonic_s() >= until_s) refuse(folder_, {text_of(path)});
    sleep_ms(20);
  }
  return true;
}

bool RunLock::create_owner_file() {
  owner_file_ =
      ::open(owner_path_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (owner_file_ < 0) {
    if (errno == EEXIST) return false;
    fail_errno(ExitCode::kCannotCreate, owner_path_, "create");
  }
  write_text(owner_file_, owner_path_);
  return true;
}

void RunLock::take_owner_file() {
  if (create_owner_file()) return;
  const std::string owner = text_of(owner_path_);
  if (!is_gone(owner, owner_path_)) refuse(folder_, {owner, true});
  const fs::path aside =
      fmt::format("{}.gone-{}", owner_path_.string(), ::getpid());
  if (text_of(owner_path_) == owner &&
      ::rename(owner_path_.c_str(), aside.c_str()) == 0)
    ::unlink(aside.c_str());
  if (!create_owner_file()) refuse(folder_, {text_of(owner_path_), true});
  // If two processes find the same owner dead, the later one may remove the
  // earlier one's new file. The process that still has its file after a delay
  // is the only owner.
  sleep_ms(200);
  if (is_same_file(owner_file_, owner_path_)) return;
  ::close(owner_file_);
  owner_file_ = -1;
  refuse(folder_, {text_of(owner_path_), true});
}

bool RunLock::beat() const {
  if (!is_fallback()) return true;
  ::futimens(owner_file_, nullptr);
  return is_same_file(owner_file_, owner_path_);
}

std::string owner_of(const fs::path& folder) {
  return find_owner(folder).text;
}

void refuse_if_owned(const fs::path& folder) {
  const Found found = find_owner(folder);
  if (!found.text.empty()) refuse(folder, found);
}

}  // namespace syncopate
