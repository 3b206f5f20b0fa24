#include <algorithm>

#include "base/check.h"
#include "base/rng.h"
#include "base/text.h"
#include "data/clicks/click_set.h"
#include "data/clicks/click_vocabulary.h"
#include "data/clicks/criteo_format.h"
#include "data/clicks/criteo_tsv.h"
#include "data/clicks/line_blocks.h"
#include "data/prepared_files.h"
#include "data/thread_pool.h"

namespace syncopate {
namespace {

constexpr int64_t kChunkBytes = 1 << 19;  // of text; fits a cache when parsed
constexpr int64_t kChunksPerThread = 4;   // in a block, to balance the load
constexpr uint64_t kTestStream = 1;       // in Rng(seed, kPartition, record)

// Consecutive records, with those for testing marked.
struct Chunk {
  ClickLines lines;
  int64_t first_record = 0;
  std::vector<uint8_t> is_test;

  int64_t records() const { return lines.records(); }
  std::span<const ClickKey> keys(int64_t field) const {
    return {lines.keys(field), static_cast<size_t>(records())};
  }
};

std::vector<std::string_view> split_lines(std::string_view text,
                                          int64_t piece_bytes) {
  std::vector<std::string_view> pieces;
  while (!text.empty()) {
    const auto least = static_cast<size_t>(piece_bytes) - 1;
    const size_t length =
        least >= text.size() ? text.size() : text.find('\n', least) + 1;
    pieces.push_back(text.substr(0, length));
    text.remove_prefix(length);
  }
  return pieces;
}

// One pass over the file, which reads the next block while parsing one.
class RecordPass {
 public:
  RecordPass(const PrepareCriteo& wanted, ThreadPool& pool)
      : wanted_(wanted),
        pool_(pool),
        source_(wanted.from,
                kChunkBytes * kChunksPerThread * pool.threads(),
                kClickLineLimit) {
    source_.next(coming_);
  }

  // False at the end. The chunks of the block are valid until the next call.
  bool next() {
    block_.swap(coming_);
    if (block_.empty()) return false;
    const auto texts = split_lines(block_, kChunkBytes);
    if (texts.size() > chunks_.size()) chunks_.resize(texts.size());
    used_ = texts.size();
    pool_.run(std::ssize(texts) + 1, [&](int64_t i) {
      if (i == 0) return source_.next(coming_);
      const auto place = static_cast<size_t>(i - 1);
      chunks_[place].lines.parse(texts[place], wanted_.skips_bad_lines
                                                   ? ClickLines::OnBad::kSkip
                                                   : ClickLines::OnBad::kStop);
    });
    for (Chunk& chunk : chunks()) number(chunk);
    pool_.run(std::ssize(texts),
              [&](int64_t i) { draw(chunks_[static_cast<size_t>(i)]); });
    return true;
  }

  std::span<Chunk> chunks() { return std::span(chunks_).first(used_); }
  const LineBlocks& source() const { return source_; }
  int64_t records() const { return records_; }
  int64_t skipped() const { return skipped_; }

 private:
  void number(Chunk& chunk) {
    if (chunk.lines.bad_lines() > 0 && !wanted_.skips_bad_lines)
      fail(ExitCode::kBadInput, "{}: line {}{}", wanted_.from.string(),
           records_ + chunk.lines.bad_line() + 1, chunk.lines.fault());
    chunk.first_record = records_;
    records_ += chunk.records();
    skipped_ += chunk.lines.bad_lines();
  }

  void draw(Chunk& chunk) const {
    chunk.is_test.resize(static_cast<size_t>(chunk.records()));
    auto record = static_cast<uint64_t>(chunk.first_record);
    for (uint8_t& is_test : chunk.is_test)
      is_test =
          wanted_.keeps_vocabulary() ||
                  Rng(wanted_.seed, Purpose::kPartition, record++, kTestStream)
                          .uniform() < wanted_.test_share
              ? 1
              : 0;
  }

