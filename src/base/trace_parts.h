// Traces of more than one process: those that a run had one after the other,
// and the ranks of MPI, each of which writes a file of its own.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/trace_file.h"

namespace syncopate {

// The name and arguments, as members of an event, of the moment in which a
// worker is at a boundary of the run, after so many steps. A trace is continued
// from there.
std::string trace_boundary(int64_t step);

// Replaces the file by one with its events up to each worker's boundary at
// `step`, to which more are added. A worker without that boundary, and a file
// that does not exist, have none.
std::unique_ptr<TraceFile> continue_trace(const fs::path& path,
                                          const TraceFacts& facts,
                                          int64_t step);

// A row whose thread_name event names what it is for ("row" in its arguments).
struct TraceRow {
  int64_t thread = 0;
  std::string name;
  double end_s = 0;  // of its latest slice; 0: it has none
};
// The rows of each worker up to its boundary at `step`, in the order in which
// they were named.
std::map<int64_t, std::vector<TraceRow>> trace_rows(const fs::path& trace,
                                                    int64_t step);

// The file of a rank, beside `trace`, in which it is to be joined.
fs::path trace_part(const fs::path& trace, int rank);

// Joins all parts in `trace`, and removes them. If they go on with an earlier
// process, so does the file. Arrows of which a part lacks the other end are
// left out. Returns false if there are no parts.
bool join_trace_parts(const fs::path& trace);

// The end of the latest slice, in seconds; 0 without a file.
double trace_end_s(const fs::path& trace);

// The error of its ranks' clocks, as its facts state it; 0 without a file.
double trace_clock_error_s(const fs::path& trace);

}  // namespace syncopate
