// Comma-separated images, one sample per line: label,pixel,...,pixel with
// grey square images of bytes, as Kaggle distributes MNIST (its header line
// must be removed).
#include <charconv>
#include <cmath>

#include "base/file.h"
#include "data/images/readers.h"

namespace syncopate {
namespace {

// The numbers of one line; each must be in [0, 255].
std::vector<uint8_t> bytes_of_line(const std::string& path,
                                   int64_t number,
                                   std::string_view line) {
  std::vector<uint8_t> values;
  const char* at = line.data();
  const char* const end = at + line.size();
  while (true) {
    uint8_t value = 0;
    const auto [rest, error] = std::from_chars(at, end, value);
    if (error != std::errc{} || (rest != end && *rest != ','))
      fail(ExitCode::kBadInput,
           "{}:{}: column {}: expected an integer from 0 to 255", path, number,
           values.size() + 1);
    values.push_back(value);
    if (rest == end) return values;
    at = rest + 1;
  }
}

// `classes` is given, or counted where it is 0.
ImageSet read_set(const fs::path& path, int64_t classes) {
  if (!fs::exists(path))
    fail(ExitCode::kInputMissing, "{}: not found", path.string());
  const std::string content = read_file(path);
  ImageSet set;
  std::vector<uint8_t> pixels;
  size_t columns = 0;
  for (size_t begin = 0; begin < content.size();) {
    const size_t end = std::min(content.find('\n', begin), content.size());
    const auto values =
        bytes_of_line(path.string(), set.samples + 1,
                      std::string_view(content).substr(begin, end - begin));
    if (columns == 0) columns = values.size();
    const auto side = std::llround(std::sqrt(double(columns - 1)));
    if (values.size() != columns || side * side + 1 != std::ssize(values))
      fail(ExitCode::kBadInput,
           "{}:{}: {} columns, expected a label and a square image as in all "
           "lines",
           path.string(), set.samples + 1, values.size());
    set.spec = {.C = 1, .H = side, .W = side};
    set.labels.push_back(values[0]);
    pixels.insert(pixels.end(), values.begin() + 1, values.end());
    ++set.samples;
    begin = end + 1;
  }
  const auto fault = classes == 0 ? count_classes(set.labels, &classes)
                                  : check_labels(set.labels, classes);
  if (fault)
    fail(ExitCode::kBadInput, "{}:{}: {}", path.string(), fault->position + 1,
         fault->what);
  set.spec.classes = classes;
  set.pixels = std::move(pixels);
  return set;
}

}  // namespace

Dataset read_csv_images(const DataOptions& options) {
  const fs::path folder = options.path;
  Dataset data;
  data.train = read_set(folder / "train.csv", 0);
  data.test = read_set(folder / "test.csv", data.train.spec.classes);
  if (data.test.spec != data.train.spec)
    fail(ExitCode::kBadInput, "{}: images of {} x {}, expected {} x {}",
         (folder / "test.csv").string(), data.test.spec.H, data.test.spec.W,
         data.train.spec.H, data.train.spec.W);
  data.source = "csv_images " + options.path;
  return data;
}

}  // namespace syncopate
