#include "app/run_directory.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "base/clock.h"
#include "base/error.h"
#include "base/text.h"

namespace syncopate {
namespace {

void replace(std::string& text,
             const std::string& what,
             const std::string& by) {
  for (size_t at = text.find(what); at != std::string::npos;
       at = text.find(what, at + by.size()))
    text.replace(at, what.size(), by);
}

}  // namespace

RunDirectory::RunDirectory(const Options& options) {
  std::string name = options.run.name;
  const char* job = std::getenv("SLURM_JOB_ID");
  replace(name, "{scheme}", options.sync.scheme);
  replace(name, "{seed}", std::to_string(options.run.seed));
  replace(name, "{job}", job ? job : "local");
  path_ = fs::path(options.run.directory) / name;
}

void RunDirectory::acquire() {
  syncopate::create_directories(path_);
  const fs::path path = path_ / "lock";
  lock_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (lock_ < 0) fail_errno(ExitCode::kCannotCreate, path, "open");
  if (::flock(lock_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
    fail(ExitCode::kCannotCreate, "{}: in use by {}", path_.string(),
         trim(read_file(path)));
  char host[256] = "localhost";
  gethostname(host, sizeof host - 1);
  const std::string owner = fmt::format("process {} on {}\n", getpid(), host);
  if (::ftruncate(lock_, 0) != 0 ||
      ::write(lock_, owner.data(), owner.size()) != std::ssize(owner))
    fail_errno(ExitCode::kIoError, path, "write");
}

StopRequest RunDirectory::requested() const {
  constexpr double kInterval = 0.5;
  if (monotonic_s() - looked_at_s_ < kInterval) return StopRequest::kNone;
  looked_at_s_ = monotonic_s();
  std::error_code ignored;
  if (fs::exists(path_ / "STOP", ignored)) return StopRequest::kStopFile;
  return fs::exists(path_ / "SAVE", ignored) ? StopRequest::kSave
                                             : StopRequest::kNone;
}

void RunDirectory::granted() const {
  std::error_code ignored;
  for (const char* name : {"STOP", "SAVE"}) fs::remove(path_ / name, ignored);
}

bool RunDirectory::holds_a_run() const {
  return fs::exists(results()) || fs::exists(checkpoints());
}

void RunDirectory::set_results_aside(Log& log) const {
  if (!fs::exists(results())) return;
  int number = 1;
  const auto aside = [&] {
    return path_ / fmt::format("results-{}.h5", number);
  };
  while (fs::exists(aside())) ++number;
  rename_durably(results(), aside());
  log.warning(
      fmt::format("{}: results of a run that left no checkpoint; kept as {}",
                  results().string(), aside().filename().string()));
}

void RunDirectory::refuse_if_taken(const Options& options) const {
  if (options.checkpoint.resume == "none" && holds_a_run())
    fail(ExitCode::kCannotCreate,
         "{}: holds a run already: choose another run.name, or "
         "checkpoint.resume = auto to go on from its last checkpoint",
         path_.string());
}

}  // namespace syncopate
