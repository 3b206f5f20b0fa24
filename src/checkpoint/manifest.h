// manifest.json: the contents of a checkpoint, with a digest of its own text.
//
//   file    = body without its last "\n}" + ",\n \"digest\": \"HEX\"\n}\n"
//   body    = the other fields as indented JSON, ending in "\n}"
//   HEX     = XXH3-128 of body
//
// Every byte is thus either covered by the digest or fixed, and the text is
// verified before it is parsed.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/checkpoint.h"

namespace syncopate {

// This program writes version 2 and also reads 1 (convert.h).
inline constexpr int64_t kFormatVersion = 2;
inline constexpr int64_t kOldestFormatVersion = 1;

struct Manifest {
  CheckpointFacts facts;
  std::vector<CheckpointFile> files;
  int64_t format_version = kFormatVersion;  // the version that was read
};

// Returns text in the version that this program writes; equal manifests give
// equal text. Error(kBadInput) if a string is not UTF-8.
std::string manifest_text(const Manifest& manifest);

// Error(kBadInput) names `path` and the problem: the digest, a field that is
// missing, unknown, of another type or out of range, or a file name that a
// checkpoint does not have. Error(kInputMissing): a newer program wrote it.
Manifest parse_manifest(const std::string& text, const std::string& path);

std::string worker_file_name(int worker);  // "worker-0003.h5"
inline constexpr const char* kReplicaFileName = "replica.h5";
inline constexpr const char* kManifestFileName = "manifest.json";

}  // namespace syncopate
