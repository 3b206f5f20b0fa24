// Checkpoints. An input that begins with B is, behind it, the body of a
// manifest, which gets the digest that it needs to be read at all; one that
// begins with R is the file replica.h5 of a checkpoint whose manifest is right;
// any other is a manifest as it is.
#include "checkpoint/manifest.h"
#include "fuzz.h"

namespace syncopate {
namespace {

constexpr std::string_view kReplica = "R: values of a replica";

// As manifest.h describes it.
std::string with_digest(std::string body) {
  while (body.ends_with('\n') || body.ends_with('}')) body.pop_back();
  const std::string digest = digest_of(body + "\n}");
  return body + ",\n \"digest\": \"" + digest + "\"\n}\n";
}

void read_manifest(const std::string& text, const std::string& path) {
  const Manifest manifest = parse_manifest(text, path);
  const std::string written = manifest_text(manifest);
  if (manifest_text(parse_manifest(written, path)) != written)
    fuzz::found("written and read again it is something else");
  // Every byte is under the digest, or fixed.
  std::string changed = text;
  char& byte = changed[text.size() * 7 / 11];
  byte = static_cast<char>(byte ^ 1);
  try {
    parse_manifest(changed, path);
  } catch (const Error&) {
    return;
  }
  fuzz::found("a changed byte is not seen");
}

void read_checkpoint(std::string_view replica) {
  const fs::path folder = fuzz::scratch_folder() / "step-00000001";
  fs::create_directories(folder);
  Manifest manifest;
  manifest.facts.step = manifest.facts.worker_steps = 1;
  manifest.files = {
      {kReplicaFileName, std::ssize(kReplica), digest_of(kReplica)}};
  fuzz::scratch_file(folder / kManifestFileName, manifest_text(manifest));
  fuzz::scratch_file(folder / kReplicaFileName, replica);
  verify_checkpoint(folder);
  if (replica != kReplica) fuzz::found("a damaged file passes");
}

}  // namespace
}  // namespace syncopate

void syncopate::fuzz::take(std::string_view input) {
  const std::string path = scratch_folder().string();
  accept_or_refuse(path, [&] {
    if (input.starts_with('R'))
      read_checkpoint(input);
    else
      read_manifest(input.starts_with('B')
                        ? with_digest(std::string(input.substr(1)))
                        : std::string(input),
                    path);
  });
}
