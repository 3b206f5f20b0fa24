// Generated lines of clicks, and what is read of prepared ones.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <map>

#include "base/rng.h"
#include "base/text.h"
#include "data/clicks/click_set.h"
#include "data/clicks/criteo_format.h"
#include "data_files.h"

namespace syncopate {

using ClickRow = std::vector<std::string>;  // label and 39 fields

inline std::string click_line(const ClickRow& row) {
  return join(row, "\t") + "\n";
}

// Few values, some of them rare, some negative, some missing.
inline ClickRow make_click_row(uint64_t number) {
  Rng rng(5, Purpose::kTest, number);
  ClickRow row = {rng.below(4) == 0 ? "1" : "0"};
  for (int64_t field = 0; field < kClickFields; ++field) {
    const uint64_t draw = rng.below(1 + rng.below(30));
    if (rng.below(8) == 0)
      row.push_back("");
    else if (field < kClickIntegers)
      row.push_back(fmt::format("{}", static_cast<int64_t>(draw * draw) - 2));
    else
      row.push_back(fmt::format("{:08x}", draw * 0x89abcdef & 0xffffffff));
  }
  return row;
}

inline std::vector<ClickRow> make_click_rows(uint64_t count) {
  std::vector<ClickRow> rows;
  for (uint64_t i = 0; i < count; ++i) rows.push_back(make_click_row(i));
  return rows;
}

inline std::string click_text(const std::vector<ClickRow>& rows) {
  std::string text;
  for (const ClickRow& row : rows) text += click_line(row);
  return text;
}

// A good line with one field replaced.
inline std::string line_with(size_t field, const std::string& text) {
  ClickRow row(40, "7");
  row[0] = "1";
  row[field] = text;
  return click_line(row);
}

// A bad line, and the message after its line number.
struct ClickFault {
  std::string line, said;
};

inline std::vector<ClickFault> click_faults() {
  const std::string integer =
      ", expected a whole number of at most 18 digits, at least -2147483645, "
      "or nothing";
  const std::string category =
      ", expected up to 8 hexadecimal digits or nothing";
  const std::string shape =
      ", expected 40: a label, 13 integers and 26 categories";
  const std::string good = line_with(1, "1");
  const std::string tabs(39, '\t');
  return {
      {"\n", ": 1 tab-separated field" + shape},
      {"\r\n", ": 1 tab-separated field" + shape},
      {fmt::format("1{}\n", tabs.substr(1)),
       ": 39 tab-separated fields" + shape},
      {fmt::format("1{}\t\n", tabs), ": 41 tab-separated fields" + shape},
      {good.substr(2), ": 39 tab-separated fields" + shape},
      {line_with(0, "2"), ", field 1 (label): '2', expected 0 or 1"},
      {line_with(0, ""), ", field 1 (label): '', expected 0 or 1"},
      {line_with(0, "01"), ", field 1 (label): '01', expected 0 or 1"},
      {line_with(0, "-1"), ", field 1 (label): '-1', expected 0 or 1"},
      {line_with(1, "x"), ", field 2 (I1): 'x'" + integer},
      {line_with(2, "1.5"), ", field 3 (I2): '1.5'" + integer},
      {line_with(3, "-"), ", field 4 (I3): '-'" + integer},
      {line_with(4, "+1"), ", field 5 (I4): '+1'" + integer},
      {line_with(5, " 1"), ", field 6 (I5): ' 1'" + integer},
      {line_with(6, "--1"), ", field 7 (I6): '--1'" + integer},
      {line_with(7, "1a"), ", field 8 (I7): '1a'" + integer},
      {line_with(13, "1000000000000000000"),
       ", field 14 (I13): '1000000000000000000'" + integer},
      {line_with(13, "-2147483646"),
       ", field 14 (I13): '-2147483646'" + integer},
      {line_with(8, std::string("1\0", 2)),
       ", field 9 (I8): '1\\x00'" + integer},
      {line_with(14, "g"), ", field 15 (C1): 'g'" + category},
      {line_with(39, "123456789"), ", field 40 (C26): '123456789'" + category},
      {line_with(39, std::string(1, '\0')),
       ", field 40 (C26): '\\x00'" + category},
      {line_with(20, "\xc3\xa9"), ", field 21 (C7): '\\xc3\\xa9'" + category},
      {line_with(39, "1\r\r"), ", field 40 (C26): '1\\x0d'" + category},
      {line_with(30, std::string(100, 'a')),
       ", field 31 (C17): 'aaaaaaaaaaaaaaaaaaaaaaaa...'" + category},
      {std::string(5000, '1') + "\n",
       ": longer than 4096 bytes, expected 40 fields"},
  };
}

// A TSV and the folder that it is prepared into.
struct ClickFolders {
  ScratchFolder folder;
  fs::path from = folder / "raw.tsv", to = folder / "ready";

  explicit ClickFolders(const std::string& text) { write_bytes(from, text); }
  PrepareCriteo wanted() const {
    PrepareCriteo wanted;
    wanted.from = from;
    wanted.to = to;
    return wanted;
  }
  PreparedCriteo run() const { return prepare_criteo(wanted()); }
  ClickData load() const { return load_clicks(options_for("criteo", to)); }
  // All that was written, one file after the other.
  std::string bytes() const {
    std::string all;
    for (const char* name : CriteoFiles::kNames) all += read_bytes(to / name);
    return all;
  }
};

// vocabulary.tsv: by field, the value of each row.
inline std::map<std::string, std::vector<std::string>> read_vocabulary(
    const fs::path& path) {
  std::map<std::string, std::vector<std::string>> values;
  bool is_first = true;
  for (const std::string& line : split(read_bytes(path), '\n')) {
    const auto parts = split(line, '\t');
    if (!is_first && parts.size() == 4) {
      EXPECT_EQ(parts[1], fmt::format("{}", values[parts[0]].size()));
      values[parts[0]].push_back(parts[2]);
    }
    is_first = false;
  }
  return values;
}

}  // namespace syncopate
