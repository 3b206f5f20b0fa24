// manifest.json: what a checkpoint holds, with a digest of the text itself.
//
//   file    = body without its last "\n}" + ",\n \"digest\": \"HEX\"\n}\n"
//   body    = the other fields as indented JSON, ending in "\n}"
//   HEX     = XXH3-128 of body
//
// so every byte is either under the digest or fixed, and the text is verified
// before it is parsed.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/checkpoint.h"

namespace syncopate {

// What this program writes: 2. It reads 1 as well (convert.h).
inline constexpr int64_t kFormatVersion = 2;
inline constexpr int64_t kOldestFormatVersion = 1;

struct Manifest {
  CheckpointFacts facts;
  std::vector<CheckpointFile> files;
  int64_t format_version = kFormatVersion;  // of what was read
};

// Equal manifests give equal text. Error(kBadInput) if a text in it is not
// UTF-8. Of the version that this program writes.
std::string manifest_text(const Manifest& manifest);

// Error(kBadInput) names `path` and what is wrong: the digest, a field that is
// missing, unknown, of another type or out of range, a file name that is not
// exactly one a checkpoint has.
Manifest parse_manifest(const std::string& text, const std::string& path);

std::string worker_file_name(int worker);  // "worker-0003.h5"
inline constexpr const char* kReplicaFileName = "replica.h5";
inline constexpr const char* kManifestFileName = "manifest.json";

}  // namespace syncopate
