// What workers did when, as slices of a trace (base/trace_file.h): a process
// per worker, with rows for computation, waits and communication, and arrows
// from a message's sender to its receiver.
//
// A null WorkerTrace* stands for a run without one. Under MPI, the worker's
// thread and its communication thread call concurrently.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/trace_parts.h"
#include "comm/endpoint.h"

namespace syncopate {

class Trace;

// One worker's part.
class WorkerTrace {
 public:
  WorkerTrace(Trace& trace, int rank) : trace_(trace), rank_(rank) {}

  // Collective, when nothing is in flight and `step` steps are done, before the
  // first of this process and before each checkpoint is written. A process that
  // resumes from there drops what came later.
  void start_at(int64_t step, Time now);
  void boundary(int64_t step, Time now);

  // What follows is part of this step, counted from 1, or of none.
  void at_step(int64_t step);
  void pause();
  // Whether that step is in the window.
  bool is_on() const { return is_on_; }
  int64_t step() const { return step_; }
  // Whether there is nothing left to record for any worker of this process.
  bool is_over() const;

  // Record an interval of the current step, or of an earlier step that was
  // traced. A wait is recorded without what it has in common with earlier ones.
  void compute(const char* what, Time begin, Time end);
  void compute(const char* what, int64_t step, Time begin, Time end);
  void wait(const char* what, Time begin, Time end);
  void wait(const char* what, int64_t step, Time begin, Time end);
  // The parts of an interval that the last waits leave over.
  std::vector<std::pair<Time, Time>> between_waits(Time begin, Time end) const;

  // A slice of communication in the making, on a row that no other one has.
  struct Exchange {
    int row = 0;
    int64_t step = 0;
    Time begin = 0;
    std::string name;
    int64_t bytes_sent = 0, bytes_received = 0, messages = 0;
  };
  // Rows of the same name are numbered from 2.
  Exchange begin(std::string name, const std::string& row, Time now);
  void end(const Exchange& exchange, Time now);
  void communication(const std::string& name,
                     int64_t step,
                     Time begin,
                     Time end,
                     int64_t bytes);

  // Numbers the messages between two ranks with the same tag, which arrive in
  // order, so that both ends know a message by the same number. This worker, or
  // its parameter server, is the sender, or the receiver.
  uint64_t next_sent(int from, int to, Tag tag);
  uint64_t next_received(int from, int to, Tag tag);
  // A message leaves an exchange, and arrives in one; null: in none.
  void sends(uint64_t message, const Exchange& exchange, Time now);
  void receives(uint64_t message, const Exchange* exchange, Time now);

  // The moment at which a device reaches an event, from another of which the
  // time is known. Both must be complete.
  void refer_to(std::shared_ptr<Event> event, Time at);
  bool has_reference() const { return reference_ != nullptr; }
  Time time_of(const Event& event) const {
    return reference_at_ + event.seconds_since(*reference_);
  }

 private:
  struct Row {
    std::string name;
    bool is_taken = false;
    Time begin = 0, end = 0;          // of its last slice
    std::vector<std::string> arrows;  // of the slice in the making
  };
  int row_of(const std::string& name, Time begin);
  // Viewers take the thread that has its process's number for the main one.
  int thread_of(int row) const { return 100 * rank_ + row; }
  void slice(int row,
             std::string_view name,
             int64_t step,
             Time begin,
             Time end,
             const std::string& more);
  void take_up_rows(const std::vector<TraceRow>& rows);
  // `base`: the name without a number; empty for a fixed row.
  void name_row(int row, const std::string& name, const std::string& base = "");
  void arrow(int row, uint64_t message, int64_t at_ns, bool is_end);

  Trace& trace_;
  const int rank_;
  int64_t start_ = 0, step_ = 0, last_boundary_ = -1;
  bool is_open_ = false;             // not beyond the window
  std::atomic<bool> is_on_ = false;  // the communication thread asks too
  std::vector<Row> rows_;
  std::vector<std::pair<Time, Time>> waits_;  // the last ones
  std::unordered_map<uint64_t, uint32_t> num_sent_, num_received_;
  std::shared_ptr<Event> reference_;
  Time reference_at_ = 0;
};

// The trace of a process, of all its workers.
class Trace {
 public:
  struct Setup {
    fs::path path;
    TraceSteps steps;
    TraceFacts facts;
    std::function<std::string(int rank)> process_name;
    Time zero = 0;  // of this process's clock: the trace begins here
    // Whether both ends of every message are here. Otherwise arrows without an
    // end remain in the file.
    bool has_all_workers = true;
    // Whether to go on with what is in the file, if the run resumes.
    bool continues = true;
    // The trace of earlier processes of the run, whose rows go on. Empty: none.
    fs::path earlier = {};
  };
  explicit Trace(Setup setup) : setup_(std::move(setup)) {}

  WorkerTrace& worker(int rank);
  const Setup& setup() const { return setup_; }
  // Slices and arrows recorded by this process.
  int64_t num_recorded() const { return num_recorded_; }
  // Whether all steps of the window were done before this process started.
  bool is_past() const { return is_past_; }
  void flush();

 private:
  friend class WorkerTrace;
  struct Sent {
    int rank, row;
    int64_t at_ns;
  };
  void open(int64_t step);
  int64_t ns(Time at) const;
  void add(std::string_view event);

  const Setup setup_;
  std::mutex mutex_;
  std::map<int, std::unique_ptr<WorkerTrace>> workers_;  // by rank
  std::unique_ptr<TraceFile> file_;
  std::map<int64_t, std::vector<TraceRow>> earlier_rows_;  // by rank
  bool is_past_ = false;
  int64_t num_recorded_ = 0;
  std::atomic<int> num_open_ = 0;                 // workers
  std::unordered_map<uint64_t, Sent> under_way_;  // if all workers are here
};

}  // namespace syncopate
