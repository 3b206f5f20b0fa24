// A file of events in the format that ui.perfetto.dev and chrome://tracing
// open:
//
//   {"otherData":{FACTS},
//   "traceEvents":[
//   {"pid":0,...},
//   {"pid":1,...}
//   ]}
//
// One event a line. Every flush leaves a complete file behind, so what a killed
// process leaves is valid too.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/file.h"

namespace syncopate {

// Steps of a worker, counted from 1, both inclusive.
struct TraceSteps {
  int64_t first = 1, last = 1;
};
// "FIRST:LAST"; nullopt for any other text or an empty window.
std::optional<TraceSteps> parse_trace_steps(std::string_view text);

// The text as a string of JSON, in quotes. Invalid UTF-8 becomes U+FFFD.
std::string json_string(std::string_view text);

// Names and values; a value is JSON.
using TraceFacts = std::vector<std::pair<std::string, std::string>>;

class TraceFile {
 public:
  static constexpr size_t kBufferBytes = 1 << 16;

  // Creates or replaces the file. Throws Error(kCannotCreate).
  TraceFile(const fs::path& path, const TraceFacts& facts);
  TraceFile(const TraceFile&) = delete;
  TraceFile& operator=(const TraceFile&) = delete;
  ~TraceFile();  // flushes; a failure then leaves the last complete file

  // Adds an event: a JSON object without line breaks that begins with its pid.
  // Written once the buffer is full; throws Error(kIoError).
  void add(std::string_view event);
  void flush();
  // Gives the file another name.
  void rename(const fs::path& path);

  const fs::path& path() const { return path_; }
  size_t buffered_bytes() const { return buffer_.size(); }

 private:
  fs::path path_;
  int file_ = -1;
  std::string buffer_;
  int64_t end_ = 0;  // of the events in the file
  int64_t num_events_ = 0;
};

}  // namespace syncopate
