// One's own images: HDF5 files of others. A crash or a loop of HDF5 itself is
// refused like any other fault, in the child that reads.
#include <cmath>

#include "data/images/dataset.h"
#include "data/options.h"
#include "fuzz.h"

namespace syncopate {
namespace {

void check(const ImageSet& set) {
  const ImageSpec& spec = set.spec;
  const int64_t elems = set.samples * spec.H * spec.W * spec.C;
  if (const auto* bytes = std::get_if<std::vector<uint8_t>>(&set.pixels)) {
    if (std::ssize(*bytes) != elems) fuzz::found("bytes are missing");
  } else {
    const auto& floats = std::get<std::vector<float>>(set.pixels);
    if (std::ssize(floats) != elems) fuzz::found("floats are missing");
    for (const float value : floats)
      if (!std::isfinite(value)) fuzz::found("a value that is not finite");
  }
  fuzz::check_labels(set.labels, set.samples, spec.classes);
}

}  // namespace
}  // namespace syncopate

void syncopate::fuzz::take(std::string_view input) {
  DataOptions options;
  options.kind = "hdf5";
  options.path = scratch_file("own.h5", input);
  accept_or_refuse(options.path, [&] {
    const Dataset set = load_dataset(options);
    check(set.train);
    check(set.test);
  });
}
