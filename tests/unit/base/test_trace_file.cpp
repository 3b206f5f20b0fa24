// Files of traces: JSON's strings, a bounded buffer, files that are complete at
// any moment, continuing and joining.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/trace_parts.h"
#include "support/expect_error.h"
#include "support/scratch_folder.h"

namespace syncopate {
namespace {

using Json = nlohmann::json;

Json parsed(const fs::path& path) {
  return Json::parse(read_file(path));
}

std::string event(int worker, const std::string& rest) {
  return fmt::format("{{\"pid\":{},{}}}", worker, rest);
}

std::string boundary(int worker, int64_t step) {
  return event(worker, "\"tid\":1,\"ph\":\"i\"," + trace_boundary(step));
}

std::string arrow(int worker, const char* end, const std::string& id) {
  return event(worker,
               fmt::format("\"tid\":3,\"ph\":\"{}\",\"id\":\"{}\"", end, id));
}

std::vector<std::string> events_in(const fs::path& path) {
  std::vector<std::string> events;
  const Json whole = parsed(path);
  for (const Json& one : whole["traceEvents"])
    events.push_back(one.value("id", "") + one.value("name", "") +
                     std::to_string(one["pid"].get<int>()));
  return events;
}

TEST(TraceFile, StringsAreWhatJsonReadsBack) {
  const std::string text =
      "a\"b\\c\n\t\x01\x7f \xC3\xA4 \xE2\x82\xAC \xF0\x9F\x98\x80";
  EXPECT_EQ(Json::parse(json_string(text)).get<std::string>(), text);
  EXPECT_EQ(json_string(""), "\"\"");
}

TEST(TraceFile, BytesThatAreNoTextAreReplaced) {
  for (const std::string_view text :
       {"\xff", "\xC0\x80", "\xE2\x82", "\xED\xA0\x80", "\xF4\x90\x80\x80",
        "\x80", "\xC3("})
    EXPECT_EQ(Json::parse(json_string(text)).get<std::string>().substr(0, 3),
              "\xEF\xBF\xBD");
}

TEST(TraceFile, TheBufferIsBoundedAndTheFileAlwaysComplete) {
  const ScratchFolder scratch;
  const fs::path path = scratch / "trace.json";
  TraceFile file(path, {{"scheme", json_string("b\"s\"p")}, {"workers", "4"}});
  EXPECT_TRUE(parsed(path)["traceEvents"].empty());
  size_t most = 0, shown = 0;
  constexpr size_t kEvents = 20000;
  for (size_t i = 0; i < kEvents; ++i) {
    file.add(event(0, fmt::format("\"name\":\"{:0100}\"", i)));
    most = std::max(most, file.buffered_bytes());
    if (i % 1000 != 0) continue;
    const Json now = parsed(path);
    EXPECT_LE(shown, now["traceEvents"].size());
    shown = now["traceEvents"].size();
  }
  EXPECT_LE(most, TraceFile::kBufferBytes);
  EXPECT_GT(shown, 0U);
  file.flush();
  EXPECT_EQ(parsed(path)["traceEvents"].size(), kEvents);
  EXPECT_EQ(parsed(path)["otherData"]["scheme"], "b\"s\"p");
  EXPECT_EQ(parsed(path)["otherData"]["workers"], 4);
}

TEST(TraceFile, WhatCannotBeCreatedIsAnError) {
  const ScratchFolder scratch;
  expect_error_has(ExitCode::kCannotCreate, "none/trace.json",
                   [&] { TraceFile(scratch / "none" / "trace.json", {}); });
}

TEST(TraceFile, StepsAreARange) {
  const auto steps = parse_trace_steps("3:17");
  ASSERT_TRUE(steps);
  EXPECT_EQ(steps->first, 3);
  EXPECT_EQ(steps->last, 17);
  for (const char* text : {"", "3", "0:4", "4:3", "1:x", ":", "1:2:3", "-1:4"})
    EXPECT_FALSE(parse_trace_steps(text)) << text;
}

// Worker 1 had gone on behind the boundary, and worker 2 never reached it.
TEST(TraceFile, ContinuesFromABoundary) {
  const ScratchFolder scratch;
  const fs::path path = scratch / "trace.json";
  {
    TraceFile file(path, {});
    for (const int worker : {0, 1, 2}) file.add(boundary(worker, 0));
    file.add(event(0, "\"name\":\"early\""));
    file.add(event(2, "\"name\":\"early\""));
    file.add(boundary(1, 7));
    file.add(event(1, "\"name\":\"late\""));
    file.add(boundary(0, 7));
    file.add(boundary(0, 70));
  }
  const auto file = continue_trace(path, {{"scheme", "\"asp\""}}, 7);
  file->add(event(0, "\"name\":\"new\""));
  file->flush();
  EXPECT_EQ(events_in(path),
            (std::vector<std::string>{"boundary0", "boundary1", "early0",
                                      "boundary1", "boundary0", "new0"}));
  EXPECT_EQ(parsed(path)["otherData"]["scheme"], "asp");
}

// Of steps 1 to 2 that were asked for before, whose checkpoint was at step 4;
// worker 1 came no further than its start.
TEST(TraceFile, KeepsStepsThatWereAskedForBefore) {
  const ScratchFolder scratch;
  const fs::path path = scratch / "trace.json";
  {
    TraceFile file(path, {});
    for (const int worker : {0, 1}) file.add(boundary(worker, 0));
    for (const int worker : {0, 1})
      file.add(event(worker, "\"name\":\"early\""));
    file.add(boundary(0, 4));
    file.add(event(0, "\"name\":\"late\""));
  }
  continue_trace(path, {}, 8)->flush();
  EXPECT_EQ(events_in(path),
            (std::vector<std::string>{"boundary0", "early0", "boundary0"}));
}

TEST(TraceFile, JoinsPartsAndDropsArrowsWithoutAnEnd) {
  const ScratchFolder scratch;
  const fs::path trace = scratch / "trace.json";
  EXPECT_FALSE(join_trace_parts(trace));
  const auto write = [&](int64_t step) {
    // Ranks of two digits: parts are in the order of numbers.
    for (const int rank : {0, 2, 10}) {
      TraceFile part(trace_part(trace, rank),
                     {{"clock", "\"wall\""}, {"workers", "3"}});
      part.add(boundary(rank, step));
      part.add(arrow(rank, rank == 0 ? "s" : "f", "whole"));
      part.add(arrow(rank, "s", fmt::format("begun{}", rank)));
      part.add(arrow(rank, "f", fmt::format("ended{}", rank)));
    }
  };
  write(0);
  EXPECT_TRUE(join_trace_parts(trace));
  const std::vector<std::string> joined = {
      "boundary0", "whole0", "boundary2", "whole2", "boundary10", "whole10"};
  EXPECT_EQ(events_in(trace), joined);
  EXPECT_EQ(parsed(trace)["otherData"]["clock"], "wall");
  EXPECT_EQ(parsed(trace)["otherData"]["workers"], 3);
  EXPECT_FALSE(fs::exists(trace_part(trace, 10)));

  // A process that started at step 0 replaces the file; one that resumed at a
  // boundary that the file does not have keeps nothing of it.
  write(0);
  EXPECT_TRUE(join_trace_parts(trace));
  EXPECT_EQ(events_in(trace), joined);
  write(5);
  EXPECT_TRUE(join_trace_parts(trace));
  EXPECT_EQ(events_in(trace), joined);
  write(5);
  EXPECT_TRUE(join_trace_parts(trace));
  EXPECT_EQ(events_in(trace).size(), joined.size() + 3);
}

TEST(TraceFile, KnowsWhenItEnds) {
  const ScratchFolder scratch;
  const fs::path path = scratch / "trace.json";
  EXPECT_EQ(trace_end_s(path), 0);
  TraceFile file(path, {});
  file.add(event(0, "\"ts\":2000000.000,\"dur\":500000.250"));
  file.add(event(0, "\"ts\":2400000.000,\"dur\":1.000"));
  file.flush();
  EXPECT_DOUBLE_EQ(trace_end_s(path), 2.50000025);
}

}  // namespace
}  // namespace syncopate
