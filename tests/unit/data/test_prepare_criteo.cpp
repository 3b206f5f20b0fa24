// Prepared clicks follow the published recipe, do not depend on threads,
// compression or line ends, and are complete or absent.
#include <algorithm>
#include <cmath>

#include "all_or_nothing.h"
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
      EXPECT_EQ(names_in(folders.folder),
                (std::vector<std::string>{"raw.tsv", "ready"}));
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
  const auto rows = make_click_rows(12000);  // several chunks and blocks
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
  // Two concatenated gzip members, as parallel compressors write them.
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
  const auto rows = make_click_rows(12000);
  const ClickFolders clean(click_text(rows));
  clean.run();
  // The first bad line is in another block than the first; one is longer than
  // two blocks of one thread.
  const std::string long_line(5'000'000, '3');
  std::string text;
  for (size_t i = 0; i < rows.size(); ++i) {
    if (i == 10000) text += "0\t1\n";
    if (i == 10001) text += long_line + "\n";
    if (i == 11999) text += line_with(3, "x");
    text += click_line(rows[i]);
  }
  text += "0\t\t";
  for (const int threads : {1, 2, 5}) {
    const ClickFolders folders(text);
    PrepareCriteo wanted = folders.wanted();
    wanted.threads = threads;
    expect_error(
        ExitCode::kBadInput,
        folders.from.string() +
            ": line 10001: 2 tab-separated fields, expected 40: a label, 13 "
            "integers and 26 categories",
        [&] { prepare_criteo(wanted); });
    EXPECT_EQ(names_in(folders.folder), (std::vector<std::string>{"raw.tsv"}));
    wanted.skips_bad_lines = true;
    const PreparedCriteo done = prepare_criteo(wanted);
    EXPECT_EQ(done.skipped, 4);
    EXPECT_EQ(done.train + done.test, 12000);
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
    expect_error(ExitCode::kBadInput,
                 folders.from.string() + ": line 17" + fault.said,
                 [&] { folders.run(); });
  }
}

TEST(PrepareCriteo, RefusesWhatItCannotUse) {
  const ClickFolders folders(click_text(make_click_rows(300)));
  const auto expect_said = [&](ExitCode code, const std::string& line,
                               const auto& change) {
    PrepareCriteo wanted = folders.wanted();
    change(wanted);
    expect_error(code, line, [&] { prepare_criteo(wanted); });
    EXPECT_FALSE(fs::exists(folders.folder / "ready.tmp"));
  };
  expect_said(ExitCode::kUsage, "--threshold=0: expected 1 to 1000000000",
              [](PrepareCriteo& w) { w.threshold = 0; });
  for (const double share : {0.0, 1.0, std::nan("")})
    expect_said(
        ExitCode::kUsage,
        fmt::format("--test-share={}: expected more than 0, less than 1",
                    share),
        [=](PrepareCriteo& w) { w.test_share = share; });
  const std::string each = ", expected at least one of each";
  expect_said(ExitCode::kBadInput,
              folders.from.string() +
                  ": 300 records for training and 0 for testing" + each,
              [](PrepareCriteo& w) { w.test_share = 1e-9; });
  expect_said(ExitCode::kUsage, "--threads=0: expected 1 to 1024",
              [](PrepareCriteo& w) { w.threads = 0; });
  const std::string none = folders.folder / "none";
  expect_said(ExitCode::kInputMissing,
              none + ": open: No such file or directory",
              [&](PrepareCriteo& w) { w.from = none; });
  const std::string folder = folders.folder.path();
  expect_said(ExitCode::kBadInput, folder + ": not a regular file",
              [&](PrepareCriteo& w) { w.from = folder; });
  const std::string bad = folders.folder / "bad";
  write_bytes(bad, "");
  expect_said(ExitCode::kBadInput,
              bad + ": 0 records for training and 0 for testing" + each,
              [&](PrepareCriteo& w) { w.from = bad; });
  write_bytes(bad, "x\ny\n");
  expect_said(
      ExitCode::kBadInput,
      bad + ": 0 records for training and 0 for testing (2 bad lines)" + each,
      [&](PrepareCriteo& w) {
        w.from = bad;
        w.skips_bad_lines = true;
      });
}

