// Files that are complete or absent: the program's one way to commit a file
// (temporary file, fsync, rename, fsync of the folder), and checked reading.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace syncopate {

namespace fs = std::filesystem;

// Flushes a finished file or a folder to disk. Errors: kIoError with errno.
void fsync_path(const fs::path& path);

// rename(from, to), then fsync of the folder that holds `to`.
void rename_durably(const fs::path& from, const fs::path& to);

// Gives a file a second name, which nothing may have yet. Where there can be no
// hard link, a copy gets that name. Errors: kCannotCreate, kIoError.
void link_durably(const fs::path& file, const fs::path& name);

// Atomically replaces `path` by `content`: a reader, or a kill at any moment,
// finds either the old bytes or the new ones. Writes temporary_of(path), which
// an error removes.
void write_file_atomically(const fs::path& path, std::string_view content);

// FOLDER/.NAME.tmp
fs::path temporary_of(const fs::path& path);

// Returns the file that stands for an output with the name `path`, behind
// symbolic links. Error(kCannotCreate), now rather than after hours of work, if
// something else than a regular file is there or it cannot be created.
fs::path creatable_file(fs::path path);

// Does the same for a file that `write` creates at the path it is given and has
// closed when it returns. Leaves nothing behind if `write` throws.
template <typename Write>
void replace_file(const fs::path& path, const Write& write) {
  const fs::path temporary = temporary_of(path);
  try {
    write(temporary);
    fsync_path(temporary);
    rename_durably(temporary, path);
  } catch (...) {
    std::error_code ignored;
    fs::remove(temporary, ignored);
    throw;
  }
}

// A new file, or one that is replaced or grows, written sequentially. Errors:
// kCannotCreate, kIoError.
class OutputFile {
 public:
  enum class Begin : uint8_t { kEmpty, kAtEnd };
  explicit OutputFile(const fs::path& path, Begin begin = Begin::kEmpty);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void write(std::string_view bytes);
  void finish();  // flushes the file to disk and closes it

 private:
  std::string path_;
  int fd_;
};

// A regular file, opened for reading. Errors: kInputMissing if it is absent,
// kBadInput if it is not a regular file, kIoError.
class InputFile {
 public:
  explicit InputFile(const fs::path& path);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  int64_t bytes() const { return bytes_; }  // its size when it was opened
  // Returns how many bytes were read: fewer than asked for only at the end.
  size_t read(char* to, size_t num_bytes);
  int get() const { return fd_; }

 private:
  std::string path_;
  int fd_;
  int64_t bytes_ = 0;
};

// Returns the whole file as bytes. Errors: kInputMissing if absent, kBadInput
// if it is not a regular file or is larger than `limit_bytes`, kIoError.
std::string read_file(const fs::path& path,
                      int64_t limit_bytes = int64_t{1} << 40);

// mkdir -p, then fsync of the folders that hold new ones. Errors: kCannotCreate
// with errno.
void create_directories(const fs::path& path);

// XXH3-128 of bytes, and of a file's content, as 32 hexadecimal digits.
std::string digest_of(std::string_view bytes);
std::string digest_of_file(const fs::path& path);

}  // namespace syncopate
