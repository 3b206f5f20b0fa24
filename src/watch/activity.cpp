#include "watch/activity.h"

#include "base/clock.h"

namespace syncopate {

const char* name_of(Stage stage) {
  switch (stage) {
    case Stage::kStart:
      return "start";
    case Stage::kStep:
      return "step";
    case Stage::kCollective:
      return "collective";
    case Stage::kBoundary:
      return "boundary";
    case Stage::kEvaluation:
      return "evaluation";
    case Stage::kCheckpoint:
      return "checkpoint";
    case Stage::kEnd:
      return "end";
  }
  return "?";
}

void Activity::enter(Stage stage, int64_t step) {
  stage_ = stage;
  step_ = step;
  since_s_ = monotonic_s();
}

Activity::Now Activity::now() const {
  return {stage_, step_, since_s_};
}

Activity& activity() {
  static Activity the_one;
  return the_one;
}

}  // namespace syncopate
