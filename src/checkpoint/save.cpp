// Writing a checkpoint: three agreements, and a rename that commits it.
#include <map>
#include <optional>

#include "base/check.h"
#include "base/hdf5_file.h"
#include "base/text.h"
#include "checkpoint/agreement.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/folders.h"
#include "checkpoint/manifest.h"
#include "watch/activity.h"

namespace syncopate {
namespace {

// Writes shared state (rank 0 only) and this worker's own.
class SavingVisitor : public StateVisitor {
 public:
  SavingVisitor(const fs::path& folder, int rank)
      : folder_(folder), rank_(rank) {
    if (rank == 0) open(kReplicaFileName);
  }

  void visit(Owner owner, std::string_view name, Values values) override {
    std::visit([&](auto span) { write(owner, name, span); }, values);
  }
  // A whole tensor has its shape; a partial one, the place of its elements.
  void visit_piece(Owner owner,
                   std::string_view name,
                   const Piece& piece,
                   std::span<float> v) override {
    Hdf5Writer* writer = writer_for(owner);
    if (writer == nullptr) return;
    const bool is_whole = std::ssize(v) == piece.shape.elems();
    std::vector<int64_t> dims;
    for (int axis = 0; is_whole && axis < piece.shape.rank(); ++axis)
      dims.push_back(piece.shape[axis]);
    if (!is_whole) dims = {std::ssize(v)};
    writer->write(std::string(name), dims, std::span<const float>(v));
    activity().progress();
    if (is_whole) return;
    writer->attribute(std::string(name), "first", piece.first);
    writer->attribute(std::string(name), "of", piece.shape.text());
  }

  // Closes and flushes all files; returns those that this worker wrote.
  std::vector<CheckpointFile> finish() {
    std::vector<CheckpointFile> files;
    for (auto& [name, writer] : writers_) {
      writer.close();
      const fs::path path = folder_ / name;
      fsync_path(path);
      activity().progress();
      files.push_back({name, static_cast<int64_t>(fs::file_size(path)),
                       digest_of_file(path)});
      activity().progress();
    }
    return files;
  }

 private:
  Hdf5Writer& open(const std::string& name) {
    const auto [place, is_new] = writers_.try_emplace(name, folder_ / name);
    if (is_new) {
      place->second.attribute("/", "format", std::string("syncopate state"));
      place->second.attribute("/", "format_version", kFormatVersion);
    }
    return place->second;
  }

  // Returns null if rank 0 writes it.
  Hdf5Writer* writer_for(Owner owner) {
    if (owner == Owner::kWorker) return &open(worker_file_name(rank_));
    return rank_ == 0 ? &open(kReplicaFileName) : nullptr;
  }

  template <typename T>
  void write(Owner owner, std::string_view name, std::span<T> values) {
    CHECK(!name.empty() && name.front() != '/');
    Hdf5Writer* writer = writer_for(owner);
    const int64_t dims[] = {std::ssize(values)};
    if (writer == nullptr) return;
    writer->write(std::string(name), dims, std::span<const T>(values));
    activity().progress();
  }

  fs::path folder_;
  int rank_;
  std::map<std::string, Hdf5Writer> writers_;  // replica before worker
};

void make_temporary(const fs::path& directory, const fs::path& temporary) {
  syncopate::create_directories(directory);
  std::error_code error;
  fs::remove_all(temporary, error);
  if (!error) fs::create_directory(temporary, error);
  if (error)
    fail(ExitCode::kCannotCreate, "{}: create directory: {}",
         temporary.string(), error.message());
}

// One line per file: "NAME BYTES DIGEST".
std::string encode(const std::vector<CheckpointFile>& files) {
  std::string text;
  for (const CheckpointFile& file : files)
    text += fmt::format("{} {} {}\n", file.name, file.bytes, file.digest);
  return text;
}

void decode(const std::string& text, std::vector<CheckpointFile>& files) {
  for (const std::string& line : split(text, '\n')) {
    if (line.empty()) continue;
    const std::vector<std::string> words = split(line, ' ');
    CHECK(words.size() == 3);
    const std::optional<int64_t> bytes = parse_int(words[1]);
    CHECK(bytes);
    files.push_back({words[0], *bytes, words[2]});
  }
}

void commit(const fs::path& temporary,
            const fs::path& folder,
            const Manifest& manifest) {
  write_file_atomically(temporary / kManifestFileName, manifest_text(manifest));
  std::error_code error;
  if (fs::exists(folder, error)) {
    fs::path aside = folder;
    aside += kReplaced;
    fs::remove_all(aside, error);  // left over after a kill; `folder` is newer
    rename_durably(folder, aside);
  }
  rename_durably(temporary, folder);
}

}  // namespace

fs::path save_checkpoint(Endpoint& endpoint,
                         const fs::path& directory,
                         const CheckpointFacts& facts,
                         const StateVisit& visit,
                         int64_t keep) {
  const bool is_root = endpoint.rank() == 0;
  const fs::path folder = directory / folder_name(facts.step);
  fs::path temporary = folder;
  temporary += kTemporary;

  Outcome outcome;
  if (is_root) outcome = attempt([&] { make_temporary(directory, temporary); });
  share_outcome(endpoint, outcome).rethrow_if_failed();

  std::vector<CheckpointFile> mine;
  outcome = attempt([&] {
    SavingVisitor visitor(temporary, endpoint.rank());
    visit(visitor);
    mine = visitor.finish();
  });
  outcome = agree_on_outcome(endpoint, outcome);
  if (outcome.ok()) {
    Manifest manifest{facts, {}};
    for (const std::string& text : gather_texts(endpoint, encode(mine)))
      decode(text, manifest.files);
    if (is_root)
      outcome = attempt([&] { commit(temporary, folder, manifest); });
    outcome = share_outcome(endpoint, outcome);
  }
  if (is_root) {
    std::error_code ignored;
    if (outcome.ok())
      attempt([&] { prune_folders(directory, facts.worker_steps, keep); });
    else
      fs::remove_all(temporary, ignored);
  }
  outcome.rethrow_if_failed();
  return folder;
}

}  // namespace syncopate
