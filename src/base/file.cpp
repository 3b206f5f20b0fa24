#include "base/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <cerrno>
#include <memory>
#include <vector>

#include "base/error.h"

namespace syncopate {
namespace {

// Closes an open descriptor on destruction; close_checked() reports errors.
class Descriptor {
 public:
  Descriptor(const fs::path& path, int flags, mode_t mode = 0666)
      : path_(path), fd_(::open(path.c_str(), flags | O_CLOEXEC, mode)) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }
  void close_checked() {
    const int fd = fd_;
    fd_ = -1;
    if (::close(fd) != 0) fail_errno(ExitCode::kIoError, path_, "close");
  }

 private:
  std::string path_;
  int fd_;
};

void write_all(int fd, std::string_view bytes, const fs::path& path) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail_errno(ExitCode::kIoError, path, "write");
    bytes.remove_prefix(static_cast<size_t>(written));
  }
}

std::string hex(const XXH128_hash_t& hash) {
  return fmt::format("{:016x}{:016x}", static_cast<uint64_t>(hash.high64),
                     static_cast<uint64_t>(hash.low64));
}

}  // namespace

void fsync_path(const fs::path& path) {
  Descriptor file(path, O_RDONLY);
  if (file.get() < 0) fail_errno(ExitCode::kIoError, path, "open for fsync");
  if (::fsync(file.get()) != 0) fail_errno(ExitCode::kIoError, path, "fsync");
  file.close_checked();
}

void rename_durably(const fs::path& from, const fs::path& to) {
  if (::rename(from.c_str(), to.c_str()) != 0)
    fail_errno(ExitCode::kIoError, to, "rename");
  fsync_path(to.parent_path().empty() ? fs::path(".") : to.parent_path());
}

void write_file_atomically(const fs::path& path, std::string_view content) {
  fs::path temporary = path;
  temporary += ".tmp";
  Descriptor file(temporary, O_WRONLY | O_CREAT | O_TRUNC);
  if (file.get() < 0)
    fail_errno(ExitCode::kCannotCreate, temporary, "open for writing");
  write_all(file.get(), content, temporary);
  if (::fsync(file.get()) != 0)
    fail_errno(ExitCode::kIoError, temporary, "fsync");
  file.close_checked();
  rename_durably(temporary, path);
}

AppendedFile::AppendedFile(const fs::path& path)
    : path_(path), fd_(::open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC)) {
  if (fd_ < 0) fail_errno(ExitCode::kIoError, path_, "open for appending");
}

AppendedFile::~AppendedFile() {
  if (fd_ >= 0) ::close(fd_);
}

void AppendedFile::append(std::string_view bytes) {
  write_all(fd_, bytes, path_);
}

std::string read_file(const fs::path& path, int64_t limit_bytes) {
  Descriptor file(path, O_RDONLY | O_NONBLOCK);  // do not block on a FIFO
  if (file.get() < 0)
    fail_errno(errno == ENOENT || errno == ENOTDIR ? ExitCode::kInputMissing
                                                   : ExitCode::kIoError,
               path, "open");
  struct stat info {};
  if (::fstat(file.get(), &info) != 0)
    fail_errno(ExitCode::kIoError, path, "stat");
  if (!S_ISREG(info.st_mode))
    fail(ExitCode::kBadInput, "{}: not a regular file", path.string());
  if (info.st_size > limit_bytes)
    fail(ExitCode::kBadInput, "{}: {} bytes, at most {} expected",
         path.string(), info.st_size, limit_bytes);
  std::string content(static_cast<size_t>(info.st_size), '\0');
  size_t done = 0;
  while (done < content.size()) {
    const ssize_t got =
        ::read(file.get(), content.data() + done, content.size() - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail_errno(ExitCode::kIoError, path, "read");
    if (got == 0) break;  // truncated while reading: the caller sees the size
    done += static_cast<size_t>(got);
  }
  content.resize(done);
  return content;
}

void create_directories(const fs::path& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error)
    fail(ExitCode::kCannotCreate, "{}: cannot create directory: {}",
         path.string(), error.message());
}

std::string digest_of(std::string_view bytes) {
  return hex(XXH3_128bits(bytes.data(), bytes.size()));
}

std::string digest_of_file(const fs::path& path) {
  Descriptor file(path, O_RDONLY);
  if (file.get() < 0) fail_errno(ExitCode::kIoError, path, "open");
  const std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> state(
      XXH3_createState(), &XXH3_freeState);
  XXH3_128bits_reset(state.get());
  std::vector<char> chunk(1 << 20);
  for (;;) {
    const ssize_t got = ::read(file.get(), chunk.data(), chunk.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail_errno(ExitCode::kIoError, path, "read");
    if (got == 0) break;
    XXH3_128bits_update(state.get(), chunk.data(), static_cast<size_t>(got));
  }
  return hex(XXH3_128bits_digest(state.get()));
}

}  // namespace syncopate
