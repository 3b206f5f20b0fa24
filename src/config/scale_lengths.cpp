// Lengths in steps of another number of workers.
#include <algorithm>
#include <cmath>

#include "config/config.h"
#include "config/keys.h"

namespace syncopate {

void scale_lengths(Options& options, double factor) {
  // Not rounded: milestones that are a step apart must not meet.
  const auto scale = [&](Length& length) {
    if (!length.in_epochs) length.value *= factor;
  };
  for (const Key& key : key_table()) {
    if (key.on_resume == OnResume::kMayChange) continue;
    const Target target = key.place.in(options);
    if (auto* const* one = std::get_if<Length*>(&target)) scale(**one);
    if (auto* const* all = std::get_if<std::vector<Length>*>(&target))
      for (Length& length : **all) scale(length);
  }
  int64_t& steps = options.run.steps;
  if (steps > 0)
    steps =
        std::max<int64_t>(1, std::llround(static_cast<double>(steps) * factor));
}

}  // namespace syncopate
