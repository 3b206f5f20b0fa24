// Prepared clicks: what the published recipe says, the same whatever the
// threads, the packing and the line ends, and whole or not there.
#include <fcntl.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <unistd.h>
#include <algorithm>
#include <cmath>
#include <csignal>

#include "click_files.h"

namespace syncopate {
namespace {

// The recipe in the words of its source: strings and maps.
std::string value_of(const ClickRow& row, int64_t field) {
  const std::string& text = row[static_cast<size_t>(field) + 1];
  if (text.empty() || field >= kClickIntegers) return text;
  const int64_t v = std::stoll(text);
  const double log = std::log(static_cast<double>(v));
  return std::to_string(v > 2 ? static_cast<int64_t>(log * log) : v - 2);
}

bool is_test_record(uint64_t seed, uint64_t record, double share) {
  return Rng(seed, Purpose::kPartition, record, 1).uniform() < share;
}

void expect_equals_naive(const ClickFolders& folders,
                         const PrepareCriteo& wanted,
                         const std::vector<ClickRow>& rows) {
  std::vector<std::map<std::string, int64_t>> counts(kClickFields);
  for (size_t i = 0; i < rows.size(); ++i)
    if (!is_test_record(wanted.seed, i, wanted.test_share))
      for (int64_t f = 0; f < kClickFields; ++f)
        ++counts[static_cast<size_t>(f)][value_of(rows[i], f)];
  const ClickData data = folders.load();
  auto vocabulary = read_vocabulary(folders.to / "vocabulary.tsv");
  for (int64_t f = 0; f < kClickFields; ++f) {
    const auto& values = vocabulary[click_field_name(f)];
    ASSERT_EQ(std::ssize(values), data.spec.rows[static_cast<size_t>(f)]);
    std::vector<std::string> expected = {"*"};
    for (const auto& [value, count] : counts[static_cast<size_t>(f)])
      if (count >= wanted.threshold) expected.push_back(value);
    if (f < kClickIntegers)
      std::sort(expected.begin() + 1, expected.end(),
                [](const std::string& a, const std::string& b) {
                  if (a.empty() || b.empty()) return a.size() < b.size();
                  return std::stoll(a) < std::stoll(b);
                });
    EXPECT_EQ(values, expected) << click_field_name(f);
  }
  int64_t train = 0, test = 0;
  std::vector<int32_t> found(kClickFields);
  for (size_t i = 0; i < rows.size(); ++i) {
    const bool is_test = is_test_record(wanted.seed, i, wanted.test_share);
    const ClickSet& set = is_test ? *data.test : *data.train;
    const int64_t sample = is_test ? test++ : train++;
    ASSERT_LT(sample, set.samples());
    set.read(sample, found);
    EXPECT_EQ(set.clicked()[static_cast<size_t>(sample)],
              rows[i][0] == "1" ? 1 : 0);
    for (int64_t f = 0; f < kClickFields; ++f) {
      const auto& values = vocabulary[click_field_name(f)];
      const auto place =
          std::find(values.begin(), values.end(), value_of(rows[i], f));
      ASSERT_EQ(found[static_cast<size_t>(f)],
                place == values.end() ? 0 : place - values.begin());
    }
  }
  EXPECT_EQ(train, data.train->samples());
  EXPECT_EQ(test, data.test->samples());
}

TEST(PrepareCriteo, EqualsTheRecipe) {
  const auto rows = make_click_rows(1500);
  for (const int64_t threshold : {1, 10, 200})
    for (const double share : {0.1, 0.5}) {
      const ClickFolders folders(click_text(rows));
      PrepareCriteo wanted = folders.wanted();
      wanted.threshold = threshold;
      wanted.test_share = share;
      wanted.seed = static_cast<uint64_t>(threshold);
      int64_t last = 0;
      wanted.progress = [&](int64_t done, int64_t total) {
        EXPECT_GE(done, last);
        EXPECT_EQ(total, 2 * std::ssize(click_text(rows)));
        last = done;
      };
      const PreparedCriteo done = prepare_criteo(wanted);
      EXPECT_EQ(last, 2 * done.bytes);
      EXPECT_EQ(done.bytes, std::ssize(click_text(rows)));
      EXPECT_EQ(done.train + done.test, 1500);
      EXPECT_NEAR(static_cast<double>(done.test), share * 1500, 80);
      EXPECT_EQ(done.skipped, 0);
      EXPECT_EQ(done.spec, folders.load().spec);
      EXPECT_EQ(folders.left(), (std::vector<std::string>{"raw.tsv", "ready"}));
      expect_equals_naive(folders, wanted, rows);
    }
}

// More than 65,536 rows take three bytes, more than 256 two.
TEST(PrepareCriteo, KeepsLargeVocabularies) {
  std::vector<ClickRow> rows;
  for (uint64_t i = 0; i < 80000; ++i) {
    ClickRow row(40);
    row[0] = std::string(1, i % 3 == 0 ? '1' : '0');
    row[14] = fmt::format("{:x}", i * 7919);
    row[39] = fmt::format("{:x}", i % 1000);
    rows.push_back(row);
  }
  const ClickFolders folders(click_text(rows));
  PrepareCriteo wanted = folders.wanted();
  wanted.threshold = 1;
  wanted.threads = 2;
  const PreparedCriteo done = prepare_criteo(wanted);
  EXPECT_GT(done.spec.rows[13], 65537);
  EXPECT_EQ(done.spec.rows[38], 1001);
  EXPECT_EQ(std::ssize(read_bytes(folders.to / "train.records")),
            done.train * (37 + 3 + 2));
  const ClickData data = folders.load();
  std::vector<int32_t> found(kClickFields), expected(kClickFields, 1);
  int64_t train = 0, test = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    const bool is_test = is_test_record(42, i, 0.1);
    (is_test ? data.test : data.train)->read(is_test ? test++ : train++, found);
    // Every training value is kept, so in order of value; test ones are not.
    expected[13] = is_test ? 0 : static_cast<int32_t>(train);
    expected[38] = static_cast<int32_t>(i % 1000) + 1;
    ASSERT_EQ(found, expected) << i;
  }
  EXPECT_TRUE(check_clicks(folders.to).empty());
}

TEST(PrepareCriteo, IsTheSameForEveryThreadAndPacking) {
  const auto rows = make_click_rows(20000);  // several chunks and blocks
  const std::string text = click_text(rows);
  const ClickFolders one(text);
  one.run();
  const std::string expected = one.bytes();
  for (const int threads : {2, 3, 8}) {
    const ClickFolders folders(text);
    PrepareCriteo wanted = folders.wanted();
    wanted.threads = threads;
    prepare_criteo(wanted);
    EXPECT_TRUE(folders.bytes() == expected) << threads;
  }
  std::string other_ends;
  for (const ClickRow& row : rows) other_ends += join(row, "\t") + "\r\n";
  for (const std::string& variant :
       {text.substr(0, text.size() - 1), other_ends}) {
    const ClickFolders folders(variant);
    folders.run();
    EXPECT_TRUE(folders.bytes() == expected);
  }
  const ClickFolders packed("");
  write_gz(packed.from, text);
  EXPECT_EQ(packed.run().bytes, std::ssize(text));
  EXPECT_TRUE(packed.bytes() == expected);
  // Two packed files, one behind the other, as parallel packers write them.
  write_gz(packed.folder / "a", text.substr(0, 1000));
  write_gz(packed.folder / "b", text.substr(1000));
  write_bytes(packed.from, read_bytes(packed.folder / "a") +
                               read_bytes(packed.folder / "b"));
  fs::remove_all(packed.to);
  packed.run();
  EXPECT_TRUE(packed.bytes() == expected);
  const ClickFolders reseeded(text);
  PrepareCriteo wanted = reseeded.wanted();
  wanted.seed = 43;
  prepare_criteo(wanted);
  EXPECT_FALSE(reseeded.bytes() == expected);
}

TEST(PrepareCriteo, StopsAtABadLineOrSkipsIt) {
  auto rows = make_click_rows(20000);
  const ClickFolders clean(click_text(rows));
  clean.run();
  // The first bad line is in another block than the first; one is longer than
  // two blocks of one thread.
  const std::string long_line(5'000'000, '3');
  std::string text;
  for (size_t i = 0; i < rows.size(); ++i) {
    if (i == 15000) text += "0\t1\n";
    if (i == 15001) text += long_line + "\n";
    if (i == 19999) text += line_with(3, "x");
    text += click_line(rows[i]);
  }
  text += "0\t\t";
  for (const int threads : {1, 2, 5}) {
    const ClickFolders folders(text);
    PrepareCriteo wanted = folders.wanted();
    wanted.threads = threads;
    expect_click_error(
        ExitCode::kBadInput,
        folders.from.string() +
            ": line 15001: 2 tab-separated fields, expected 40: a label, 13 "
            "integers and 26 categories",
        [&] { prepare_criteo(wanted); });
    EXPECT_EQ(folders.left(), (std::vector<std::string>{"raw.tsv"}));
    wanted.skips_bad_lines = true;
    const PreparedCriteo done = prepare_criteo(wanted);
    EXPECT_EQ(done.skipped, 4);
    EXPECT_EQ(done.train + done.test, 20000);
    for (const char* name : CriteoFiles::kNames)
      if (std::string(name) != "clicks.h5") {  // says how many were skipped
        EXPECT_TRUE(read_bytes(folders.to / name) ==
                    read_bytes(clean.to / name))
            << name;
      }
  }
}

TEST(PrepareCriteo, NamesFileLineAndField) {
  for (const ClickFault& fault : click_faults()) {
    const ClickFolders folders(click_text(make_click_rows(16)) + fault.line +
                               click_text(make_click_rows(5)));
    expect_click_error(ExitCode::kBadInput,
                       folders.from.string() + ": line 17" + fault.said,
                       [&] { folders.run(); });
  }
}

TEST(PrepareCriteo, RefusesWhatItCannotUse) {
  const ClickFolders folders(click_text(make_click_rows(300)));
  const auto expect_said = [&](ExitCode code, const std::string& line,
                               const PrepareCriteo& wanted) {
    expect_click_error(code, line, [&] { prepare_criteo(wanted); });
    EXPECT_FALSE(fs::exists(folders.folder / "ready.tmp"));
  };
  PrepareCriteo wanted = folders.wanted();
  wanted.threshold = 0;
  expect_said(ExitCode::kUsage, "--threshold=0: expected 1 to 1000000000",
              wanted);
  wanted = folders.wanted();
  for (const double share : {0.0, 1.0, std::nan("")}) {
    wanted.test_share = share;
    expect_said(ExitCode::kUsage,
                fmt::format("--test-share={}: expected more than 0, less than "
                            "1",
                            share),
                wanted);
  }
  wanted.test_share = 1e-9;
  expect_said(ExitCode::kBadInput,
              folders.from.string() +
                  ": 300 records for training and 0 for testing, expected at "
                  "least one of each",
              wanted);
  wanted = folders.wanted();
  wanted.threads = 0;
  expect_said(ExitCode::kUsage, "--threads=0: expected 1 to 1024", wanted);
  wanted = folders.wanted();
  wanted.from = folders.folder / "none";
  expect_said(ExitCode::kInputMissing,
              wanted.from.string() + ": open: No such file or directory",
              wanted);
  wanted.from = folders.folder.path().string();
  expect_said(ExitCode::kBadInput,
              wanted.from.string() +
                  ": not a regular file, expected one since it is read twice",
              wanted);
  wanted.from = folders.folder / "bad";
  write_bytes(wanted.from, "");
  expect_said(ExitCode::kBadInput,
              wanted.from.string() +
                  ": 0 records for training and 0 for testing, expected at "
                  "least one of each",
              wanted);
  write_bytes(wanted.from, "x\ny\n");
  wanted.skips_bad_lines = true;
  expect_said(ExitCode::kBadInput,
              wanted.from.string() +
                  ": 0 records for training and 0 for testing (2 bad lines), "
                  "expected at least one of each",
              wanted);
}

TEST(PrepareCriteo, FindsDamagedPacking) {
  const ClickFolders folders("");
  write_gz(folders.from, click_text(make_click_rows(300)));
  const std::string good = read_bytes(folders.from);
  write_bytes(folders.from, good.substr(0, good.size() / 2));
  Error error = click_error([&] { folders.run(); });
  EXPECT_EQ(error.code(), ExitCode::kBadInput);
  EXPECT_NE(std::string(error.what()).find("the gzip data ends early"),
            std::string::npos)
      << error.what();
  for (const size_t at : {good.size() / 2, good.size() - 6}) {
    std::string bytes = good;
    bytes[at] = static_cast<char>(bytes[at] ^ 0x10);
    write_bytes(folders.from, bytes);
    error = click_error([&] { folders.run(); });
    EXPECT_EQ(error.code(), ExitCode::kBadInput) << error.what();
    EXPECT_EQ(std::string(error.what()).find(folders.from.string()), 0u);
    EXPECT_EQ(folders.left(), (std::vector<std::string>{"raw.tsv"}));
  }
}

TEST(PrepareCriteo, LeavesNothingHalf) {
  const ClickFolders folders(click_text(make_click_rows(3000)));
  // A file that may not become that large, as on a full disk.
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  signal(SIGXFSZ, SIG_IGN);
  rlimit small = before;
  small.rlim_cur = 20000;
  setrlimit(RLIMIT_FSIZE, &small);
  Error error = click_error([&] { folders.run(); });
  setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_EQ(error.code(), ExitCode::kIoError);
  EXPECT_NE(std::string(error.what()).find("train.records: write: "),
            std::string::npos)
      << error.what();
  EXPECT_EQ(folders.left(), (std::vector<std::string>{"raw.tsv"}));
  // What a kill left is no obstacle; another process at work is one.
  const fs::path temporary = folders.folder / "ready.tmp";
  fs::create_directories(temporary);
  write_bytes(temporary / "train.records", "half");
  const int fd = ::open(temporary.c_str(), O_RDONLY | O_DIRECTORY);
  ASSERT_EQ(::flock(fd, LOCK_EX | LOCK_NB), 0);
  expect_click_error(ExitCode::kCannotCreate,
                     temporary.string() + ": another process is writing it",
                     [&] { folders.run(); });
  EXPECT_EQ(read_bytes(temporary / "train.records"), "half");
  ::close(fd);
  fs::create_directories(folders.to);  // empty: may be there
  folders.run();
  EXPECT_EQ(folders.left(), (std::vector<std::string>{"raw.tsv", "ready"}));
  EXPECT_TRUE(check_clicks(folders.to).empty());
  // Nor is what is there overwritten.
  const std::string bytes = folders.bytes();
  expect_click_error(
      ExitCode::kCannotCreate,
      folders.to.string() +
          ": is there already, expected a new name or an empty folder",
      [&] { folders.run(); });
  EXPECT_TRUE(folders.bytes() == bytes);
}

}  // namespace
}  // namespace syncopate
