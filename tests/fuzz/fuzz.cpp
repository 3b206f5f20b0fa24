#include "fuzz.h"

#include <cstdio>
#include <fstream>

#include "../support/scratch_folder.h"
#include "base/error.h"

namespace syncopate::fuzz {
namespace {

// Memory where there is any: a fuzzer writes a file per input.
fs::path fastest_folder() {
  const fs::path memory = "/dev/shm";
  return fs::is_directory(memory) ? memory : fs::temp_directory_path();
}

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
  static const ScratchFolder folder(fastest_folder());
  return folder.path();
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

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  syncopate::fuzz::take({reinterpret_cast<const char*>(data), size});
  return 0;
}
