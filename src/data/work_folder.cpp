#include "data/work_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>

#include "base/error.h"

namespace syncopate {
namespace {

fs::path without_slash(const fs::path& path) {
  const fs::path normal = path.lexically_normal();
  return normal.has_filename() ? normal : normal.parent_path();
}

}  // namespace

WorkFolder::WorkFolder(const fs::path& to, std::span<const char* const> names)
    : to_(without_slash(to)),
      path_(fs::path(to_) += ".tmp"),
      names_(names.begin(), names.end()) {
  std::error_code ignored;
  if (fs::exists(to_, ignored) &&
      !(fs::is_directory(to_, ignored) && fs::is_empty(to_, ignored)))
    fail(ExitCode::kCannotCreate,
         "{}: already exists, expected a new name or an empty folder",
         to_.string());
  syncopate::create_directories(path_);
  lock_ = ::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (lock_ < 0) fail_errno(ExitCode::kCannotCreate, path_, "open");
  // On file systems without locks the folder counts as unlocked.
  if (::flock(lock_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    ::close(lock_);
    fail(ExitCode::kCannotCreate, "{}: another process is writing it",
         path_.string());
  }
  remove_files();
}

WorkFolder::~WorkFolder() {
  if (!is_committed_) {
    remove_files();
    std::error_code ignored;
    fs::remove(path_, ignored);
  }
  ::close(lock_);
}

void WorkFolder::commit() {
  fsync_path(path_);
  rename_durably(path_, to_);
  is_committed_ = true;
}

void WorkFolder::remove_files() {
  std::error_code ignored;
  for (const std::string& name : names_) fs::remove(path_ / name, ignored);
}

}  // namespace syncopate
