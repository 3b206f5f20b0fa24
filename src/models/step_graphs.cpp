#include "models/step_graphs.h"

#include "base/check.h"

namespace syncopate {

// Steps differ in a worker's ranges and in whether gradients are wanted at
// once: a worker has up to four. More recordings than this must refer to memory
// that no longer exists.
constexpr size_t kMaxRecordings = 4096;

void StepGraphs::run(Stream& stream,
                     const StepKey& key,
                     const std::function<void(const AtPlace&)>& step,
                     const std::function<bool(Place)>& ends_segment,
                     const AtPlace& at_place) {
  if (recordings_.size() >= kMaxRecordings && !recordings_.contains(key))
    recordings_.clear();
  Recording& recording = recordings_[key];
  if (!recording.has_run) {
    step(at_place);
    recording.has_run = true;
    return;
  }
  if (recording.segments.empty()) {
    record(stream, recording, step, ends_segment, at_place);
    return;
  }
  for (const Segment& segment : recording.segments) {
    segment.graph->launch(stream);
    for (const Place place : segment.places) at_place(place);
  }
}

void StepGraphs::record(Stream& stream,
                        Recording& recording,
                        const std::function<void(const AtPlace&)>& step,
                        const std::function<bool(Place)>& ends_segment,
                        const AtPlace& at_place) {
  std::vector<Segment> segments;
  std::vector<Place> places;
  bool is_recording = true;
  stream.begin_capture();
  try {
    step([&](Place place) {
      CHECK_MSG(is_recording, "a step goes on behind its end");
      places.push_back(place);
      if (place != 0 && !ends_segment(place)) return;
      is_recording = false;
      segments.push_back({stream.end_capture(), std::exchange(places, {})});
      segments.back().graph->launch(stream);
      for (const Place passed : segments.back().places) at_place(passed);
      if (place == 0) return;
      stream.begin_capture();
      is_recording = true;
    });
  } catch (...) {
    try {
      if (is_recording) stream.end_capture();
    } catch (const Error&) {
      // The recording is unusable: the first error says why.
    }
    throw;
  }
  CHECK_MSG(!is_recording, "a step without an end");
  recording.segments = std::move(segments);
}

}  // namespace syncopate
