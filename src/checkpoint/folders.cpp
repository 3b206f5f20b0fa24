#include "checkpoint/folders.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "checkpoint/manifest.h"

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

Manifest read_manifest(const fs::path& plain) {
  std::error_code error;
  if (!fs::is_directory(plain, error))
    fail(ExitCode::kInputMissing, "{}: no such checkpoint folder",
         plain.string());
  const fs::path path = plain / kManifestFileName;
  const fs::file_status status = fs::symlink_status(path, error);
  if (status.type() == fs::file_type::none)
    fail(ExitCode::kIoError, "{}: {}", path.string(), error.message());
  if (!fs::is_regular_file(status))
    fail(ExitCode::kBadInput, "{}: missing: not a whole checkpoint",
         path.string());
  constexpr int64_t kMaxManifestBytes = int64_t{64} << 20;
  Manifest manifest =
      parse_manifest(read_file(path, kMaxManifestBytes), path.string());
  const std::optional<int64_t> named = step_of_folder(plain);
  if (named && *named != manifest.facts.step)
    fail(ExitCode::kBadInput,
         "{}: the manifest of step {}, in the folder of another step",
         path.string(), manifest.facts.step);
  return manifest;
}

namespace {

struct Committed {
  fs::path folder;
  int64_t step;
  int64_t worker_steps;
};

// Newest first. A run may have gone on with another number of workers, so what
// orders checkpoints is their worker_steps. Where the manifest is damaged, they
// are estimated with the most workers of any other: such a folder is passed by
// when it is verified.
std::vector<Committed> committed(const fs::path& directory) {
  constexpr int64_t kUnknown = -1;
  std::vector<Committed> found;
  int64_t most_workers = 1;
  for (const fs::path& entry : entries_of(directory)) {
    const std::optional<int64_t> step = step_of_folder(entry);
    if (!step) continue;
    found.push_back({entry, *step, kUnknown});
    try {
      const CheckpointFacts facts = read_manifest(entry).facts;
      found.back().worker_steps = facts.worker_steps;
      most_workers = std::max<int64_t>(most_workers, facts.workers);
    } catch (const Error&) {
    }
  }
  for (Committed& one : found)
    if (one.worker_steps == kUnknown)
      one.worker_steps = one.step * most_workers;
  std::ranges::sort(found, {}, [](const Committed& one) {
    return std::tuple(-one.worker_steps, -one.step, is_replaced(one.folder));
  });
  return found;
}

}  // namespace

std::vector<fs::path> committed_folders(const fs::path& directory) {
  std::vector<fs::path> folders;
  for (Committed& one : committed(directory))
    folders.push_back(std::move(one.folder));
  return folders;
}

void prune_folders(const fs::path& directory,
                   int64_t newest_worker_steps,
                   int64_t keep) {
  std::error_code ignored;
  for (const fs::path& entry : entries_of(directory)) {
    if (!is_replaced(entry)) continue;
    const fs::path name = directory / entry.stem();
    if (!fs::exists(name, ignored)) rename_durably(entry, name);
  }
  for (const fs::path& entry : entries_of(directory))
    if (is_temporary(entry.filename().string())) fs::remove_all(entry, ignored);
  int64_t kept = 0;
  for (const Committed& one : committed(directory)) {
    const bool is_current = !is_replaced(one.folder) &&
                            one.worker_steps <= newest_worker_steps &&
                            kept < std::max<int64_t>(keep, 1);
    if (is_current)
      ++kept;
    else
      remove_folder(one.folder);
  }
}

}  // namespace syncopate