  const PrepareCriteo& wanted_;
  ThreadPool& pool_;
  LineBlocks source_;
  std::string block_, coming_;
  std::vector<Chunk> chunks_;
  size_t used_ = 0;
  int64_t records_ = 0, skipped_ = 0;
};

// Values by field, in row order.
struct Vocabulary {
  std::vector<std::vector<CountedValue>> fields;
  ClickSpec spec;
};

// Unlike the published code, the threshold counts only training records, from
// which a value's embedding is learned, so that test records look up the tables
// as records of a later day would.
Vocabulary count_values(const PrepareCriteo& wanted,
                        ThreadPool& pool,
                        PreparedCriteo& done) {
  std::vector<ValueCounts> counts(kClickFields);
  RecordPass pass(wanted, pool);
  while (pass.next()) {
    pool.run(kClickFields, [&](int64_t field) {
      for (const Chunk& chunk : pass.chunks())
        counts[static_cast<size_t>(field)].add(chunk.keys(field),
                                               chunk.is_test.data());
    });
    for (const Chunk& chunk : pass.chunks())
      done.test += std::count(chunk.is_test.begin(), chunk.is_test.end(), 1);
    if (wanted.progress)
      wanted.progress(pass.source().file_offset(),
                      2 * pass.source().file_bytes());
  }
  done.train = pass.records() - done.test;
  done.skipped = pass.skipped();
  done.bytes = pass.source().text_bytes();
  Vocabulary vocabulary;
  vocabulary.fields.resize(kClickFields);
  pool.run(kClickFields, [&](int64_t field) {
    const auto place = static_cast<size_t>(field);
    auto& values = vocabulary.fields[place];
    values = counts[place].at_least(wanted.threshold);
    counts[place] = ValueCounts();
    std::sort(values.begin(), values.end(), [&](const auto& a, const auto& b) {
      return click_key_less(field, a.key, b.key);
    });
  });
  for (const auto& values : vocabulary.fields)
    vocabulary.spec.rows.push_back(std::ssize(values) + 1);
  return vocabulary;
}

// Copies the vocabulary of an earlier preparation `from` to `to` and returns
// it.
Vocabulary read_vocabulary(const fs::path& from, const fs::path& to) {
  const CriteoFiles files(from);
  const std::string path = files.vocabulary.string();
  const PreparedHeader header(files.header, "prepare criteo",
                              CriteoFiles::kKind, CriteoFiles::kVersion);
  const std::string text = read_file(files.vocabulary);
  if (header.file().text_attribute("/", "vocabulary") != digest_of(text))
    fail(ExitCode::kBadInput, "{}: its digest is not that of the file written",
         path);
  Vocabulary vocabulary;
  vocabulary.fields.resize(kClickFields);
  int64_t line = 0;
  size_t field = 0;
  for (size_t begin = 0; begin < text.size(); ++line) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const auto words = split(text.substr(begin, end - begin), '\t');
    begin = end + 1;
    if (line == 0) continue;  // the columns' names
    const auto refuse = [&] {
      fail(ExitCode::kBadInput,
           "{}: line {}, expected what prepare criteo writes", path, line + 1);
    };
    if (words.size() != 4) refuse();
    if (words[1] == "0") {
      if (line > 1) ++field;
      continue;
    }
    if (field >= vocabulary.fields.size()) refuse();
    auto& values = vocabulary.fields[field];
    const auto key = click_key_of(static_cast<int64_t>(field), words[2]);
    const auto row = parse_int(words[1]), records = parse_int(words[3]);
    if (!key || row != std::ssize(values) + 1 || !records) refuse();
    values.push_back({*key, *records});
  }
  if (field + 1 != vocabulary.fields.size())
    fail(ExitCode::kBadInput, "{}: {} fields, expected {}", path, field + 1,
         kClickFields);
  for (const auto& values : vocabulary.fields)
    vocabulary.spec.rows.push_back(std::ssize(values) + 1);
  OutputFile copy(to);
  copy.write(text);
  copy.finish();
  return vocabulary;
}

// What a chunk contributes to one set.
struct Encoded {
  std::string records, labels;
};
using EncodedSets = std::array<Encoded, 2>;  // train, test

// The files of one set.
struct SetWriter {
  BlockWriter records, labels;
  int64_t samples = 0;

