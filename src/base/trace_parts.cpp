#include "base/trace_parts.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <functional>
#include <map>
#include <set>
#include <unordered_set>

#include <fmt/format.h>

#include "base/error.h"
#include "base/text.h"

namespace syncopate {
namespace {

// The events of a file that TraceFile has written, each without the comma after
// it.
void each_event(const fs::path& path,
                const std::function<void(std::string_view)>& use) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    std::string_view event = line;
    if (event.ends_with(',')) event.remove_suffix(1);
    if (event.starts_with("{\"pid\":") && event.ends_with('}')) use(event);
  }
}

// What follows `"name":` in an event; numbers and strings without escapes.
std::string_view value_of(std::string_view event, std::string_view name) {
  const std::string key = fmt::format("\"{}\":", name);
  const size_t at = event.find(key);
  if (at == std::string_view::npos) return {};
  event.remove_prefix(at + key.size());
  if (!event.starts_with('"'))
    return event.substr(0, event.find_first_of(",}"));
  return event.substr(1, event.find('"', 1) - 1);
}

constexpr std::string_view kBoundary = "\"name\":\"boundary\"";

// The step of a boundary; -1 for any other event.
int64_t boundary_step(std::string_view event) {
  if (event.find(kBoundary) == std::string_view::npos) return -1;
  return parse_int(value_of(event, "step")).value_or(0);
}

// The events up to each worker's boundary, or up to the last one before it if
// the steps that were asked for ended there. None of a worker that has only the
// boundary where it started.
void each_event_until(int64_t step,
                      const fs::path& from,
                      const std::function<void(std::string_view)>& use) {
  struct Bounds {
    int64_t first, last;
  };
  std::map<std::string, Bounds, std::less<>> open;  // by worker
  each_event(from, [&](std::string_view event) {
    const int64_t here = boundary_step(event);
    if (here < 0 || here > step) return;
    const std::string worker(value_of(event, "pid"));
    open.try_emplace(worker, Bounds{here, here}).first->second.last = here;
  });
  std::erase_if(open, [&](const auto& entry) {
    return entry.second.first == entry.second.last && entry.second.last < step;
  });
  each_event(from, [&](std::string_view event) {
    const auto worker = open.find(value_of(event, "pid"));
    if (worker == open.end()) return;
    use(event);
    if (boundary_step(event) == worker->second.last) open.erase(worker);
  });
}

void add_until(TraceFile& file, const fs::path& from, int64_t step) {
  each_event_until(step, from,
                   [&](std::string_view event) { file.add(event); });
}

double end_us(std::string_view event) {
  return parse_double(value_of(event, "ts")).value_or(0) +
         parse_double(value_of(event, "dur")).value_or(0);
}

// The step of the first boundary, where the process started.
int64_t first_boundary(const fs::path& part) {
  int64_t step = -1;
  each_event(part, [&](std::string_view event) {
    if (step < 0) step = boundary_step(event);
  });
  return std::max<int64_t>(step, 0);
}

// The facts of another file, as they are there.
TraceFacts facts_of(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  const std::string_view begin = "{\"otherData\":{", end = "},";
  if (!line.starts_with(begin) || !line.ends_with(end)) return {};
  line = line.substr(begin.size(), line.size() - begin.size() - end.size());
  const size_t colon = line.find(':');
  if (colon == std::string::npos) return {};
  // The first name, and all that follows it as its value.
  return {{line.substr(1, colon - 2), line.substr(colon + 1)}};
}

bool is_arrow(std::string_view event) {
  const std::string_view kind = value_of(event, "ph");
  return kind == "s" || kind == "f";
}

// The arrows of which both ends are there.
std::unordered_set<std::string> whole_arrows(
    const std::vector<fs::path>& parts) {
  std::unordered_set<std::string> begun, whole;
  for (const std::string_view end : {"s", "f"})
    for (const fs::path& part : parts)
      each_event(part, [&](std::string_view event) {
        if (value_of(event, "ph") != end) return;
        const std::string id(value_of(event, "id"));
        if (end == "s")
          begun.insert(id);
        else if (begun.contains(id))
          whole.insert(id);
      });
  return whole;
}

std::vector<fs::path> parts_of(const fs::path& trace) {
  std::vector<std::pair<int64_t, fs::path>> found;
  const std::string begin = trace.stem().string() + "-rank-";
  std::error_code ignored;
  for (const auto& entry :
       fs::directory_iterator(trace.parent_path(), ignored)) {
    const std::string name = entry.path().stem().string();
    if (!name.starts_with(begin) || entry.path().extension() != ".json")
      continue;
    if (const auto rank = parse_int(name.substr(begin.size())))
      found.emplace_back(*rank, entry.path());
  }
  std::ranges::sort(found);
  std::vector<fs::path> parts;
  for (auto& [rank, path] : found) parts.push_back(std::move(path));
  return parts;
}

}  // namespace

std::string trace_boundary(int64_t step) {
  return fmt::format("{},\"args\":{{\"step\":{}}}", kBoundary, step);
}

std::unique_ptr<TraceFile> continue_trace(const fs::path& path,
                                          const TraceFacts& facts,
                                          int64_t step) {
  auto file = std::make_unique<TraceFile>(temporary_of(path), facts);
  add_until(*file, path, step);
  file->flush();
  file->rename(path);
  return file;
}

std::map<int64_t, std::vector<TraceRow>> trace_rows(const fs::path& trace,
                                                    int64_t step) {
  std::map<int64_t, std::vector<TraceRow>> of_worker;
  each_event_until(step, trace, [&](std::string_view event) {
    const auto number = [&](const char* name) {
      return parse_int(value_of(event, name)).value_or(-1);
    };
    std::vector<TraceRow>& rows = of_worker[number("pid")];
    const int64_t thread = number("tid");
    const auto known = std::ranges::find(rows, thread, &TraceRow::thread);
    const std::string_view row = value_of(event, "row");
    if (!row.empty() && known == rows.end())
      rows.push_back({thread, std::string(row)});
    if (value_of(event, "ph") == "X" && known != rows.end())
      known->end_s = std::max(known->end_s, end_us(event) / 1e6);
  });
  return of_worker;
}

fs::path trace_part(const fs::path& trace, int rank) {
  return trace.parent_path() /
         fmt::format("{}-rank-{}.json", trace.stem().string(), rank);
}

bool join_trace_parts(const fs::path& trace) {
  const std::vector<fs::path> parts = parts_of(trace);
  if (parts.empty()) return false;
  TraceFile joined(temporary_of(trace), facts_of(parts[0]));
  if (const int64_t step = first_boundary(parts[0]); step > 0)
    add_until(joined, trace, step);
  const std::unordered_set<std::string> whole = whole_arrows(parts);
  for (const fs::path& part : parts)
    each_event(part, [&](std::string_view event) {
      if (!is_arrow(event) ||
          whole.contains(std::string(value_of(event, "id"))))
        joined.add(event);
    });
  joined.flush();
  joined.rename(trace);
  for (const fs::path& part : parts) fs::remove(part);
  return true;
}

double trace_end_s(const fs::path& trace) {
  double latest_us = 0;
  each_event(trace, [&](std::string_view event) {
    latest_us = std::max(latest_us, end_us(event));
  });
  return latest_us / 1e6;
}

double trace_clock_error_s(const fs::path& trace) {
  std::ifstream file(trace);
  std::string facts;
  std::getline(file, facts);
  return parse_double(value_of(facts, "clock_error_us")).value_or(0) / 1e6;
}

}  // namespace syncopate
