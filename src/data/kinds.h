// The table of the kinds of data (data.kind): name, kind of samples, reader and
// the description that `list data` prints.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/options.h"

namespace syncopate {

struct ClickData;
struct Dataset;
struct QuestionTexts;

enum class Samples : uint8_t { kImages, kQuestions, kClicks };

struct DataKind {
  std::string name;
  Samples samples;
  std::string description;
  // The reader: exactly one of these is set.
  Dataset (*read_images)(const DataOptions&) = nullptr;
  QuestionTexts (*open_questions)(const DataOptions&) = nullptr;
  ClickData (*read_clicks)(const DataOptions&) = nullptr;
  bool is_made = false;       // generated: data.path is not used
  bool is_one_file = false;   // data.path names a file, not a folder
  bool is_read_late = false;  // images are read when a batch needs them
  int64_t side = 0;           // of images, in pixels, if the format fixes it
};

// All kinds in the order of `list data`: images, questions, clicks.
const std::vector<DataKind>& data_kind_table();
const DataKind* find_data_kind(const std::string& name);  // nullptr if unknown

// Names of the kinds of data that have such samples.
std::vector<std::string> kinds_of(Samples samples);
// Whether the samples are generated, so that data.path is not used.
bool is_synthetic(const std::string& kind);

}  // namespace syncopate
