// Prepared clicks: batches, and the errors for damaged files.
#include <algorithm>

#include "base/hdf5_file.h"
#include "base/rng.h"
#include "click_files.h"

namespace syncopate {
namespace {

TEST(Clicks, BatchHoldsRowsOfTheTables) {
  const ClickFolders folders(click_text(make_click_rows(400)));
  folders.run();
  const ClickData data = folders.load();
  ClickBatch batch;
  for (const std::vector<int64_t>& samples :
       {std::vector<int64_t>{5, 0, 5, 301}, {7}, {}}) {
    batch.fill(*data.train, data.spec, samples);
    const Batch view = batch.view();
    const int64_t N = std::ssize(samples);
    EXPECT_EQ(view.samples, N);
    EXPECT_EQ(view.labels.shape, (Shape{N}));
    EXPECT_EQ(view.rows.shape, (Shape{N, kClickFields}));
    EXPECT_EQ(view.rows.dtype, DType::kI32);
    EXPECT_EQ(view.images.data, nullptr);
    std::vector<int32_t> rows(kClickFields);
    for (size_t i = 0; i < samples.size(); ++i) {
      EXPECT_EQ(batch.labels[i],
                data.train->clicked()[static_cast<size_t>(samples[i])]);
      data.train->read(samples[i], rows);
      int64_t first = 0;
      for (size_t f = 0; f < rows.size(); ++f) {
        EXPECT_EQ(batch.rows[i * kClickFields + f], first + rows[f]);
        first += data.spec.rows[f];
      }
      EXPECT_EQ(first, data.spec.total_rows());
    }
  }
}

// Also of pieces that the threads cannot divide evenly.
TEST(Clicks, BatchDoesNotDependOnTheNumberOfThreads) {
  const ClickFolders folders(click_text(make_click_rows(400)));
  folders.run();
  const ClickData data = folders.load();
  Rng rng(1, Purpose::kTest);
  for (const int64_t N : {0, 1, 255, 256, 257, 3'000}) {
    std::vector<int64_t> samples;
    for (int64_t i = 0; i < N; ++i)
      samples.push_back(static_cast<int64_t>(
          rng.below(static_cast<uint64_t>(data.train->samples()))));
    ClickBatch plain;
    plain.fill(*data.train, data.spec, samples);
    for (const int threads : {1, 2, 3}) {
      ThreadPool pool(threads);
      ClickBatch batch;
      batch.labels.assign(5000, -1);  // what an earlier batch left
      batch.rows.assign(5000, -1);
      batch.fill(*data.train, data.spec, samples, &pool);
      EXPECT_EQ(batch.labels, plain.labels) << N << " by " << threads;
      EXPECT_EQ(batch.rows, plain.rows) << N << " by " << threads;
    }
  }
}

TEST(Clicks, SayWhatTheyAre) {
  const ClickFolders folders(click_text(make_click_rows(400)));
  const PreparedCriteo done = folders.run();
  const ClickData data = folders.load(), again = folders.load();
  EXPECT_EQ(data.train->samples(), done.train);
  EXPECT_EQ(data.test->samples(), done.test);
  EXPECT_EQ(data.spec, done.spec);
  EXPECT_EQ(data.spec.fields(), kClickFields);
  EXPECT_EQ(data.source, "criteo " + folders.to.string());
  EXPECT_EQ(data.digest, again.digest);
  EXPECT_EQ(data.digest.size(), 32u);
  EXPECT_FALSE(data.best_auc.has_value());
  EXPECT_EQ(data.train->memory_bytes(), 0);
  // Other data, another digest; the same data elsewhere, the same.
  const ClickFolders moved(click_text(make_click_rows(400)));
  moved.run();
  EXPECT_EQ(moved.load().digest, data.digest);
  auto rows = make_click_rows(400);
  rows[200][0] = rows[200][0] == "1" ? "0" : "1";
  const ClickFolders other(click_text(rows));
  other.run();
  EXPECT_NE(other.load().digest, data.digest);
}

// Puts `bytes` in place of a file for as long as it lives.
class Instead {
 public:
  Instead(const fs::path& path, const std::string& bytes)
      : path_(path), before_(read_bytes(path)) {
    write_bytes(path, bytes);
  }
  ~Instead() { write_bytes(path_, before_); }

 private:
  fs::path path_;
  std::string before_;
};

void expect_only(const std::vector<std::string>& faults,
                 const std::string& line) {
  ASSERT_EQ(faults.size(), 1u);
  EXPECT_EQ(faults[0], line);
}

std::string flipped(const fs::path& path, size_t at) {
  return changed_at(read_bytes(path), at);
}

TEST(Clicks, DamageIsFound) {
  const ClickFolders folders(click_text(make_click_rows(400)));
  const PreparedCriteo done = folders.run();
  const auto load = [&] { folders.load(); };
  EXPECT_TRUE(check_clicks(folders.to).empty());
  {  // A record: only the whole check reads it.
    const fs::path path = folders.to / "test.records";
    const Instead damage(path, flipped(path, 77));
    folders.load();
    expect_only(check_clicks(folders.to),
                fmt::format("{}: offset 0: {} bytes are not those that were "
                            "written",
                            path.string(), done.test * kClickFields));
  }
  for (const char* set : {"train", "test"}) {  // A label.
    const fs::path path = folders.to / (set + std::string(".labels"));
    const Instead damage(path, flipped(path, 11));
    const std::string line =
        fmt::format("{}: offset 0: {} bytes are not those that were written",
                    path.string(), fs::file_size(path));
    expect_error(ExitCode::kBadInput, line, load);
    expect_only(check_clicks(folders.to), line);
  }
  {
    const fs::path path = folders.to / "vocabulary.tsv";
    const Instead damage(path, flipped(path, 100));
    folders.load();
    expect_only(check_clicks(folders.to),
                path.string() + ": its digest is not that of the file written");
  }
  for (const char* name :
       {"train.records", "train.labels", "test.records", "test.labels"}) {
    const fs::path path = folders.to / name;
    const std::string whole = read_bytes(path);
    const int64_t samples =
        std::string(name).starts_with("train") ? done.train : done.test;
    for (const std::string& other :
         {whole.substr(1), whole + "x", std::string()}) {
      const Instead damage(path, other);
      const std::string line =
          fmt::format("{}: {} bytes, expected {} records of {}", path.string(),
                      other.size(), samples, std::ssize(whole) / samples);
      expect_error(ExitCode::kBadInput, line, load);
      expect_only(check_clicks(folders.to), line);
    }
  }
  EXPECT_TRUE(check_clicks(folders.to).empty());
  for (const char* name : CriteoFiles::kNames) {
    const fs::path path = folders.to / name;
    const std::string whole = read_bytes(path);
    fs::remove(path);
    EXPECT_EQ(check_clicks(folders.to).size(), 1u) << name;
    if (std::string(name) != "vocabulary.tsv") {
      EXPECT_EQ(error_of(load).code(), ExitCode::kInputMissing) << name;
    }
    write_bytes(path, whole);
  }
}

TEST(Clicks, EveryByteOfTheHeaderCounts) {
  const ClickFolders folders(click_text(make_click_rows(400)));
  folders.run();
  const fs::path path = folders.to / "clicks.h5";
  const std::string whole = read_bytes(path);
  for (size_t at = 0; at < whole.size(); at += 97) {
    write_bytes(path, flipped(path, at));
    EXPECT_EQ(error_of([&] { folders.load(); }).code(), ExitCode::kBadInput);
    EXPECT_EQ(check_clicks(folders.to).size(), 1u);
    write_bytes(path, whole);
  }
  for (const size_t size : {size_t{0}, size_t{100}, whole.size() - 1}) {
    write_bytes(path, whole.substr(0, size));
    EXPECT_EQ(error_of([&] { folders.load(); }).code(), ExitCode::kBadInput);
  }
}

// A sealed header that is not what prepare writes.
TEST(Clicks, OtherHeadersAreRefused) {
  const ClickFolders folders(click_text(make_click_rows(400)));
  folders.run();
  const fs::path path = folders.to / "clicks.h5";
  struct Header {
    std::string kind = CriteoFiles::kKind;
    int64_t version = CriteoFiles::kVersion;
    int64_t block_records = CriteoFiles::kBlockRecords;
    std::vector<int64_t> rows = std::vector<int64_t>(kClickFields, 2);
    int64_t samples = 5;
  };
  const auto expect_said = [&](const Header& header, const std::string& said) {
    Hdf5Writer file(path, Seal::kDigest);
    const std::vector<int64_t> dims = {std::ssize(header.rows)};
    file.write("rows", dims, std::span<const int64_t>(header.rows));
    file.make_group("train");
    file.attribute("train", "samples", header.samples);
    file.attribute("/", "kind", header.kind);
    file.attribute("/", "version", header.version);
    file.attribute("/", "block_records", header.block_records);
    file.attribute("/", "vocabulary", std::string(32, '0'));
    file.close();
    expect_error(ExitCode::kBadInput,
                 fmt::format("{}: {}, expected what prepare criteo "
                             "writes",
                             path.string(), said),
                 [&] { folders.load(); });
  };
  expect_said({.kind = "x"}, "something else");
  expect_said({.version = 2}, "another version");
  expect_said({.block_records = 1}, "another block_records");
  expect_said({.rows = std::vector<int64_t>(38, 2)}, "rows: int64 (38)");
  Header zero;
  zero.rows[7] = 0;
  expect_said(zero, "a field of 0 rows");
  Header many;
  many.rows[7] = INT32_MAX;
  expect_said(many, fmt::format("{} rows, but {} has fewer lines",
                                INT32_MAX + int64_t{2} * (kClickFields - 1),
                                (folders.to / "vocabulary.tsv").string()));
  expect_said({.samples = 0}, "no samples of train");
  expect_said({}, "no dataset train/records");
}

// Rows that the tables do not have must not reach a network, checked or not.
TEST(Clicks, RowsOutOfRangeAreRefused) {
  const ClickFolders folders(click_text(make_click_rows(400)));
  const PreparedCriteo done = folders.run();
  const fs::path path = folders.to / "train.records";
  std::string bytes = read_bytes(path);
  bytes[3 * kClickFields + 2] = '\xff';
  write_bytes(path, bytes);
  const ClickData data = folders.load();
  ClickBatch batch;
  const std::vector<int64_t> good = {2, 4}, bad = {2, 3};
  batch.fill(*data.train, data.spec, good);
  expect_error(
      ExitCode::kBadInput,
      fmt::format("{}: offset {}: row 255 of field I3, expected less than {}",
                  path.string(), 3 * kClickFields + 2, done.spec.rows[2]),
      [&] { batch.fill(*data.train, data.spec, bad); });
}

TEST(Clicks, PathsThatAreNoFolder) {
  const ClickFolders folders(click_text(make_click_rows(10)));
  const auto load = [&](const fs::path& path) {
    return [path] { load_clicks(options_for("criteo", path)); };
  };
  expect_error(
      ExitCode::kBadInput,
      "data.path: empty, expected the folder that prepare criteo wrote",
      load(""));
  expect_error(ExitCode::kBadInput,
               folders.from.string() +
                   ": a file, expected a folder that prepare criteo wrote",
               load(folders.from));
  EXPECT_EQ(error_of(load(folders.to)).code(), ExitCode::kInputMissing);
  EXPECT_EQ(check_clicks(folders.to).size(), 1u);
}

}  // namespace
}  // namespace syncopate