  SetWriter(const CriteoFiles& files,
            const std::string& set,
            int64_t record_bytes)
      : records(files.records(set), CriteoFiles::kBlockRecords * record_bytes),
        labels(files.labels(set), CriteoFiles::kBlockRecords) {}
  void write(const Encoded& chunk) {
    records.write(chunk.records);
    labels.write(chunk.labels);
    samples += std::ssize(chunk.labels);
  }
  void finish() {
    records.finish();
    labels.finish();
  }
};

void encode(const Chunk& chunk,
            const std::vector<RowTable>& tables,
            const RecordLayout& layout,
            EncodedSets& sets) {
  const int64_t records = chunk.records();
  for (Encoded& set : sets) set.labels.clear();
  std::vector<int64_t> places(static_cast<size_t>(records));  // in its set
  for (size_t i = 0; i < places.size(); ++i) {
    std::string& labels = sets[chunk.is_test[i]].labels;
    places[i] = std::ssize(labels) * layout.record_bytes;
    labels += static_cast<char>(chunk.lines.labels()[i]);
  }
  for (Encoded& set : sets)
    set.records.resize(set.labels.size() *
                       static_cast<size_t>(layout.record_bytes));
  const std::array<char*, 2> to = {sets[0].records.data(),
                                   sets[1].records.data()};
  std::vector<uint32_t> rows(places.size());
  for (int64_t field = 0; field < kClickFields; ++field) {
    const auto f = static_cast<size_t>(field);
    tables[f].find(chunk.keys(field), rows.data());
    for (size_t i = 0; i < rows.size(); ++i) {
      char* bytes = to[chunk.is_test[i]] + places[i] + layout.offsets[f];
      for (int b = 0; b < layout.field_bytes[f]; ++b)
        bytes[b] = static_cast<char>(rows[i] >> (8 * b));
    }
  }
}

// Returns what it wrote.
PreparedCriteo write_records(const PrepareCriteo& wanted,
                             ThreadPool& pool,
                             const Vocabulary& vocabulary,
                             SetWriter& train,
                             SetWriter& test) {
  const int64_t passes_before = wanted.keeps_vocabulary() ? 0 : 1;
  const RecordLayout layout(vocabulary.spec);
  std::vector<RowTable> tables;
  for (const auto& values : vocabulary.fields) tables.emplace_back(values);
  RecordPass pass(wanted, pool);
  std::vector<EncodedSets> encoded;
  while (pass.next()) {
    const std::span<const Chunk> chunks = pass.chunks();
    if (chunks.size() > encoded.size()) encoded.resize(chunks.size());
    pool.run(std::ssize(chunks), [&](int64_t i) {
      const auto place = static_cast<size_t>(i);
      encode(chunks[place], tables, layout, encoded[place]);
    });
    for (size_t i = 0; i < chunks.size(); ++i) {
      train.write(encoded[i][0]);
      test.write(encoded[i][1]);
    }
    const LineBlocks& source = pass.source();
    if (wanted.progress)
      wanted.progress(
          passes_before * source.file_bytes() + source.file_offset(),
          (passes_before + 1) * source.file_bytes());
  }
  train.finish();
  test.finish();
  return {.train = train.samples,
          .test = test.samples,
          .skipped = pass.skipped(),
          .spec = vocabulary.spec,
          .bytes = pass.source().text_bytes()};
}

// Throws unless each set has a record; of an earlier vocabulary's records, the
// test set suffices.
void check_counts(const PrepareCriteo& wanted, const PreparedCriteo& done) {
  if ((done.train > 0 || wanted.keeps_vocabulary()) && done.test > 0) return;
  if (wanted.keeps_vocabulary())
    fail(ExitCode::kBadInput, "{}: no records", wanted.from.string());
  fail(ExitCode::kBadInput,
       "{}: {} records for training and {} for testing{}, expected at least "
       "one of each",
       wanted.from.string(), done.train, done.test,
       done.skipped == 0
           ? ""
           : fmt::format(" ({})", counted(done.skipped, "bad line")));
}

void write_vocabulary(const fs::path& path,
                      const Vocabulary& vocabulary,
                      int64_t train_records) {
  constexpr size_t kFlushBytes = 1 << 20;
  OutputFile file(path);
  std::string text = "field\trow\tvalue\trecords\n";
  for (int64_t field = 0; field < kClickFields; ++field) {
    const auto& values = vocabulary.fields[static_cast<size_t>(field)];
    const std::string name = click_field_name(field);
    int64_t others = train_records;
    for (const CountedValue& value : values) others -= value.records;
    text += fmt::format("{}\t0\t*\t{}\n", name, others);
    int64_t row = 0;
    for (const CountedValue& value : values) {
      text += fmt::format("{}\t{}\t{}\t{}\n", name, ++row,
                          click_value_text(field, value.key), value.records);
      if (text.size() < kFlushBytes) continue;
      file.write(text);
      text.clear();
    }
  }
  file.write(text);
  file.finish();
}

void write_header(const CriteoFiles& files,
                  const PrepareCriteo& wanted,
                  const PreparedCriteo& done,
                  const SetWriter& train,
                  const SetWriter& test) {
  Hdf5Writer file(files.header, Seal::kDigest);
  const std::vector<int64_t> dims = {kClickFields};
  file.write("rows", dims, std::span<const int64_t>(done.spec.rows));
  file.attribute("rows", "description",
                 "of each field: 1 + values in vocabulary.tsv");
  for (const auto& [name, set] :
       {std::pair("train", &train), std::pair("test", &test)}) {
    const std::string group = name;
    const std::string description =
        "XXH3-128 of each block_records records, as text";
    if (set->samples == 0) continue;
    set->records.write_digests(file, group + "/records", description);
    set->labels.write_digests(file, group + "/labels", description);
    file.attribute(group, "samples", set->samples);
  }
  file.attribute("/", "kind", CriteoFiles::kKind);
  file.attribute("/", "version", CriteoFiles::kVersion);
  file.attribute("/", "block_records", CriteoFiles::kBlockRecords);
  file.attribute("/", "vocabulary", digest_of_file(files.vocabulary));
  if (wanted.keeps_vocabulary()) {
    file.attribute("/", CriteoFiles::kVocabularyOf, wanted.vocabulary.string());
  } else {
    file.attribute("/", "threshold", wanted.threshold);
    file.attribute("/", "test_share", fmt::format("{}", wanted.test_share));
    file.attribute("/", "seed", fmt::format("{}", wanted.seed));
  }
  file.attribute("/", "skipped_lines", done.skipped);
  file.attribute("/", "description",
                 "train.records and test.records hold consecutive records of "
                 "39 rows, each row in as few little-endian bytes as the rows "
                 "of its field need; *.labels hold one byte per record");
  file.close();
  fsync_path(files.header);
}

void check_wanted(const PrepareCriteo& wanted) {
  constexpr int kThreadLimit = 1024;
  if (wanted.threshold < 1 || wanted.threshold > wanted.kThresholdLimit)
    fail(ExitCode::kUsage, "--threshold={}: expected 1 to {}", wanted.threshold,
         wanted.kThresholdLimit);
  if (!(wanted.test_share > 0 && wanted.test_share < 1))
    fail(ExitCode::kUsage, "--test-share={}: expected more than 0, less than 1",
         wanted.test_share);
  if (wanted.threads < 1 || wanted.threads > kThreadLimit)
    fail(ExitCode::kUsage, "--threads={}: expected 1 to {}", wanted.threads,
         kThreadLimit);
}

}  // namespace

