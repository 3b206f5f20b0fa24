// Reads folders that prepare_criteo wrote.
#include <algorithm>

#include "base/check.h"
#include "base/hdf5_file.h"
#include "data/clicks/click_readers.h"
#include "data/clicks/criteo_format.h"
#include "data/images/prepared_files.h"

namespace syncopate {
namespace {

[[noreturn]] void fail_in(const fs::path& path, const std::string& what) {
  fail(ExitCode::kBadInput, "{}: {}, expected what prepare criteo writes",
       path.string(), what);
}

// One mapped file and the digests of its blocks.
struct MappedBlocks {
  std::shared_ptr<const MappedFile> file;
  int64_t block_bytes = 0;
  std::string digests;

  // One line for each block whose digest does not match.
  std::vector<std::string> faults() const {
    std::vector<std::string> lines;
    for (int64_t block = 0; block * kDigestLetters < std::ssize(digests);
         ++block) {
      const int64_t from = block * block_bytes;
      const int64_t bytes =
          std::min(block_bytes, std::ssize(file->bytes()) - from);
      file->will_need(from, bytes);
      const auto* data =
          reinterpret_cast<const char*>(file->bytes().data()) + from;
      if (digest_of({data, static_cast<size_t>(bytes)}) !=
          std::string_view(digests).substr(
              static_cast<size_t>(block * kDigestLetters), kDigestLetters))
        lines.push_back(fmt::format(
            "{}: offset {}: {} bytes are not those that were written",
            file->path(), from, bytes));
    }
    return lines;
  }
};

struct SetFiles {
  int64_t samples = 0;
  MappedBlocks records, labels;
};

struct CriteoFolder {
  ClickSpec spec;
  SetFiles train, test;
  std::string vocabulary_digest;
};

class HeaderReader {
 public:
  explicit HeaderReader(const fs::path& path) : path_(path), file_(path) {
    if (file_.text_attribute("/", "kind") != CriteoFiles::kKind)
      fail_in(path, "something else");
    if (file_.int_attribute("/", "version") != CriteoFiles::kVersion)
      fail_in(path, "another version");
    if (file_.int_attribute("/", "block_records") != CriteoFiles::kBlockRecords)
      fail_in(path, "another block_records");
  }

  ClickSpec spec() const {
    ClickSpec spec;
    spec.rows = values<int64_t>("rows", {kClickFields});
    for (const int64_t rows : spec.rows)
      if (rows < 1 || rows > INT32_MAX)
        fail_in(path_, fmt::format("a field of {} rows", rows));
    return spec;
  }
  std::string vocabulary_digest() const {
    const auto digest = file_.text_attribute("/", "vocabulary");
    if (!digest) fail_in(path_, "no attribute vocabulary");
    return *digest;
  }
  int64_t samples(const std::string& set) const {
    const auto found = file_.int_attribute(set, "samples");
    if (!found || *found < 1) fail_in(path_, "no samples of " + set);
    return *found;
  }
  std::string digests(const std::string& name, int64_t blocks) const {
    const auto bytes = values<uint8_t>(name, {blocks, kDigestLetters});
    return {bytes.begin(), bytes.end()};
  }

 private:
  template <typename T>
  std::vector<T> values(const std::string& name,
                        const std::vector<int64_t>& dims) const {
    if (!file_.has(name)) fail_in(path_, "no dataset " + name);
    const Hdf5Dataset found = file_.dataset(name);
    if (found.type != element_type_of<T>() || found.dims != dims)
      fail_in(path_, name + ": " + describe(found));
    std::vector<T> result(static_cast<size_t>(found.elems()));
    file_.read<T>(name, result);
    return result;
  }

  fs::path path_;
  Hdf5Reader file_;
};

MappedBlocks map_blocks(const HeaderReader& header,
                        const fs::path& path,
                        const std::string& name,
                        int64_t samples,
                        int64_t record_bytes) {
  MappedBlocks blocks;
  blocks.block_bytes = CriteoFiles::kBlockRecords * record_bytes;
  blocks.digests =
      header.digests(name, (samples - 1) / CriteoFiles::kBlockRecords + 1);
  blocks.file = std::make_shared<MappedFile>(path);
  const int64_t bytes = std::ssize(blocks.file->bytes());
  if (bytes / record_bytes != samples || bytes % record_bytes != 0)
    fail(ExitCode::kBadInput, "{}: {} bytes, expected {} records of {}",
         path.string(), bytes, samples, record_bytes);
  return blocks;
}

// Every row has a line in the vocabulary. Without this check a corrupt header
// could make the network allocate arbitrarily large tables.
void check_rows(const ClickSpec& spec, const CriteoFiles& files) {
  constexpr int64_t kLeastLineBytes = 8;  // FIELD, row, value, records
  std::error_code error;
  const auto bytes = fs::file_size(files.vocabulary, error);
  if (error)
    fail(ExitCode::kInputMissing, "{}: {}", files.vocabulary.string(),
         error.message());
  if (spec.total_rows() > static_cast<int64_t>(bytes) / kLeastLineBytes)
    fail_in(files.header,
            fmt::format("{} rows, more than {} has lines", spec.total_rows(),
                        files.vocabulary.string()));
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
  check_seal(files.header);
  const HeaderReader header(files.header);
  CriteoFolder found;
  found.spec = header.spec();
  found.vocabulary_digest = header.vocabulary_digest();
  check_rows(found.spec, files);
  const RecordLayout layout(found.spec);
  for (const auto& [name, set] :
       {std::pair("train", &found.train), std::pair("test", &found.test)}) {
    set->samples = header.samples(name);
    set->records =
        map_blocks(header, files.records(name), fmt::format("{}/records", name),
                   set->samples, layout.record_bytes);
    set->labels = map_blocks(header, files.labels(name),
                             fmt::format("{}/labels", name), set->samples, 1);
  }
  return found;
}

class MappedClicks : public ClickSet {
 public:
  MappedClicks(const ClickSpec& spec, const SetFiles& files)
      : rows_(spec.rows), layout_(spec), files_(files) {}

  int64_t samples() const override { return files_.samples; }
  std::span<const uint8_t> clicked() const override {
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
  const CriteoFolder folder = open_folder(options.path);
  ClickData data;
  data.spec = folder.spec;
  data.source = "criteo " + options.path;
  std::string digests = folder.vocabulary_digest;
  for (const SetFiles* set : {&folder.train, &folder.test}) {
    // Samplers and networks do not check labels.
    const auto faults = set->labels.faults();
    if (!faults.empty()) fail(ExitCode::kBadInput, "{}", faults[0]);
    digests += fmt::format("{}", set->samples) + set->records.digests +
               set->labels.digests;
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
      faults.push_back(files.vocabulary.string() + ": not what was written");
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
