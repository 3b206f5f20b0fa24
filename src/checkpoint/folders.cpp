#include "checkpoint/folders.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/text.h"

namespace syncopate {
namespace {

constexpr std::string_view kPrefix = "step-";

bool is_temporary(const std::string& name) {
  return name.starts_with(kPrefix) && name.ends_with(kTemporary);
}

bool is_replaced(const fs::path& folder) {
  return folder.extension() == kReplaced;
}

std::vector<fs::path> entries_of(const fs::path& directory) {
  std::vector<fs::path> entries;
  std::error_code error;
  fs::directory_iterator iterator(directory, error);
  for (; !error && iterator != fs::directory_iterator();
       iterator.increment(error))
    entries.push_back(iterator->path());
  // A file in the way holds no checkpoints; a writer will report the problem.
  if (error && error != std::errc::no_such_file_or_directory &&
      error != std::errc::not_a_directory)
    fail(ExitCode::kIoError, "{}: list: {}", directory.string(),
         error.message());
  return entries;
}

void remove_folder(const fs::path& folder) {
  std::error_code ignored;
  fs::path temporary = folder;
  temporary += kTemporary;
  fs::rename(folder, temporary, ignored);
  if (!ignored) fs::remove_all(temporary, ignored);
}

}  // namespace

std::string folder_name(int64_t step) {
  return fmt::format("{}{:08d}", kPrefix, step);
}

std::optional<int64_t> step_of_folder(const fs::path& folder) {
  std::string name = folder.filename().string();
  if (name.ends_with(kReplaced)) name = folder.stem().string();
  if (!name.starts_with(kPrefix)) return std::nullopt;
  const std::optional<int64_t> step =
      parse_int(std::string_view(name).substr(kPrefix.size()));
  if (!step || *step < 0 || folder_name(*step) != name) return std::nullopt;
  return step;
}

std::vector<fs::path> committed_folders(const fs::path& directory) {
  std::vector<std::pair<int64_t, fs::path>> found;
  for (const fs::path& entry : entries_of(directory))
    if (const std::optional<int64_t> step = step_of_folder(entry))
      found.emplace_back(*step, entry);
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) {
    if (a.first != b.first) return a.first > b.first;
    return is_replaced(a.second) < is_replaced(b.second);
  });
  std::vector<fs::path> folders;
  for (auto& [step, folder] : found) folders.push_back(std::move(folder));
  return folders;
}

void prune_folders(const fs::path& directory, int64_t newest, int keep) {
  std::error_code ignored;
  for (const fs::path& entry : entries_of(directory))
    if (is_temporary(entry.filename().string())) fs::remove_all(entry, ignored);
  int kept = 0;
  for (const fs::path& folder : committed_folders(directory)) {
    const bool is_current = !is_replaced(folder) &&
                            *step_of_folder(folder) <= newest &&
                            kept < std::max(keep, 2);
    if (is_current)
      ++kept;
    else
      remove_folder(folder);
  }
}

}  // namespace syncopate
