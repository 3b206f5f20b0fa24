// Lengths in steps of another number of workers.
#include <algorithm>
#include <cmath>

#include "config/config.h"
#include "config/keys.h"

namespace syncopate {

void scale_lengths(Options& options, double factor) {
  const auto scaled = [&](double steps) {
    return steps > 0 ? std::max(1.0, std::round(steps * factor)) : steps;
  };
  const auto scale = [&](Length& length) {
    if (!length.in_epochs) length.value = scaled(length.value);
  };
  for (const Key& key : key_table()) {
    if (key.on_resume == OnResume::kMayChange) continue;
    const Target target = key.place.in(options);
    if (auto* const* one = std::get_if<Length*>(&target)) scale(**one);
    if (auto* const* all = std::get_if<std::vector<Length>*>(&target))
      for (Length& length : **all) scale(length);
  }
  options.run.steps =
      static_cast<int64_t>(scaled(static_cast<double>(options.run.steps)));
}

}  // namespace syncopate
