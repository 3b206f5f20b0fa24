#include "fuzz.h"

#include <stdlib.h>

#include <cstdio>
#include <fstream>

#include "base/error.h"

namespace syncopate::fuzz {
namespace {

class Folder {
 public:
  Folder() {
    const fs::path memory = "/dev/shm";
    const fs::path parent =
        fs::is_directory(memory) ? memory : fs::temp_directory_path();
    std::string name = (parent / "fuzz-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr)
      fail_errno(ExitCode::kCannotCreate, name, "make a folder");
    path = name;
  }
  ~Folder() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
  fs::path path;
};

}  // namespace

void found(std::string_view what) {
  std::fprintf(stderr, "found: %.*s\n", static_cast<int>(what.size()),
               what.data());
  std::abort();
}

void check_labels(std::span<const int32_t> labels,
                  int64_t samples,
                  int64_t classes) {
  if (std::ssize(labels) != samples) found("labels are missing");
  for (const int32_t label : labels)
    if (label < 0 || label >= classes) found("a label out of range");
}

void refused_or_not(std::string_view origin, const Error& error) {
  if (error.code() != ExitCode::kBadInput &&
      error.code() != ExitCode::kInputMissing)
    found(std::string("an error that is not the input's: ") + error.what());
  const std::string_view line = error.what();
  if (line.empty() || line.find('\n') != line.npos)
    found("not one line: " + std::string(line));
  if (!line.starts_with(origin))
    found("does not say which file: " + std::string(line));
}

const fs::path& scratch_folder() {
  static const Folder folder;
  return folder.path;
}

fs::path scratch_file(const std::string& name, std::string_view content) {
  const fs::path path = scratch_folder() / name;
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(content.data(), static_cast<std::streamsize>(content.size()));
  file.close();
  if (!file) fail_errno(ExitCode::kIoError, path.string(), "write");
  return path;
}

}  // namespace syncopate::fuzz
