#include "base/hdf5_seal.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>

#include "base/check.h"
#include "base/error.h"

namespace syncopate {
namespace {

constexpr std::string_view kSealBegins = "syncopate sealed";

std::string seal_block(std::string_view rest) {
  std::string block =
      "syncopate sealed HDF5, version 1\nxxh3-128 " + digest_of(rest) + "\n";
  block.resize(kSealBytes, '\0');
  return block;
}

}  // namespace

void write_seal(const fs::path& path) {
  const std::string content = read_file(path);
  CHECK(std::ssize(content) > kSealBytes);
  const std::string block =
      seal_block(std::string_view(content).substr(kSealBytes));
  const int fd = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (fd < 0) fail_errno(ExitCode::kIoError, path, "open for its seal");
  const ssize_t written = ::pwrite(fd, block.data(), block.size(), 0);
  if (written != kSealBytes) {
    const int saved = written < 0 ? errno : ENOSPC;
    ::close(fd);
    errno = saved;
    fail_errno(ExitCode::kIoError, path, "write its seal");
  }
  if (::close(fd) != 0) fail_errno(ExitCode::kIoError, path, "close");
}

bool is_sealed(const fs::path& path) {
  std::string begin(kSealBegins.size(), '\0');
  std::ifstream(path, std::ios::binary)
      .read(begin.data(), static_cast<std::streamsize>(begin.size()));
  return begin == kSealBegins;
}

void check_seal(const fs::path& path) {
  const std::string content = read_file(path);
  const std::string_view bytes = content;
  if (std::ssize(bytes) <= kSealBytes || !bytes.starts_with(kSealBegins))
    fail(ExitCode::kBadInput, "{}: not a sealed HDF5 file of this program",
         path.string());
  if (bytes.substr(0, kSealBytes) != seal_block(bytes.substr(kSealBytes)))
    fail(ExitCode::kBadInput,
         "{}: damaged or altered: its digest is not that of its content",
         path.string());
}

}  // namespace syncopate
