// Reading checkpoints: only verified files are opened.
#include <memory>
#include <optional>

#include "base/check.h"
#include "base/error.h"
#include "base/text.h"
#include "checkpoint/agreement.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/folders.h"
#include "checkpoint/manifest.h"
#include "checkpoint/state_file.h"
#include "watch/activity.h"

namespace syncopate {
namespace {

constexpr int kAllWorkers = -1;

void verify_file(const fs::path& path, const CheckpointFile& file) {
  std::error_code error;
  const fs::file_status status = fs::symlink_status(path, error);
  if (status.type() == fs::file_type::not_found)
    fail(ExitCode::kBadInput, "{}: missing", path.string());
  if (status.type() == fs::file_type::none)
    fail(ExitCode::kIoError, "{}: {}", path.string(), error.message());
  if (status.type() != fs::file_type::regular)
    fail(ExitCode::kBadInput, "{}: not a regular file", path.string());
  const int64_t bytes = static_cast<int64_t>(fs::file_size(path, error));
  if (error) fail(ExitCode::kIoError, "{}: {}", path.string(), error.message());
  if (bytes != file.bytes)
    fail(ExitCode::kBadInput, "{}: {} bytes, {} in the manifest", path.string(),
         bytes, file.bytes);
  if (digest_of_file(path) != file.digest)
    fail(ExitCode::kBadInput, "{}: damaged: its digest is not the manifest's",
         path.string());
  activity().progress();
}

// Throws if a file of a checkpoint could not be read. An unreadable file need
// not be damaged, and a run that continued from an earlier checkpoint would
// delete it at its next commit.
void require_damage(const fs::path& folder, const Outcome& outcome) {
  std::error_code ignored;
  if (outcome.code != ExitCode::kBadInput && fs::exists(folder, ignored))
    outcome.rethrow_if_failed();
}

fs::path without_end_slash(const fs::path& folder) {  // "step-1/"
  return folder.has_filename() ? folder : folder.parent_path();
}

// Verifies the manifest and the files that `worker` reads (or all of them).
FoundCheckpoint verify_for(const fs::path& folder, int worker) {
  const fs::path plain = without_end_slash(folder);
  Manifest manifest = read_manifest(plain);
  for (const CheckpointFile& file : manifest.files)
    if (worker == kAllWorkers || file.name == kReplicaFileName ||
        file.name == worker_file_name(worker))
      verify_file(plain / file.name, file);
  return {plain,
          std::move(manifest.facts),
          std::move(manifest.files),
          {},
          manifest.format_version};
}

std::string warning_of(const std::string& reason) {
  return "skipped a damaged checkpoint: " + reason;
}

[[noreturn]] void fail_all_damaged(const fs::path& directory,
                                   const std::vector<std::string>& warnings) {
  fail(ExitCode::kBadInput, "{}: none of {} is intact; {}", directory.string(),
       counted(std::ssize(warnings), "checkpoint"), warnings.front());
}

class LoadingVisitor : public StateVisitor {
 public:
  // `own` is null if `worker` stored nothing.
  LoadingVisitor(StateFile& shared,
                 StateFile* own,
                 const FoundCheckpoint& found,
                 int worker)
      : shared_(shared), own_(own), found_(found), worker_(worker) {}

  void visit(Owner owner, std::string_view name, Values values) override {
    std::visit([&](auto v) { read(owner, name, {std::ssize(v)}, v); }, values);
  }
  void visit_piece(Owner owner,
                   std::string_view name,
                   const Piece& piece,
                   std::span<float> v) override {
    Dims dims;
    for (int axis = 0; axis < piece.shape.rank(); ++axis)
      dims.push_back(piece.shape[axis]);
    if (std::ssize(v) != piece.shape.elems()) dims = {std::ssize(v)};
    read(owner, name, std::move(dims), v);
  }
  void visit_slice(Owner owner,
                   std::string_view name,
                   const ParameterTable& table,
                   int64_t begin,
                   std::span<float> slice) override {
    StateFile* const file = owner == Owner::kShared ? &shared_ : own_;
    if (file == nullptr || !file->take_flat(std::string(name), slice))
      StateVisitor::visit_slice(owner, name, table, begin, slice);
  }

 private:
  template <typename T>
  void read(Owner owner,
            std::string_view name_text,
            Dims dims,
            std::span<T> values) {
    const std::string name(name_text);
    StateFile* const file = owner == Owner::kShared ? &shared_ : own_;
    if (file == nullptr)
      fail(ExitCode::kBadInput,
           "{}: no {} for the state '{}' (it was saved by {} workers)",
           found_.folder.string(), worker_file_name(worker_), name,
           found_.facts.workers);
    if (!file->has(name) && file->is_younger(name)) return;
    file->take(name, std::move(dims), values);
  }

