// Generated lines of clicks, and what is read of prepared ones.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <map>

#include "base/rng.h"
#include "base/text.h"
#include "data/click_set.h"
#include "data/criteo_format.h"
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
  std::vector<std::string> left() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder / ""))
      names.push_back(entry.path().filename());
    std::sort(names.begin(), names.end());
    return names;
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

template <typename Act>
Error click_error(const Act& act) {
  try {
    act();
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
    return error;
  }
  ADD_FAILURE() << "done without an error";
  return Error(ExitCode::kDone, "");
}

template <typename Act>
void expect_click_error(ExitCode code,
                        const std::string& line,
                        const Act& act) {
  const Error error = click_error(act);
  EXPECT_EQ(error.code(), code) << error.what();
  EXPECT_EQ(std::string(error.what()), line);
}

}  // namespace syncopate
