// Files that are whole or not there: the one commit recipe of the program
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

// Replaces `path` by `content` as one act: a reader, or a kill at any moment,
// finds the old bytes or the new ones. Writes PATH.tmp beside it.
void write_file_atomically(const fs::path& path, std::string_view content);

// The same for a file that `write` makes at the path it is given, closed when
// it returns. Where it throws, nothing is left.
template <typename Write>
void replace_file(const fs::path& path, const Write& write) {
  fs::path temporary = path;
  temporary += ".tmp";
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

// Whole file as bytes. Errors: kInputMissing if absent, kBadInput if it is no
// regular file or larger than `limit_bytes`, kIoError.
std::string read_file(const fs::path& path,
                      int64_t limit_bytes = int64_t{1} << 40);

// mkdir -p; kCannotCreate with errno.
void create_directories(const fs::path& path);

// XXH3-128 of bytes, and of a file's content, as 32 hexadecimal digits.
std::string digest_of(std::string_view bytes);
std::string digest_of_file(const fs::path& path);

}  // namespace syncopate