// The records of a later day, of which some values are new: rows are those of
// the first preparation, new values row 0.
TEST(PrepareCriteo, KeepsAnEarlierVocabulary) {
  auto rows = make_click_rows(1500);
  const ClickFolders first(click_text(rows));
  const ClickSpec spec = first.run().spec;
  for (size_t i = 0; i < rows.size(); i += 3) rows[i][20] = "fffffffe";
  const ClickFolders later(click_text(rows));
  PrepareCriteo wanted = later.wanted();
  wanted.vocabulary = first.to;
  const PreparedCriteo done = prepare_criteo(wanted);
  EXPECT_EQ(done.train, 0);
  EXPECT_EQ(done.test, 1500);
  EXPECT_EQ(done.spec, spec);
  EXPECT_EQ(done.bytes, std::ssize(click_text(rows)));
  EXPECT_EQ(read_bytes(later.to / "vocabulary.tsv"),
            read_bytes(first.to / "vocabulary.tsv"));
  EXPECT_TRUE(check_clicks(later.to).empty());
  expect_error_has(ExitCode::kBadInput, "has no training records",
                   [&] { later.load(); });

  DataOptions options = options_for("criteo", later.to);
  options.trained.is_used = true;
  const ClickData data = load_clicks(options);
  EXPECT_EQ(data.train->samples(), 0);
  ASSERT_EQ(data.test->samples(), 1500);
  const ClickData known = first.load();
  EXPECT_EQ(data.vocabulary, known.vocabulary);
  EXPECT_NE(data.digest, known.digest);
  std::vector<int32_t> found(kClickFields), expected(kClickFields);
  int64_t train = 0, test = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    const bool is_test = is_test_record(42, i, 0.1);
    (is_test ? known.test : known.train)
        ->read(is_test ? test++ : train++, expected);
    if (i % 3 == 0) expected[19] = 0;
    data.test->read(static_cast<int64_t>(i), found);
    ASSERT_EQ(found, expected) << i;
  }

  const std::string good = read_bytes(first.to / "vocabulary.tsv");
  write_bytes(first.to / "vocabulary.tsv", changed_at(good, 40, 1));
  wanted.to = later.folder / "again";
  expect_error_has(ExitCode::kBadInput, "its digest is not that of the file",
                   [&] { prepare_criteo(wanted); });
  wanted.vocabulary = first.folder / "nothing";
  expect_error_has(ExitCode::kInputMissing, "nothing/clicks.h5",
                   [&] { prepare_criteo(wanted); });
  EXPECT_FALSE(fs::exists(wanted.to));
}

// While training maps the records, somebody replaces them by a shorter file.
TEST(PrepareCriteoDeathTest, RecordsThatBecomeShorterEndTheProcess) {
  const ClickFolders folders(click_text(make_click_rows(3000)));
  folders.run();
  const ClickData data = folders.load();
  const fs::path records = folders.to / "train.records";
  std::vector<int32_t> found(kClickFields);
  const auto read_last = [&] {
    fs::resize_file(records, 100);
    data.train->read(data.train->samples() - 1, found);
  };
  EXPECT_EXIT(read_last(), testing::ExitedWithCode(74),
              "^error: " + records.string() +
                  ": can no longer be read: it became shorter, or its "
                  "storage fails\n$");
}

TEST(PrepareCriteo, FindsDamagedPacking) {
  const ClickFolders folders("");
  write_gz(folders.from, click_text(make_click_rows(300)));
  const std::string good = read_bytes(folders.from);
  write_bytes(folders.from, good.substr(0, good.size() / 2));
  expect_error_has(ExitCode::kBadInput, "the gzip data ends early",
                   [&] { folders.run(); });
  for (const size_t at : {good.size() / 2, good.size() - 6}) {
    write_bytes(folders.from, changed_at(good, at, 0x10));
    expect_error_has(ExitCode::kBadInput, folders.from.string(),
                     [&] { folders.run(); });
    EXPECT_EQ(names_in(folders.folder), (std::vector<std::string>{"raw.tsv"}));
  }
}

TEST(PrepareCriteo, LeavesNothingHalf) {
  const ClickFolders folders(click_text(make_click_rows(3000)));
  expect_all_or_nothing(folders.folder, "train.records", 20000,
                        [&] { folders.run(); });
  EXPECT_TRUE(check_clicks(folders.to).empty());
}

}  // namespace
}  // namespace syncopate
