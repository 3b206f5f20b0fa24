#include "checkpoint/manifest.h"

#include <nlohmann/json.hpp>

#include "base/error.h"

namespace syncopate {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kFormat = "syncopate checkpoint";
constexpr int kMaxDepth = 3;  // object > files > file

constexpr std::string_view kBodyEnd = "\n}";
constexpr std::string_view kBeforeDigest = ",\n \"digest\": \"";
constexpr std::string_view kAfterDigest = "\"\n}\n";
constexpr size_t kDigestDigits = 32;

// Returns the body if the digest matches.
std::string verified_body(std::string_view text, const std::string& path) {
  const size_t end_bytes =
      kBeforeDigest.size() + kDigestDigits + kAfterDigest.size();
  if (text.size() < end_bytes || !text.ends_with(kAfterDigest))
    fail(ExitCode::kBadInput, "{}: cut short or damaged", path);
  const std::string_view end = text.substr(text.size() - end_bytes);
  std::string body(text.substr(0, text.size() - end_bytes));
  body += kBodyEnd;
  if (!end.starts_with(kBeforeDigest) ||
      end.substr(kBeforeDigest.size(), kDigestDigits) != digest_of(body))
    fail(ExitCode::kBadInput, "{}: damaged: its digest is not that of its text",
         path);
  return body;
}

Json parse_json(const std::string& body, const std::string& path) {
  const auto limit_depth = [&](int depth, Json::parse_event_t, Json&) {
    if (depth > kMaxDepth)
      fail(ExitCode::kBadInput, "{}: nested deeper than a manifest is", path);
    return true;
  };
  try {
    return Json::parse(body, limit_depth);
  } catch (const Json::exception& error) {
    fail(ExitCode::kBadInput, "{}: {}", path, error.what());
  }
}

// Takes fields out of an object; those left at the end are unknown.
class Fields {
 public:
  Fields(Json json, const std::string& path)
      : json_(std::move(json)), path_(path) {
    if (!json_.is_object())
      fail(ExitCode::kBadInput, "{}: an object expected", path_);
  }

  Json take(const char* name) {
    const auto found = json_.find(name);
    if (found == json_.end())
      fail(ExitCode::kBadInput, "{}: no field '{}'", path_, name);
    Json value = std::move(*found);
    json_.erase(found);
    return value;
  }

  std::string text(const char* name) {
    const Json value = take(name);
    require(value.is_string(), name, "a text");
    return value.get<std::string>();
  }

  int64_t integer(const char* name, int64_t least, int64_t most) {
    const Json value = take(name);
    require(value.is_number_integer(), name, "an integer");
    const bool fits = value.is_number_unsigned()
                          ? value.get<uint64_t>() <= static_cast<uint64_t>(most)
                          : value.get<int64_t>() <= most;
    const std::string expected =
        fmt::format("an integer from {} to {}", least, most);
    require(fits && value.get<int64_t>() >= least, name, expected.c_str());
    return value.get<int64_t>();
  }

  std::map<std::string, std::string> texts(const char* name) {
    const Json value = take(name);
    require(value.is_object(), name, "an object of texts");
    std::map<std::string, std::string> result;
    for (const auto& [key, entry] : value.items()) {
      require(entry.is_string(), name, "an object of texts");
      result[key] = entry.get<std::string>();
    }
    return result;
  }

  void finish() const {
    if (!json_.empty())
      fail(ExitCode::kBadInput, "{}: unknown field '{}'", path_,
           json_.begin().key());
  }

  void require(bool ok, const char* name, const char* expected) const {
    if (!ok)
      fail(ExitCode::kBadInput, "{}: field '{}': {} expected", path_, name,
           expected);
  }

 private:
  Json json_;
  const std::string& path_;
};

constexpr int64_t kMaxSteps = int64_t{1} << 53;  // exact in a double
constexpr int64_t kMaxWorkers = 1 << 20;
constexpr int64_t kMaxBytes = int64_t{1} << 56;

bool is_digest(std::string_view text) {
  return text.size() == kDigestDigits &&
         text.find_first_not_of("0123456789abcdef") == text.npos;
}

// Requires the canonical names: replica first, then workers in order.
void check_names(const Manifest& manifest, const std::string& path) {
  int next_worker = 0;
  for (size_t i = 0; i < manifest.files.size(); ++i) {
    const std::string& name = manifest.files[i].name;
    bool ok = i == 0 ? name == kReplicaFileName : false;
    while (i > 0 && !ok && next_worker < manifest.facts.workers)
      ok = name == worker_file_name(next_worker++);
    if (!ok)
      fail(ExitCode::kBadInput, "{}: file name '{}' is not one expected here",
           path, name);
  }
  if (manifest.files.empty())
    fail(ExitCode::kBadInput, "{}: no {}", path, kReplicaFileName);
}

}  // namespace

std::string worker_file_name(int worker) {
  return fmt::format("worker-{:04d}.h5", worker);
}

std::string manifest_text(const Manifest& manifest) {
  Json json;
  json["format"] = kFormat;
  json["format_version"] = kFormatVersion;
  json["step"] = manifest.facts.step;
  json["worker_steps"] = manifest.facts.worker_steps;
  json["workers"] = manifest.facts.workers;
  json["scheme"] = manifest.facts.scheme;
  json["input"] = manifest.facts.input;
  json["extra"] = manifest.facts.extra;
  json["files"] = Json::array();
  for (const CheckpointFile& file : manifest.files)
    json["files"].push_back(
        {{"name", file.name}, {"size", file.bytes}, {"xxh3", file.digest}});
  std::string body;
  try {
    body = json.dump(1);
  } catch (const Json::exception&) {
    fail(ExitCode::kBadInput,
         "a value of the input is not UTF-8 and cannot be kept in {}",
         kManifestFileName);
  }
  const std::string digest = digest_of(body);
  body.resize(body.size() - kBodyEnd.size());
  body.append(kBeforeDigest).append(digest).append(kAfterDigest);
  return body;
}

Manifest parse_manifest(const std::string& text, const std::string& path) {
  Fields fields(parse_json(verified_body(text, path), path), path);
  if (fields.text("format") != kFormat)
    fail(ExitCode::kBadInput, "{}: not a manifest of a checkpoint", path);
  const int64_t version =
      fields.integer("format_version", kOldestFormatVersion, 1 << 20);
  if (version > kFormatVersion)  // not damaged, so nothing may remove it
    fail(ExitCode::kInputMissing,
         "{}: format version {} of a newer program; this one reads up to {}",
         path, version, kFormatVersion);
  Manifest manifest;
  manifest.format_version = version;
  CheckpointFacts& facts = manifest.facts;
  facts.step = fields.integer("step", 0, kMaxSteps);
  facts.worker_steps = fields.integer("worker_steps", 0, kMaxSteps);
  facts.workers = static_cast<int>(fields.integer("workers", 1, kMaxWorkers));
  facts.scheme = fields.text("scheme");
  facts.input = fields.texts("input");
  facts.extra = fields.texts("extra");
  const Json files = fields.take("files");
  fields.require(files.is_array(), "files", "a list");
  for (const Json& entry : files) {
    Fields file(entry, path);
    manifest.files.push_back({file.text("name"),
                              file.integer("size", 0, kMaxBytes),
                              file.text("xxh3")});
    file.require(is_digest(manifest.files.back().digest), "xxh3",
                 "32 hexadecimal digits");
    file.finish();
  }
  fields.finish();
  check_names(manifest, path);
  return manifest;
}

}  // namespace syncopate
