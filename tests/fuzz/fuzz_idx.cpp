// A folder of IDX files, of which the input is one: its first byte says which
// (of four), and by its third bit whether it is packed.
#include <array>

#include "data/images/dataset.h"
#include "data/options.h"
#include "fuzz.h"

namespace syncopate {
namespace {

constexpr std::array<const char*, 4> kNames = {
    "train-images-idx3-ubyte", "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"};

// Two images of 2 x 3 with labels 0 and 1, in train and in test.
const std::array<std::string, 4>& whole_files() {
  static const std::array<std::string, 4> files = [] {
    using namespace std::string_literals;
    const std::string images =
        "\0\0\x08\x03\0\0\0\x02\0\0\0\x02\0\0\0\x03"s + "abcdefghijkl";
    const std::string labels = "\0\0\x08\x01\0\0\0\x02\0\x01"s;
    return std::array{images, labels, images, labels};
  }();
  return files;
}

void check(const ImageSet& set, const ImageSpec& spec) {
  if (set.spec != spec) fuzz::found("train and test differ in shape");
  const auto& pixels = std::get<std::vector<uint8_t>>(set.pixels);
  if (std::ssize(pixels) != set.samples * spec.H * spec.W * spec.C)
    fuzz::found("pixels are not those of the samples");
  fuzz::check_labels(set.labels, set.samples, spec.classes);
}

}  // namespace
}  // namespace syncopate

void syncopate::fuzz::take(std::string_view input) {
  const unsigned choice = input.empty() ? 0 : static_cast<uint8_t>(input[0]);
  for (size_t i = 0; i < kNames.size(); ++i) {
    const std::string name = kNames[i];
    fs::remove(scratch_folder() / name);
    fs::remove(scratch_folder() / (name + ".gz"));
    const bool is_input = choice % 4 == i;
    scratch_file(is_input && (choice & 4) != 0 ? name + ".gz" : name,
                 is_input ? input.substr(std::min<size_t>(1, input.size()))
                          : std::string_view(whole_files()[i]));
  }
  DataOptions options;
  options.kind = "idx";
  options.path = scratch_folder().string();
  accept_or_refuse(options.path, [&] {
    const Dataset set = load_dataset(options);
    check(set.train, set.train.spec);
    check(set.test, set.train.spec);
  });
}
