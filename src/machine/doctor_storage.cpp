// Checks of `doctor`: the folder in which runs are made.
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <thread>

#include "base/clock.h"
#include "base/hdf5_file.h"
#include "machine/doctor.h"
#include "run/request_files.h"
#include "run/run_lock.h"

namespace syncopate {
namespace {

// Checks that a concurrent reader always finds a complete file, old or new.
void check_commits(DoctorReport& report, const fs::path& folder) {
  constexpr int kCommits = 20;
  const fs::path path = folder / "committed";
  const std::string contents[] = {std::string(1 << 16, 'a'),
                                  std::string(1 << 17, 'b')};
  write_file_atomically(path, contents[0]);
  std::atomic<bool> is_over = false;
  int64_t reads = 0, torn = 0;
  std::thread reader([&] {
    for (; !is_over; ++reads) {
      std::string found;
      try {
        found = read_file(path);
      } catch (const Error&) {  // a missing file counts as a torn one
      }
      torn += found != contents[0] && found != contents[1];
    }
  });
  const double begin = monotonic_s();
  const Outcome written = attempt([&] {
    for (int i = 0; i < kCommits; ++i)
      write_file_atomically(path, contents[i % 2]);
  });
  const double seconds = monotonic_s() - begin;
  is_over = true;
  reader.join();
  if (!written.ok())
    report.bad(ExitCode::kIoError, "commit", "{}", written.line);
  else if (torn > 0)
    report.bad(ExitCode::kIoError, "commit",
               "rename is not atomic here: {} of {} reads found half a file; "
               "use another file system for run.directory",
               torn, reads);
  else
    report.ok("commit",
              "fsync and rename in {:.1f} ms; {} reads meanwhile found whole "
              "files",
              1e3 * seconds / kCommits, reads);
}

void check_lock(DoctorReport& report, const fs::path& folder) {
  const RunLock mine(folder);
  const double begin = monotonic_s();
  try {
    const RunLock second(folder);
    report.bad(ExitCode::kCannotCreate, "lock",
               "a second run in the same directory is not refused: make sure "
               "that no two jobs use the same one");
    return;
  } catch (const Error& error) {
    if (error.code() != ExitCode::kCannotCreate) throw;
  }
  const double seconds = monotonic_s() - begin;
  if (mine.is_fallback())
    report.note("lock",
                "a second run is refused in {:.1f} s, but only by a lock file, "
                "since this file system has no locks; the lock file of a "
                "crashed run is taken over within five minutes",
                seconds);
  else
    report.ok("lock", "a second run is refused in {:.1f} s", seconds);
}

void check_requests(DoctorReport& report, const fs::path& folder) {
  const RequestWatch watch(folder, nullptr);
  const double begin = monotonic_s();
  std::ofstream(folder / "STOP").close();
  while (watch.seen() != StopRequest::kStopFile) {
    if (monotonic_s() - begin > 10)
      return report.bad(ExitCode::kIoError, "STOP file",
                        "not noticed within 10 s: stop runs with a signal "
                        "instead");
    usleep(1000);
  }
  report.ok("STOP file", "seen after {:.1f} s", monotonic_s() - begin);
}

}  // namespace

RunsFolder::RunsFolder() {
  const char* runs = std::getenv("SYNCOPATE_RUNS");
  path_ = runs != nullptr && *runs != '\0' ? runs : ".";
  std::error_code ignored;
  is_new_ = !fs::exists(path_, ignored);
}

RunsFolder::~RunsFolder() {
  std::error_code ignored;
  if (is_new_) fs::remove(path_, ignored);  // if it is empty
}

std::string RunsFolder::name() const {
  return path_ == "." ? "here" : "in " + path_.string();
}

void check_storage(DoctorReport& report) {
  const RunsFolder runs;
  const fs::path path =
      runs.path() / fmt::format("syncopate-doctor-{}.h5", getpid());
  try {
    syncopate::create_directories(runs.path());
    const std::vector<float> values(1 << 20, 1.5f);
    const std::vector<int64_t> dims = {std::ssize(values)};
    const double begin = monotonic_s();
    {
      Hdf5Writer file(path);
      file.write<float>("values", dims, values);
      file.close();
    }
    fsync_path(path);
    const double seconds = monotonic_s() - begin;
    std::vector<float> back(values.size());
    Hdf5Reader(path).read<float>("values", back);
    if (back != values)
      report.bad(ExitCode::kIoError, "storage", "read back other values");
    else
      report.ok("storage",
                "HDF5 {}: 4 MiB written, synced and read back {} in {:.0f} ms",
                hdf5_version(), runs.name(), 1e3 * seconds);
  } catch (const Error& error) {
    report.bad(error.code(), "storage", "{}", error.what());
  }
  std::error_code ignored;
  fs::remove(path, ignored);
}

void check_run_directory(DoctorReport& report) {
  const RunsFolder runs;
  const fs::path folder =
      runs.path() / fmt::format("syncopate-doctor-{}", getpid());
  try {
    syncopate::create_directories(folder);
    check_commits(report, folder);
    check_lock(report, folder);
    check_requests(report, folder);
  } catch (const Error& error) {
    report.bad(error.code(), "directory", "{}", error.what());
  }
  std::error_code ignored;
  fs::remove_all(folder, ignored);
}

}  // namespace syncopate
