#include "base/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <cerrno>
#include <memory>
#include <utility>
#include <vector>

#include "base/error.h"

namespace syncopate {
namespace {

// Closes `fd` even if it throws.
void flush_and_close(int fd, const fs::path& path) {
  const bool is_flushed = ::fsync(fd) == 0;
  const int saved = errno;
  const bool is_closed = ::close(fd) == 0;
  if (!is_flushed) errno = saved;
  if (!is_flushed) fail_errno(ExitCode::kIoError, path, "fsync");
  if (!is_closed) fail_errno(ExitCode::kIoError, path, "close");
}

std::string hex(const XXH128_hash_t& hash) {
  return fmt::format("{:016x}{:016x}", static_cast<uint64_t>(hash.high64),
                     static_cast<uint64_t>(hash.low64));
}

}  // namespace

void fsync_path(const fs::path& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) fail_errno(ExitCode::kIoError, path, "open for fsync");
  flush_and_close(fd, path);
}

void rename_durably(const fs::path& from, const fs::path& to) {
  if (::rename(from.c_str(), to.c_str()) != 0)
    fail_errno(ExitCode::kIoError, to, "rename");
  fsync_path(to.parent_path().empty() ? fs::path(".") : to.parent_path());
}

void link_durably(const fs::path& file, const fs::path& name) {
  std::error_code error;
  fs::create_hard_link(file, name, error);
  if (!error) {
    fsync_path(name.parent_path().empty() ? fs::path(".") : name.parent_path());
    return;
  }
  if (error == std::errc::file_exists)
    fail(ExitCode::kCannotCreate, "{}: link: {}", name.string(),
         error.message());
  replace_file(name, [&](const fs::path& copy) {
    if (!fs::copy_file(file, copy, fs::copy_options::overwrite_existing, error))
      fail(ExitCode::kCannotCreate, "{}: copy: {}", copy.string(),
           error.message());
  });
}

fs::path temporary_of(const fs::path& path) {
  return path.parent_path() / fmt::format(".{}.tmp", path.filename().string());
}

void write_file_atomically(const fs::path& path, std::string_view content) {
  const fs::path temporary = temporary_of(path);
  OutputFile file(temporary);
  try {
    file.write(content);
    file.finish();
    rename_durably(temporary, path);
  } catch (const Error&) {
    std::error_code ignored;
    fs::remove(temporary, ignored);
    throw;
  }
}

fs::path creatable_file(fs::path path) {
  constexpr int kMostLinks = 40;  // as Linux
  std::error_code ignored;
  for (int i = 0; i < kMostLinks && fs::is_symlink(path, ignored); ++i)
    path = path.parent_path() / fs::read_symlink(path, ignored);
  if (fs::is_symlink(path, ignored))
    fail(ExitCode::kCannotCreate, "{}: is a symbolic link to itself",
         path.string());
  const fs::file_status there = fs::status(path, ignored);
  if (fs::is_directory(there))
    fail(ExitCode::kCannotCreate, "{}: is a folder", path.string());
  if (fs::exists(there) && !fs::is_regular_file(there))
    fail(ExitCode::kCannotCreate, "{}: exists but is not a regular file",
         path.string());
  const fs::path temporary = temporary_of(path);
  { const OutputFile file(temporary); }
  fs::remove(temporary, ignored);
  return path;
}

OutputFile::OutputFile(const fs::path& path, Begin begin)
    : path_(path.string()),
      fd_(::open(path.c_str(),
                 O_WRONLY | O_CREAT | O_CLOEXEC |
                     (begin == Begin::kEmpty ? O_TRUNC : O_APPEND),
                 0666)) {
  if (fd_ < 0) fail_errno(ExitCode::kCannotCreate, path_, "create");
}

OutputFile::~OutputFile() {
  if (fd_ >= 0) ::close(fd_);
}

void OutputFile::write(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail_errno(ExitCode::kIoError, path_, "write");
    bytes.remove_prefix(static_cast<size_t>(written));
  }
}

void OutputFile::finish() {
  flush_and_close(std::exchange(fd_, -1), path_);
}

// Does not wait for the writer of a FIFO.
InputFile::InputFile(const fs::path& path)
    : path_(path.string()),
      fd_(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC)) {
  if (fd_ < 0)
    fail_errno(errno == ENOENT || errno == ENOTDIR || errno == EACCES
                   ? ExitCode::kInputMissing
                   : ExitCode::kIoError,
               path_, "open");
  struct stat info {};
  const bool has_info = ::fstat(fd_, &info) == 0;
  bytes_ = info.st_size;
  if (has_info && S_ISREG(info.st_mode)) return;
  const int saved = errno;
  ::close(fd_);
  errno = saved;
  if (!has_info) fail_errno(ExitCode::kIoError, path_, "stat");
  fail(ExitCode::kBadInput, "{}: not a regular file", path_);
}

InputFile::~InputFile() {
  if (fd_ >= 0) ::close(fd_);
}

size_t InputFile::read(char* to, size_t num_bytes) {
  size_t done = 0;
  while (done < num_bytes) {
    const ssize_t got = ::read(fd_, to + done, num_bytes - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail_errno(ExitCode::kIoError, path_, "read");
    if (got == 0) break;
    done += static_cast<size_t>(got);
  }
  return done;
}

std::string read_file(const fs::path& path, int64_t limit_bytes) {
  InputFile file(path);
  if (file.bytes() > limit_bytes)
    fail(ExitCode::kBadInput, "{}: {} bytes, at most {} expected",
         path.string(), file.bytes(), limit_bytes);
  std::string content(static_cast<size_t>(file.bytes()), '\0');
  // Shorter if it was truncated meanwhile: the caller sees the size.
  content.resize(file.read(content.data(), content.size()));
  return content;
}

void create_directories(const fs::path& path) {
  std::error_code error;
  std::vector<fs::path> parents;  // of new folders
  for (fs::path folder = fs::absolute(path, error);
       folder.has_relative_path() && !fs::exists(folder, error);
       folder = folder.parent_path())
    parents.push_back(folder.parent_path());
  fs::create_directories(path, error);
  if (error)
    fail(ExitCode::kCannotCreate, "{}: cannot create directory: {}",
         path.string(), error.message());
  // One may be allowed to create in a folder but not to read it.
  for (const fs::path& parent : parents)
    if (::access(parent.c_str(), R_OK) == 0) fsync_path(parent);
}

std::string digest_of(std::string_view bytes) {
  return hex(XXH3_128bits(bytes.data(), bytes.size()));
}

std::string digest_of_file(const fs::path& path) {
  InputFile file(path);
  const std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> state(
      XXH3_createState(), &XXH3_freeState);
  XXH3_128bits_reset(state.get());
  std::vector<char> chunk(1 << 20);
  while (const size_t got = file.read(chunk.data(), chunk.size()))
    XXH3_128bits_update(state.get(), chunk.data(), got);
  return hex(XXH3_128bits_digest(state.get()));
}

}  // namespace syncopate
