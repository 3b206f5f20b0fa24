#include "comm/trace.h"

#include <algorithm>
#include <cmath>

#include <fmt/compile.h>

#include "base/check.h"
#include "comm/tags.h"

namespace syncopate {
namespace {

constexpr int kCompute = 1, kWaits = 2, kFirstRow = 3;
// More than two steps have; on a GPU, those of a step become known in the next.
constexpr int kWaitsKept = 32;
constexpr const char* kCommunication = "communication";

// Microseconds, as the format has them, to the nanosecond. Formats that are
// needed for every event are compiled.
std::string us(int64_t ns) {
  const char* sign = ns < 0 ? "-" : "";
  ns = std::abs(ns);
  return fmt::format(FMT_COMPILE("{}{}.{:03}"), sign, ns / 1000, ns % 1000);
}

// The finalizer of SplitMix64 (Steele, Lea & Flood 2014).
uint64_t mixed(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
  return x ^ (x >> 31);
}

// Not 0. Two messages of a trace share a number with a probability of their
// count squared / 2^65. `start` is the step from which this process counts.
uint64_t number_of(int64_t start, int from, int to, Tag tag, uint32_t serial) {
  const uint64_t ends =
      mixed(static_cast<uint64_t>(from) << 32 | static_cast<uint32_t>(to)) +
      (static_cast<uint64_t>(start) << 16 | static_cast<uint64_t>(tag)) *
          0x9E3779B97F4A7C15;
  return std::max<uint64_t>(1, mixed(mixed(ends) + serial));
}

uint64_t key_of(int from, int to, Tag tag) {
  static_assert(tags::kMaxTag < 1 << 16);
  return static_cast<uint64_t>(from) << 40 | static_cast<uint64_t>(to) << 16 |
         static_cast<uint64_t>(tag);
}

}  // namespace

// --- a worker ----------------------------------------------------------------

void WorkerTrace::start_at(int64_t step, Time now) {
  {
    const std::scoped_lock lock(trace_.mutex_);
    trace_.open(step);
    if (trace_.is_past_) return;
    is_open_ = true;
    start_ = step;
    ++trace_.num_open_;
    trace_.add(
        fmt::format("{{\"pid\":{},\"ph\":\"M\",\"name\":\"process_name\","
                    "\"args\":{{\"name\":{}}}}}",
                    rank_, json_string(trace_.setup_.process_name(rank_))));
    name_row(kCompute, "compute");
    name_row(kWaits, "waits");
    take_up_rows(trace_.earlier_rows_[rank_]);
  }
  boundary(step, now);
}

void WorkerTrace::boundary(int64_t step, Time now) {
  const std::scoped_lock lock(trace_.mutex_);
  if (trace_.file_ == nullptr || last_boundary_ >= trace_.setup_.steps.last)
    return;
  last_boundary_ = step;
  trace_.add(fmt::format(
      "{{\"pid\":{},\"tid\":{},\"ph\":\"i\",\"s\":\"p\","
      "\"ts\":{},{}}}",
      rank_, thread_of(kCompute), us(trace_.ns(now)), trace_boundary(step)));
  trace_.file_->flush();
}

void WorkerTrace::at_step(int64_t step) {
  const TraceSteps& steps = trace_.setup_.steps;
  step_ = step;
  is_on_ = is_open_ && step >= steps.first && step <= steps.last;
  if (!is_open_ || step <= steps.last) return;
  is_open_ = false;
  if (--trace_.num_open_ == 0) trace_.flush();
}

bool WorkerTrace::is_over() const {
  return trace_.num_open_ == 0;
}

void WorkerTrace::pause() {
  is_on_ = false;
}

void WorkerTrace::compute(const char* what, Time begin, Time end) {
  if (is_on_) compute(what, step_, begin, end);
}

void WorkerTrace::compute(const char* what,
                          int64_t step,
                          Time begin,
                          Time end) {
  const std::scoped_lock lock(trace_.mutex_);
  slice(kCompute, what, step, begin, end, "");
}

void WorkerTrace::wait(const char* what, Time begin, Time end) {
  if (is_on_) wait(what, step_, begin, end);
}

void WorkerTrace::wait(const char* what, int64_t step, Time begin, Time end) {
  const auto free = between_waits(begin, end);
  const std::scoped_lock lock(trace_.mutex_);
  for (const auto& [from, until] : free)
    slice(kWaits, what, step, from, until, "");
  waits_.insert(waits_.end(), free.begin(), free.end());
  std::ranges::sort(waits_);
  if (waits_.size() > kWaitsKept)
    waits_.erase(waits_.begin(), waits_.end() - kWaitsKept);
}

std::vector<std::pair<Time, Time>> WorkerTrace::between_waits(Time begin,
                                                              Time end) const {
  std::vector<std::pair<Time, Time>> free;
  for (const auto& [from, until] : waits_) {
    if (std::min(from, end) > begin)
      free.emplace_back(begin, std::min(from, end));
    begin = std::max(begin, until);
  }
  if (end > begin) free.emplace_back(begin, end);
  return free;
}

void WorkerTrace::take_up_rows(const std::vector<TraceRow>& rows) {
  for (const TraceRow& row : rows) {
    if (row.thread != thread_of(static_cast<int>(rows_.size()) + kFirstRow))
      return;  // not as this program writes them
    rows_.push_back({.name = row.name,
                     .end = trace_.setup_.zero + row.end_s,
                     .arrows = {}});
  }
}

// Rows are numbered in the order of their first use; 0 to kFirstRow - 1 have
// fixed names.
int WorkerTrace::row_of(const std::string& name, Time begin) {
  const int64_t begin_ns = trace_.ns(begin);
  int number = 0;
  for (size_t i = 0; i < rows_.size(); ++i) {
    if (rows_[i].name != name) continue;
    ++number;
    if (!rows_[i].is_taken && trace_.ns(rows_[i].end) <= begin_ns)
      return static_cast<int>(i) + kFirstRow;
  }
  rows_.push_back({.name = name, .end = begin, .arrows = {}});
  const int row = static_cast<int>(rows_.size()) - 1 + kFirstRow;
  name_row(row, number == 0 ? name : fmt::format("{} {}", name, number + 1),
           name);
  return row;
}

WorkerTrace::Exchange WorkerTrace::begin(std::string name,
                                         const std::string& row,
                                         Time now) {
  const std::scoped_lock lock(trace_.mutex_);
  const int free = row_of(row.empty() ? kCommunication : row, now);
  rows_[free - kFirstRow].is_taken = true;
  rows_[free - kFirstRow].begin = now;
  return {.row = free, .step = step_, .begin = now, .name = std::move(name)};
}

void WorkerTrace::end(const Exchange& exchange, Time now) {
  const std::scoped_lock lock(trace_.mutex_);
  Row& row = rows_[exchange.row - kFirstRow];
  row.is_taken = false;
  row.end = std::max(now, exchange.begin);
  slice(exchange.row, exchange.name, exchange.step, exchange.begin, row.end,
        fmt::format(",\"bytes_sent\":{},\"bytes_received\":{},\"messages\":{}",
                    exchange.bytes_sent, exchange.bytes_received,
                    exchange.messages));
  for (const std::string& arrow : row.arrows) trace_.add(arrow);
  row.arrows.clear();
}

void WorkerTrace::communication(const std::string& name,
                                int64_t step,
                                Time begin,
                                Time end,
                                int64_t bytes) {
  const std::scoped_lock lock(trace_.mutex_);
  const int row = row_of(kCommunication, begin);
  rows_[row - kFirstRow].end = end;
  slice(row, name, step, begin, end, fmt::format(",\"bytes\":{}", bytes));
}

uint64_t WorkerTrace::next_sent(int from, int to, Tag tag) {
  const std::scoped_lock lock(trace_.mutex_);
  return number_of(start_, from, to, tag, num_sent_[key_of(from, to, tag)]++);
}

uint64_t WorkerTrace::next_received(int from, int to, Tag tag) {
  const std::scoped_lock lock(trace_.mutex_);
  return number_of(start_, from, to, tag,
                   num_received_[key_of(from, to, tag)]++);
}

void WorkerTrace::sends(uint64_t message, const Exchange& exchange, Time now) {
  const std::scoped_lock lock(trace_.mutex_);
  if (trace_.setup_.has_all_workers)
    trace_.under_way_[message] = {rank_, exchange.row, trace_.ns(now)};
  else
    arrow(exchange.row, message, trace_.ns(now), false);
}

void WorkerTrace::receives(uint64_t message,
                           const Exchange* exchange,
                           Time now) {
  const std::scoped_lock lock(trace_.mutex_);
  if (trace_.setup_.has_all_workers) {
    const auto sent = trace_.under_way_.find(message);
    if (sent == trace_.under_way_.end()) return;
    const Trace::Sent from = sent->second;
    trace_.under_way_.erase(sent);
    if (exchange != nullptr)
      trace_.workers_.at(from.rank)->arrow(from.row, message, from.at_ns,
                                           false);
  }
  if (exchange != nullptr) arrow(exchange->row, message, trace_.ns(now), true);
}

// The two ends have a category and a name in common. The end belongs to the
// slice that it lies in ("bp":"e"), not to the next one. Of events at the same
// time, viewers go by their order in the file: an arrow comes after its slice.
void WorkerTrace::arrow(int row, uint64_t message, int64_t at_ns, bool is_end) {
  if (trace_.file_ == nullptr) return;
  std::string event = fmt::format(
      FMT_COMPILE("{{\"pid\":{},\"tid\":{},\"ph\":\"{}\",\"id\":\"0x{:x}\","
                  "\"ts\":{},\"cat\":\"message\",\"name\":\"message\"{}}}"),
      rank_, thread_of(row), is_end ? "f" : "s", message, us(at_ns),
      is_end ? ",\"bp\":\"e\"" : "");
  ++trace_.num_recorded_;
  Row& own = rows_[row - kFirstRow];
  if (own.is_taken && at_ns >= trace_.ns(own.begin))
    own.arrows.push_back(std::move(event));
  else
    trace_.add(event);
}

void WorkerTrace::refer_to(std::shared_ptr<Event> event, Time at) {
  reference_ = std::move(event);
  reference_at_ = at;
}

void WorkerTrace::slice(int row,
                        std::string_view name,
                        int64_t step,
                        Time begin,
                        Time end,
                        const std::string& more) {
  if (trace_.file_ == nullptr) return;
  const int64_t begin_ns = trace_.ns(begin), end_ns = trace_.ns(end);
  trace_.add(fmt::format(
      FMT_COMPILE("{{\"pid\":{},\"tid\":{},\"ph\":\"X\",\"ts\":{},\"dur\":{},"
                  "\"name\":{},\"args\":{{\"step\":{}{}}}}}"),
      rank_, thread_of(row), us(begin_ns), us(end_ns - begin_ns),
      json_string(name), step, more));
  ++trace_.num_recorded_;
}

void WorkerTrace::name_row(int row,
                           const std::string& name,
                           const std::string& base) {
  if (trace_.file_ == nullptr) return;
  const auto add = [&](const char* what, const std::string& value) {
    trace_.add(fmt::format(
        "{{\"pid\":{},\"tid\":{},\"ph\":\"M\",\"name\":\"thread_{}\","
        "\"args\":{{{}}}}}",
        rank_, thread_of(row), what, value));
  };
  std::string names = fmt::format("\"name\":{}", json_string(name));
  if (!base.empty()) names += fmt::format(",\"row\":{}", json_string(base));
  add("name", names);
  add("sort_index", fmt::format("\"sort_index\":{}", row));
}

// --- a process ---------------------------------------------------------------

WorkerTrace& Trace::worker(int rank) {
  const std::scoped_lock lock(mutex_);
  std::unique_ptr<WorkerTrace>& worker = workers_[rank];
  if (worker == nullptr) worker = std::make_unique<WorkerTrace>(*this, rank);
  return *worker;
}

// The first worker to start opens the file for all.
void Trace::open(int64_t step) {
  if (file_ != nullptr || is_past_) return;
  is_past_ = step >= setup_.steps.last;
  if (is_past_) return;
  file_ = step > 0 && setup_.continues
              ? continue_trace(setup_.path, setup_.facts, step)
              : std::make_unique<TraceFile>(setup_.path, setup_.facts);
  if (step > 0 && !setup_.earlier.empty())
    earlier_rows_ = trace_rows(setup_.earlier, step);
}

void Trace::add(std::string_view event) {
  file_->add(event);
}

int64_t Trace::ns(Time at) const {
  return std::llround((at - setup_.zero) * 1e9);
}

void Trace::flush() {
  const std::scoped_lock lock(mutex_);
  if (file_ != nullptr) file_->flush();
}

}  // namespace syncopate
