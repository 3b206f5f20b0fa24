// The text of `inspect` for a checkpoint.
#include "base/error.h"
#include "base/hdf5_file.h"
#include "base/text.h"
#include "checkpoint/checkpoint.h"

namespace syncopate {
namespace {

std::string outline(const FoundCheckpoint& found) {
  const CheckpointFacts& facts = found.facts;
  std::string text = fmt::format(
      "checkpoint {}\n  whole: every file has the size and digest of the "
      "manifest\n  step {}, worker_steps {}, workers {}, scheme {}\n",
      found.folder.string(), facts.step, facts.worker_steps, facts.workers,
      facts.scheme);
  for (const auto& [key, value] : facts.extra)
    text += fmt::format("  {} = {}\n", key, value);
  for (const CheckpointFile& file : found.files)
    text += fmt::format("  {}  {} bytes  xxh3-128 {}\n", file.name, file.bytes,
                        file.digest);
  return text;
}

std::string contents(const FoundCheckpoint& found) {
  std::string text;
  for (const CheckpointFile& file : found.files) {
    text += fmt::format("{}\n", file.name);
    const Hdf5Reader reader(found.folder / file.name);
    int64_t elems = 0;
    for (const Hdf5Dataset& dataset : reader.datasets()) {
      text += fmt::format("  {:<48} {}\n", dataset.name, describe(dataset));
      elems += dataset.elems();
    }
    text += fmt::format("  {} values\n", elems);
  }
  text += "input\n";
  for (const auto& [key, value] : found.facts.input)
    text += fmt::format("  {} = {}\n", key, value);
  return text;
}

}  // namespace

std::string describe_checkpoint(const fs::path& folder, Detail detail) {
  try {
    const FoundCheckpoint found = verify_checkpoint(folder);
    return outline(found) + (detail == Detail::kAll ? contents(found) : "");
  } catch (const Error& error) {
    if (error.code() != ExitCode::kBadInput) throw;
    return fmt::format("checkpoint {}\n  damaged: {}\n", folder.string(),
                       error.what());
  }
}

}  // namespace syncopate
