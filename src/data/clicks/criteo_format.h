// The folder that prepare_criteo writes and load_clicks maps: file names,
// constants and the layout of a record.
//
//   clicks.h5       sealed header: rows per field, digests of all blocks
//   vocabulary.tsv  field, row, value, training records with the value
//   train.records   consecutive records; also test.records
//   train.labels    one byte per record, 0 or 1; also test.labels
//
// Records that were given an earlier vocabulary are a test set; the train files
// are then empty.
//
// A record stores its fields in order, each in as many bytes (1 to 4, little
// endian) as the rows of the field need. A batch reads thousands of random
// records. Stored by row, a record touches one or two pages; stored by column
// it would touch one page per field. Labels have their own file because
// samplers read all of them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <string>
#include <vector>

#include "base/file.h"
#include "data/batch.h"

namespace syncopate {

inline constexpr int64_t kClickIntegers = 13, kClickCategories = 26;
inline constexpr int64_t kClickFields = kClickIntegers + kClickCategories;

// "I1" ... "I13", "C1" ... "C26"
inline std::string click_field_name(int64_t field) {
  return field < kClickIntegers
             ? fmt::format("I{}", field + 1)
             : fmt::format("C{}", field - kClickIntegers + 1);
}

struct CriteoFiles {
  static constexpr const char* kKind = "syncopate prepared criteo";
  static constexpr int64_t kVersion = 1;
  // The attribute of a test set without training records: where its vocabulary
  // is from.
  static constexpr const char* kVocabularyOf = "vocabulary_of";
  // Records per digest: blocks of a few MB locate damage closely enough.
  static constexpr int64_t kBlockRecords = 65536;
  static constexpr std::array<const char*, 6> kNames = {
      "clicks.h5",    "vocabulary.tsv", "train.records",
      "train.labels", "test.records",   "test.labels"};

  explicit CriteoFiles(const fs::path& where)
      : folder(where),
        header(where / kNames[0]),
        vocabulary(where / kNames[1]) {}
  fs::path records(const std::string& set) const {
    return folder / (set + ".records");
  }
  fs::path labels(const std::string& set) const {
    return folder / (set + ".labels");
  }

  fs::path folder, header, vocabulary;
};

struct RecordLayout {
  explicit RecordLayout(const ClickSpec& spec) {
    for (const int64_t rows : spec.rows) {
      int bytes = 1;
      while (bytes < 4 && rows > int64_t{1} << (8 * bytes)) ++bytes;
      field_bytes.push_back(bytes);
      offsets.push_back(record_bytes);
      record_bytes += bytes;
    }
  }
  std::vector<int> field_bytes;
  std::vector<int64_t> offsets;
  int64_t record_bytes = 0;
};

}  // namespace syncopate
