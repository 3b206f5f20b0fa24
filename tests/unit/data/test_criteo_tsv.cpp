// The raw lines of Criteo's challenge: their values, and every fault named.
#include <algorithm>
#include <cmath>

#include "click_files.h"
#include "data/clicks/click_vocabulary.h"
#include "data/clicks/criteo_tsv.h"
#include "data/clicks/line_blocks.h"

namespace syncopate {
namespace {

TEST(CriteoTsv, BucketsAsPublished) {
  const std::vector<std::pair<int64_t, int32_t>> table = {
      {-2147483645, -2147483647},
      {-3, -5},
      {-1, -3},
      {0, -2},
      {1, -1},
      {2, 0},
      {3, 1},
      {4, 1},
      {5, 2},
      {10, 5},
      {20, 8},
      {21, 9},
      {100, 21},
      {1000, 47},
      {65535, 122},
      {1000000, 190},
      {999'999'999'999'999'999, 1717}};
  for (const auto& [value, bucket] : table)
    EXPECT_EQ(click_bucket(value), bucket) << value;
  for (int64_t value = 3; value < 20000; ++value) {
    const long double log = std::log(static_cast<long double>(value));
    ASSERT_EQ(click_bucket(value), static_cast<int32_t>(log * log)) << value;
  }
}

TEST(CriteoTsv, OrdersAndShowsValues) {
  const auto minus_two = static_cast<ClickKey>(static_cast<uint32_t>(-2));
  EXPECT_TRUE(click_key_less(0, minus_two, 1));
  EXPECT_FALSE(click_key_less(13, minus_two, 1));
  EXPECT_TRUE(click_key_less(0, kMissingKey, minus_two));
  EXPECT_TRUE(click_key_less(13, kMissingKey, 0));
  EXPECT_FALSE(click_key_less(13, kMissingKey, kMissingKey));
  EXPECT_EQ(click_value_text(0, minus_two), "-2");
  EXPECT_EQ(click_value_text(13, 0x1a), "0000001a");
  EXPECT_EQ(click_value_text(0, kMissingKey), "");
  EXPECT_EQ(click_value_text(13, kMissingKey), "");
}

TEST(CriteoTsv, TakesEveryFormOfAValue) {
  ClickLines lines;
  const std::string good = line_with(1, "-5") + line_with(1, "") +
                           line_with(1, "007") + line_with(39, "") +
                           line_with(39, "FfFfFfFf") + line_with(39, "0a") +
                           line_with(1, "999999999999999999");
  lines.parse(good, ClickLines::OnBad::kStop);
  EXPECT_EQ(lines.fault(), "");
  ASSERT_EQ(lines.records(), 7);
  EXPECT_EQ(lines.keys(0)[0], static_cast<uint32_t>(-7));
  EXPECT_EQ(lines.keys(0)[1], kMissingKey);
  EXPECT_EQ(lines.keys(0)[2], 3u);  // floor(ln(7)^2 = 3.79)
  EXPECT_EQ(lines.keys(38)[3], kMissingKey);
  EXPECT_EQ(lines.keys(38)[4], 0xffffffffu);
  EXPECT_EQ(lines.keys(38)[5], 10u);
  EXPECT_EQ(lines.keys(0)[6], 1717u);
  for (int i = 0; i < 7; ++i) EXPECT_EQ(lines.labels()[i], 1);
}

TEST(CriteoTsv, NamesEveryFault) {
  const std::string good = line_with(1, "1");
  for (const ClickFault& fault : click_faults()) {
    ClickLines lines;
    const std::string text = good + good + fault.line + good + fault.line;
    lines.parse(text, ClickLines::OnBad::kStop);
    EXPECT_EQ(lines.fault(), fault.said);
    EXPECT_EQ(lines.bad_line(), 2);
    EXPECT_EQ(lines.records(), 2);
    lines.parse(text, ClickLines::OnBad::kSkip);
    EXPECT_EQ(lines.fault(), fault.said);
    EXPECT_EQ(lines.bad_line(), 2);
    EXPECT_EQ(lines.records(), 3);
    EXPECT_EQ(lines.bad_lines(), 2);
  }
}

// Blocks of every size give the lines of the file; long lines stay bad.
TEST(LineBlocks, HoldWholeLines) {
  const ScratchFolder folder;
  const std::string text = "a\n\nbcd\n" + std::string(50, 'x') + "\nefghij";
  write_bytes(folder / "plain", text);
  write_gz(folder / "packed", text);
  for (const char* name : {"plain", "packed"})
    for (int64_t block_bytes = 1; block_bytes < 80; ++block_bytes) {
      LineBlocks blocks(folder / name, block_bytes, 8);
      std::string all, block;
      for (blocks.next(block); !block.empty(); blocks.next(block)) {
        EXPECT_EQ(block.back(), '\n');
        all += block;
      }
      const size_t x = all.find('x'), y = all.find('\n', x);
      EXPECT_GT(y - x, 8u);
      EXPECT_EQ(all.substr(0, x), "a\n\nbcd\n");
      EXPECT_EQ(all.substr(y), "\nefghij\n") << block_bytes;
      EXPECT_EQ(blocks.text_bytes(), std::ssize(text));
      EXPECT_EQ(blocks.file_offset(), blocks.file_bytes());
    }
}

std::string all_lines(const fs::path& path, int64_t block_bytes) {
  LineBlocks blocks(path, block_bytes, 8);
  std::string all, block;
  for (blocks.next(block); !block.empty(); blocks.next(block)) all += block;
  EXPECT_EQ(blocks.file_offset(), blocks.file_bytes());
  return all;
}

// Some megabytes of lines, which do not fit any buffer, as two members.
TEST(LineBlocks, ReadEveryMember) {
  const ScratchFolder folder;
  std::string first, second;
  for (int64_t i = 0; i < 400000; ++i)
    first += fmt::format("{}\n", i * 7919 % 99991);
  for (int i = 0; i < 100000; ++i) second += fmt::format("{}\n", i);
  const std::string packed = gzipped(first) + gzipped(second);
  for (const std::string& padding :
       {std::string(), std::string(600000, '\0')}) {
    write_bytes(folder / "a.gz", packed + padding);
    for (const int64_t block_bytes : {4096, 1 << 20})
      EXPECT_TRUE(all_lines(folder / "a.gz", block_bytes) == first + second);
  }
}

TEST(LineBlocks, RefuseWhatFollowsTheMembers) {
  const ScratchFolder folder;
  const fs::path path = folder / "a.gz";
  const std::string first = gzipped("a\nb\n"), second = gzipped("c\n");
  const auto refuse = [&](const std::string& bytes, const std::string& what) {
    write_bytes(path, bytes);
    expect_error(ExitCode::kBadInput,
                 fmt::format("{}: offset {} ({:#x}): {}", path.string(),
                             first.size(), first.size(), what),
                 [&] { all_lines(path, 100); });
  };
  const std::string follow =
      "bytes follow the gzip data, expected another member or the end";
  refuse(first + changed_at(second, 0), follow);
  refuse(first + "more", follow);
  for (const auto& [bytes, what] :
       {std::pair(changed_at(second, 1), "damaged gzip data: incorrect header"),
        std::pair(changed_at(second, second.size() - 6),
                  "damaged gzip data: incorrect data check"),
        std::pair(second.substr(0, 1), "the gzip data ends early"),
        std::pair(second.substr(0, second.size() - 1),
                  "the gzip data ends early"),
        std::pair(std::string(5, '\0') + second,
                  "bytes follow the gzip data")}) {
    write_bytes(path, first + bytes);
    expect_error_has(ExitCode::kBadInput, what, [&] { all_lines(path, 100); });
  }
}

TEST(ClickVocabulary, CountsAndFinds) {
  ValueCounts counts;
  std::map<ClickKey, int64_t> expected;
  Rng rng(1, Purpose::kTest);
  for (int part = 0; part < 5; ++part) {
    std::vector<ClickKey> keys;
    std::vector<uint8_t> left_out;
    for (int i = 0; i < 10000; ++i) {
      // Neighbours and multiples of 2^20 collide if anything does.
      const uint64_t draw = rng.below(1 + rng.below(4000));
      keys.push_back(draw == 0       ? kMissingKey
                     : draw % 2 == 0 ? draw
                                     : draw << 20 & 0xffffffff);
      left_out.push_back(rng.below(4) == 0 ? 1 : 0);
      if (left_out.back() == 0) ++expected[keys.back()];
    }
    counts.add(keys, left_out.data());
  }
  for (const int64_t threshold : {1, 2, 10, 1000}) {
    auto found = counts.at_least(threshold);
    std::sort(found.begin(), found.end(),
              [](const auto& a, const auto& b) { return a.key < b.key; });
    std::vector<ClickKey> keys;
    size_t place = 0;
    for (const auto& [key, records] : expected) {
      keys.push_back(key);
      if (records < threshold) continue;
      ASSERT_LT(place, found.size());
      EXPECT_EQ(found[place].key, key);
      EXPECT_EQ(found[place].records, records);
      ++place;
    }
    EXPECT_EQ(place, found.size());
    std::vector<uint32_t> rows(keys.size());
    RowTable(found).find(keys, rows.data());
    uint32_t row = 0;
    for (size_t i = 0; i < keys.size(); ++i)
      EXPECT_EQ(rows[i], expected[keys[i]] < threshold ? 0 : ++row);
  }
}

}  // namespace
}  // namespace syncopate