PreparedCriteo prepare_criteo(const PrepareCriteo& wanted) {
  check_wanted(wanted);
  ThreadPool pool(wanted.threads);
  WorkFolder work(wanted.to, CriteoFiles::kNames);
  const CriteoFiles files(work.path());
  Vocabulary vocabulary;
  PreparedCriteo first;
  if (wanted.keeps_vocabulary()) {
    vocabulary = read_vocabulary(wanted.vocabulary, files.vocabulary);
  } else {
    vocabulary = count_values(wanted, pool, first);
    check_counts(wanted, first);
    write_vocabulary(files.vocabulary, vocabulary, first.train);
  }
  const int64_t record_bytes = RecordLayout(vocabulary.spec).record_bytes;
  SetWriter train(files, "train", record_bytes);
  SetWriter test(files, "test", record_bytes);
  const PreparedCriteo done =
      write_records(wanted, pool, vocabulary, train, test);
  check_counts(wanted, done);
  if (!wanted.keeps_vocabulary() &&
      (done.train != first.train || done.test != first.test ||
       done.skipped != first.skipped))
    fail(ExitCode::kBadInput, "{}: changed while it was being read",
         wanted.from.string());
  write_header(files, wanted, done, train, test);
  work.commit();
  return done;
}

}  // namespace syncopate
