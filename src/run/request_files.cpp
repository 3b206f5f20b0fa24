#include "run/request_files.h"

#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <utility>

#include "base/thread.h"

namespace syncopate {
namespace {

constexpr auto kEvery = std::chrono::milliseconds(500);
constexpr auto kFarewell = std::chrono::seconds(1);
constexpr StopRequest kRequests[] = {StopRequest::kStopFile,
                                     StopRequest::kSave};  // greatest first

using Times = std::map<StopRequest, fs::file_time_type>;

// Disregards a file whose modification time is that in `ignored`.
StopRequest look(const fs::path& folder, const Times& ignored) {
  for (const StopRequest request : kRequests) {
    std::error_code error;
    const auto time =
        fs::last_write_time(folder / request_file(request), error);
    const auto known = ignored.find(request);
    if (!error && (known == ignored.end() || known->second != time))
      return request;
  }
  return StopRequest::kNone;
}

}  // namespace

const char* request_file(StopRequest request) {
  if (request == StopRequest::kStopFile) return "STOP";
  return request == StopRequest::kSave ? "SAVE" : nullptr;
}

StopRequest look_for_request(const fs::path& folder) {
  return look(folder, {});
}

struct RequestWatch::State {
  fs::path folder;
  std::function<bool()> beat;

  std::mutex mutex;  // never held during storage access
  std::condition_variable changed;
  bool is_over = false, has_ended = false;
  int64_t removals = 0;  // a look that overlaps a removal is out of date
  StopRequest seen = StopRequest::kNone;
  Times ignored;

  void watch() {
    std::unique_lock lock(mutex);
    while (!changed.wait_for(lock, kEvery, [this] { return is_over; })) {
      const int64_t before = removals;
      const Times unwanted = ignored;
      lock.unlock();
      const StopRequest found = look(folder, unwanted);
      if (beat && !beat()) beat = nullptr;
      lock.lock();
      if (before == removals) seen = found;
    }
    beat = nullptr;
    has_ended = true;
    changed.notify_all();
  }
};

RequestWatch::RequestWatch(const fs::path& folder, std::function<bool()> beat)
    : state_(std::make_shared<State>()) {
  state_->folder = folder;
  state_->beat = std::move(beat);
  state_->seen = look(folder, {});
  start_without_signals([state = state_] { state->watch(); }).detach();
}

RequestWatch::~RequestWatch() {
  std::unique_lock lock(state_->mutex);
  state_->is_over = true;
  state_->changed.notify_all();
  state_->changed.wait_for(lock, kFarewell,
                           [this] { return state_->has_ended; });
}

StopRequest RequestWatch::seen() const {
  const std::lock_guard lock(state_->mutex);
  return state_->seen;
}

std::vector<RequestWatch::Removal> RequestWatch::remove(StopRequest granted) {
  std::vector<Removal> removals;
  Times stubborn;
  for (const StopRequest request : kRequests) {
    if (request != granted && request != StopRequest::kSave) continue;
    const fs::path path = state_->folder / request_file(request);
    std::error_code absent, error;
    const auto time = fs::last_write_time(path, absent);
    if (absent) continue;
    fs::remove(path, error);
    removals.push_back({request_file(request), !error});
    if (error) stubborn[request] = time;
  }
  const std::lock_guard lock(state_->mutex);
  ++state_->removals;
  for (const auto& [request, time] : stubborn) state_->ignored[request] = time;
  state_->seen = StopRequest::kNone;
  return removals;
}

}  // namespace syncopate
