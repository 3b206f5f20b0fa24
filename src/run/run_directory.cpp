#include "run/run_directory.h"

#include <unistd.h>

#include <climits>
#include <cstdio>
#include <cstdlib>

#include "base/error.h"
#include "base/text.h"
#include "checkpoint/checkpoint.h"

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

RunDirectory::RunDirectory(const Options& options, int workers) {
  std::string name = options.run.name;
  const char* job = std::getenv("SLURM_JOB_ID");
  replace(name, "{scheme}", options.sync.scheme);
  replace(name, "{seed}", std::to_string(options.run.seed));
  replace(name, "{workers}", std::to_string(workers));
  replace(name, "{job}", job ? job : "local");
  path_ = fs::path(options.run.directory) / name;
  for (const fs::path& part : path_)
    if (part.native().size() > NAME_MAX)
      fail(ExitCode::kBadInput,
           "run.name or run.directory: {} bytes between two slashes, expected "
           "at most {}",
           part.native().size(), NAME_MAX);
}

std::string RunDirectory::free_name(Options options, int workers) {
  const std::string pattern = options.run.name;
  for (int number = 2;; ++number) {
    options.run.name = fmt::format("{}-{}", pattern, number);
    if (!fs::exists(RunDirectory(options, workers).path()))
      return options.run.name;
  }
}

void RunDirectory::acquire() {
  for (fs::path folder = path_; !folder.empty() && !fs::exists(folder);
       folder = folder.parent_path())
    created_ = folder;
  syncopate::create_directories(path_);
  lock_ = std::make_shared<RunLock>(path_);
  watch_ = std::make_unique<RequestWatch>(path_, [lock = lock_, path = path_] {
    if (lock->beat()) return true;
    std::fprintf(stderr,
                 "error: %s: taken over while this process was suspended: %s\n",
                 path.c_str(), owner_of(path).c_str());
    _exit(static_cast<int>(ExitCode::kCannotCreate));
  });
}

void RunDirectory::abandon() const {
  std::error_code ignored;
  if (created_.empty() || fs::exists(results()) ||
      (fs::exists(checkpoints()) && !fs::is_empty(checkpoints(), ignored)))
    return;
  fs::remove_all(path_, ignored);
  // Others may have made runs in the folders above: remove empty ones only.
  for (fs::path folder = path_; folder != created_;) {
    folder = folder.parent_path();
    if (!fs::remove(folder, ignored)) return;
  }
}

StopRequest RunDirectory::requested() const {
  return watch_ ? watch_->seen() : StopRequest::kNone;
}

void RunDirectory::remove_request(StopRequest granted,
                                  const char* why,
                                  Log& log) const {
  for (const auto& [file, is_gone] : watch_->remove(granted))
    if (is_gone)
      log.line("{}: {}; file removed", file, why);
    else
      log.warning(
          fmt::format("{}: {}, but the file cannot be removed; it "
                      "counts again once it is touched",
                      (path_ / file).string(), why));
}

void RunDirectory::granted(StopRequest request, Log& log) const {
  if (watch_) remove_request(request, "checkpoint written", log);
}

void RunDirectory::discard_requests(Log& log) const {
  if (watch_)
    remove_request(StopRequest::kStopFile, "too late, the run is finished",
                   log);
}

bool RunDirectory::holds_a_run() const {
  return fs::exists(results()) || fs::exists(checkpoints());
}

fs::path RunDirectory::keep_results(const std::string& why, Log& log) const {
  const bool has_results = fs::exists(results());
  const bool has_metrics = fs::is_regular_file(metrics());
  if (!has_results && !has_metrics) return {};
  int number = 1;
  const auto numbered = [&](const fs::path& file) {
    return path_ / fmt::format("{}-{}{}", file.stem().string(), number,
                               file.extension().string());
  };
  const auto is_kept = [&] {  // already, under this number
    return has_results && fs::exists(numbered(results())) &&
           fs::equivalent(results(), numbered(results()));
  };
  const auto is_taken = [&] {
    if (is_kept()) return has_metrics && fs::exists(numbered(metrics()));
    return fs::exists(numbered(results())) || fs::exists(numbered(metrics()));
  };
  while (is_taken()) ++number;
  if (has_results && !is_kept()) link_durably(results(), numbered(results()));
  if (has_metrics) rename_durably(metrics(), numbered(metrics()));
  const fs::path file = has_results ? results() : metrics();
  log.warning(fmt::format("{}: {}; kept as {}", file.string(), why,
                          numbered(file).filename().string()));
  return has_results ? numbered(results()) : fs::path();
}

void RunDirectory::set_results_aside(const std::string& why, Log& log) const {
  if (keep_results(why, log).empty()) return;
  std::error_code ignored;  // the run's own results replace it
  fs::remove(results(), ignored);
}

void RunDirectory::refuse_if_taken(const Options& options) const {
  if (options.checkpoint.resume != "none") return;
  const bool can_resume = !checkpoint_folders(checkpoints()).empty();
  if (can_resume || fs::exists(results()))
    fail(ExitCode::kCannotCreate,
         "{}: already holds a run: choose another run.name{}", path_.string(),
         can_resume ? ", or checkpoint.resume = auto to resume from its last "
                      "checkpoint"
                    : "");
}

}  // namespace syncopate
