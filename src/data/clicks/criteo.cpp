// Reads folders that prepare_criteo wrote.
#include <algorithm>

#include "base/check.h"
#include "base/text.h"
#include "data/byte_reader.h"
#include "data/clicks/click_readers.h"
#include "data/clicks/criteo_format.h"
#include "data/prepared_files.h"

namespace syncopate {
namespace {

struct SetFiles {
  int64_t samples = 0;
  MappedBlocks records, labels;
};

struct CriteoFolder {
  ClickSpec spec;
  SetFiles train, test;
  std::string vocabulary_digest;
};

ClickSpec read_spec(const PreparedHeader& header) {
  ClickSpec spec;
  spec.rows = header.values<int64_t>("rows", {kClickFields});
  for (const int64_t rows : spec.rows)
    if (rows < 1 || rows > INT32_MAX)
      header.fail_in(fmt::format("a field of {} rows", rows));
  return spec;
}

// Every row has a line in the vocabulary. Without this check a corrupt header
// could make the network allocate arbitrarily large tables.
void check_rows(const PreparedHeader& header,
                const ClickSpec& spec,
                const CriteoFiles& files) {
  constexpr int64_t kLeastLineBytes = 8;  // FIELD, row, value, records
  std::error_code error;
  const auto bytes = fs::file_size(files.vocabulary, error);
  if (error)
    fail(ExitCode::kInputMissing, "{}: {}", files.vocabulary.string(),
         error.message());
  if (spec.total_rows() > static_cast<int64_t>(bytes) / kLeastLineBytes)
    header.fail_in(fmt::format("{} rows, but {} has fewer lines",
                               spec.total_rows(), files.vocabulary.string()));
}

CriteoFolder open_folder(const fs::path& folder) {
  const CriteoFiles files(folder);
  std::error_code ignored;
  if (fs::exists(folder, ignored) && !fs::is_directory(folder, ignored))
    fail(ExitCode::kBadInput,
         "{}: a file, expected a folder that prepare criteo wrote",
         folder.string());
  if (fs::is_directory(folder, ignored) && !fs::exists(files.header, ignored))
    fail(ExitCode::kInputMissing,
         "{}: no {}, expected a folder that prepare criteo wrote",
         folder.string(), CriteoFiles::kNames[0]);
  const PreparedHeader header(files.header, "prepare criteo",
                              CriteoFiles::kKind, CriteoFiles::kVersion);
  if (header.file().int_attribute("/", "block_records") !=
      CriteoFiles::kBlockRecords)
    header.fail_in("another block_records");
  CriteoFolder found;
  found.spec = read_spec(header);
  const auto vocabulary = header.file().text_attribute("/", "vocabulary");
  if (!vocabulary) header.fail_in("no attribute vocabulary");
  found.vocabulary_digest = *vocabulary;
  check_rows(header, found.spec, files);
  const RecordLayout layout(found.spec);
  const bool is_test_set =
      header.file().text_attribute("/", CriteoFiles::kVocabularyOf).has_value();
  for (auto* set : {&found.train, &found.test}) {
    const std::string name = set == &found.train ? "train" : "test";
    if (set == &found.train && is_test_set) continue;
    const auto samples = header.file().int_attribute(name, "samples");
    if (!samples || *samples < 1) header.fail_in("no samples of " + name);
    set->samples = *samples;
    const auto map = [&](const fs::path& path, const std::string& file,
                         int64_t record_bytes) {
      return header.map(path, name + file, set->samples, record_bytes,
                        CriteoFiles::kBlockRecords,
                        fmt::format("records of {}", record_bytes));
    };
    set->records = map(files.records(name), "/records", layout.record_bytes);
    set->labels = map(files.labels(name), "/labels", 1);
  }
  return found;
}

class MappedClicks : public ClickSet {
 public:
  MappedClicks(const ClickSpec& spec, const SetFiles& files)
      : rows_(spec.rows), layout_(spec), files_(files) {}

  int64_t samples() const override { return files_.samples; }
  std::span<const uint8_t> clicked() const override {
    if (files_.samples == 0) return {};
    return files_.labels.file->bytes();
  }
  int64_t memory_bytes() const override { return 0; }

  void read(int64_t sample, std::span<int32_t> rows) const override {
    const uint8_t* at =
        files_.records.file->bytes().data() + sample * layout_.record_bytes;
    for (size_t field = 0; field < rows_.size(); ++field) {
      uint32_t row = at[0];
      const int bytes = layout_.field_bytes[field];
      if (bytes > 1) row |= static_cast<uint32_t>(at[1]) << 8;
      if (bytes > 2) row |= static_cast<uint32_t>(at[2]) << 16;
      if (bytes > 3) row |= static_cast<uint32_t>(at[3]) << 24;
      if (row >= rows_[field]) fail_at(sample, field, row);
      rows[field] = static_cast<int32_t>(row);
      at += bytes;
    }
  }

 private:
  [[noreturn]] void fail_at(int64_t sample, size_t field, uint32_t row) const {
    fail(ExitCode::kBadInput,
         "{}: offset {}: row {} of field {}, expected less than {}",
         files_.records.file->path(),
         sample * layout_.record_bytes + layout_.offsets[field], row,
         click_field_name(static_cast<int64_t>(field)), rows_[field]);
  }

  std::vector<int64_t> rows_;
  RecordLayout layout_;
  SetFiles files_;
};

}  // namespace

ClickData read_criteo(const DataOptions& options) {
  if (options.path.empty())
    fail(ExitCode::kBadInput,
         "data.path: empty, expected the folder that prepare criteo wrote");
  const CriteoFolder folder = open_folder(existing_path(options.path));
  if (folder.train.samples == 0 && !options.trained.is_used)
    fail(ExitCode::kBadInput,
         "{}: has no training records, since prepare criteo --vocabulary wrote "
         "it; only evaluate and predict can use it",
         options.path);
  ClickData data;
  data.vocabulary = folder.vocabulary_digest;
  data.spec = folder.spec;
  data.source = "criteo " + options.path;
  std::string digests = folder.vocabulary_digest;
  for (const SetFiles* set : {&folder.train, &folder.test}) {
    // Samplers and networks do not check labels.
    const auto faults = set->labels.faults();
    if (!faults.empty()) fail(ExitCode::kBadInput, "{}", faults[0]);
    digests += fmt::format("{}", set->samples) +
               join(set->records.digests, "") + join(set->labels.digests, "");
  }
  data.digest = digest_of(digests);
  data.train = std::make_unique<MappedClicks>(folder.spec, folder.train);
  data.test = std::make_unique<MappedClicks>(folder.spec, folder.test);
  return data;
}

std::vector<std::string> check_clicks(const fs::path& folder) {
  std::vector<std::string> faults;
  try {
    const CriteoFolder found = open_folder(folder);
    const CriteoFiles files(folder);
    if (digest_of_file(files.vocabulary) != found.vocabulary_digest)
      faults.push_back(files.vocabulary.string() +
                       ": its digest is not that of the file written");
    for (const SetFiles* set : {&found.train, &found.test})
      for (const MappedBlocks* blocks : {&set->labels, &set->records})
        for (std::string& line : blocks->faults())
          faults.push_back(std::move(line));
  } catch (const Error& error) {
    faults.push_back(error.what());
  }
  return faults;
}

}  // namespace syncopate