  StateFile& shared_;
  StateFile* own_;
  const FoundCheckpoint& found_;
  int worker_;
};

struct Search {
  std::optional<FoundCheckpoint> found;  // the newest intact one
  std::vector<std::string> warnings;     // of those before it
  bool has_vanished = false;             // one of these
};

Search search(const fs::path& directory) {
  Search result;
  for (const fs::path& folder : committed_folders(directory)) {
    const Outcome outcome =
        attempt([&] { result.found = verify_for(folder, kAllWorkers); });
    if (outcome.ok()) break;
    require_damage(folder, outcome);
    result.warnings.push_back(warning_of(outcome.line));
    result.has_vanished = result.has_vanished || !fs::exists(folder);
  }
  return result;
}

}  // namespace

std::vector<fs::path> checkpoint_folders(const fs::path& directory) {
  return committed_folders(directory);
}

CheckpointFacts read_checkpoint_facts(const fs::path& folder) {
  return read_manifest(without_end_slash(folder)).facts;
}

FoundCheckpoint verify_checkpoint(const fs::path& folder) {
  return verify_for(folder, kAllWorkers);
}

std::optional<FoundCheckpoint> find_newest_checkpoint(
    const fs::path& directory) {
  constexpr int kMostTries = 4;
  Search result = search(directory);
  // The run that writes them may have removed one that was being read.
  for (int tries = 1; result.has_vanished && tries < kMostTries; ++tries)
    result = search(directory);
  if (result.found)
    result.found->warnings = std::move(result.warnings);
  else if (!result.warnings.empty())
    fail_all_damaged(directory, result.warnings);
  return std::move(result.found);
}

std::optional<FoundCheckpoint> agree_on_checkpoint(
    Endpoint& endpoint,
    const fs::path& directory,
    const std::optional<fs::path>& exact) {
  const bool is_root = endpoint.rank() == 0;
  std::vector<fs::path> folders;
  Outcome outcome;
  if (is_root && exact) folders.push_back(*exact);
  if (is_root && !exact)
    outcome = attempt([&] { folders = committed_folders(directory); });
  share_outcome(endpoint, outcome).rethrow_if_failed();
  std::vector<std::string> warnings;
  for (size_t i = 0;; ++i) {
    // Ranks may reach `directory` by different paths.
    std::string name;
    if (is_root && i < folders.size())
      name = exact ? folders[i].string() : folders[i].filename().string();
    name = share_text(endpoint, name);
    if (name.empty()) break;
    const fs::path folder = exact ? fs::path(name) : directory / name;
    FoundCheckpoint found;
    // Rank 0 reads all files, including those of workers that this run lacks.
    outcome = attempt([&] {
      found = verify_for(folder, is_root ? kAllWorkers : endpoint.rank());
    });
    outcome = agree_on_outcome(endpoint, outcome);
    if (outcome.ok()) {
      found.warnings = std::move(warnings);
      return found;
    }
    if (exact || outcome.code != ExitCode::kBadInput)
      outcome.rethrow_if_failed();
    warnings.push_back(warning_of(outcome.line));
  }
  if (!warnings.empty()) fail_all_damaged(directory, warnings);
  return std::nullopt;
}

// Opens what `worker` stored for itself; null if that is nothing.
static std::unique_ptr<StateFile> own_file(const FoundCheckpoint& found,
                                           int worker) {
  for (const CheckpointFile& file : found.files)
    if (file.name == worker_file_name(worker))
      return StateFile::open(found, file.name);
  return nullptr;
}

bool has_state(const FoundCheckpoint& found,
               Owner owner,
               int worker,
               const std::string& name) {
  const std::unique_ptr<StateFile> file =
      owner == Owner::kShared ? StateFile::open(found, kReplicaFileName)
                              : own_file(found, worker);
  return file && file->has(name);
}

ParameterTable stored_tensors(const FoundCheckpoint& found,
                              Owner owner,
                              int worker,
                              const std::string& range) {
  const auto file = owner == Owner::kShared
                        ? StateFile::open(found, kReplicaFileName)
                        : own_file(found, worker);
  ParameterTable table;
  if (!file) return table;
  for (const Hdf5Dataset& tensor : file->tensors_of(range))
    table.add(tensor.name.substr(range.size() + 1), Shape(tensor.dims),
              Role::kWeight);
  return table;
}

void load_checkpoint(const FoundCheckpoint& found,
                     int worker,
                     const StateVisit& visit,
                     LeftOver left_over) {
  const auto shared = StateFile::open(found, kReplicaFileName);
  const std::unique_ptr<StateFile> own = own_file(found, worker);
  LoadingVisitor visitor(*shared, own.get(), found, worker);
  visit(visitor);
  if (left_over == LeftOver::kIgnored) return;
  shared->require_all_taken();
  if (own) own->require_all_taken();
}

}  // namespace syncopate
