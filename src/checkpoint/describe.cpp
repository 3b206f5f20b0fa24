// The text of `inspect` for a checkpoint.
#include "base/error.h"
#include "base/hdf5_file.h"
#include "base/text.h"
#include "checkpoint/checkpoint.h"

namespace syncopate {

std::string describe_checkpoint(const fs::path& folder) {
  FoundCheckpoint found;
  try {
    found = verify_checkpoint(folder);
  } catch (const Error& error) {
    if (error.code() != ExitCode::kBadInput) throw;
    return fmt::format("checkpoint {}\n  damaged: {}\n", folder.string(),
                       error.what());
  }
  const CheckpointFacts& facts = found.facts;
  std::string text = fmt::format(
      "checkpoint {}\n  whole: every file has the size and digest of the "
      "manifest\n  step {}, worker_steps {}, workers {}, scheme {}\n",
      folder.string(), facts.step, facts.worker_steps, facts.workers,
      facts.scheme);
  for (const auto& [key, value] : facts.extra)
    text += fmt::format("  {} = {}\n", key, value);
  for (const CheckpointFile& file : found.files) {
    text += fmt::format("{}  {} bytes  xxh3-128 {}\n", file.name, file.bytes,
                        file.digest);
    const Hdf5Reader reader(found.folder / file.name);
    int64_t elems = 0;
    for (const Hdf5Dataset& dataset : reader.datasets()) {
      text += fmt::format("  {:<48} {}\n", dataset.name, describe(dataset));
      elems += dataset.elems();
    }
    text += fmt::format("  {} values\n", elems);
  }
  text += "input\n";
  for (const auto& [key, value] : facts.input)
    text += fmt::format("  {} = {}\n", key, value);
  return text;
}

}  // namespace syncopate
