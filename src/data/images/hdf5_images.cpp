// User-provided images: an HDF5 file with train/images, train/labels,
// test/images and test/labels, laid out as in inputs/data_formats.md.
#include <cmath>

#include "base/hdf5_foreign.h"
#include "base/text.h"
#include "data/byte_reader.h"
#include "data/images/readers.h"

namespace syncopate {
namespace {

// "FILE: train/labels: WHAT"
[[noreturn]] void fail_in(const std::string& path,
                          const std::string& dataset,
                          const std::string& what) {
  fail(ExitCode::kBadInput, "{}: {}: {}", path, dataset, what);
}

Hdf5Dataset find_dataset(const ForeignHdf5& file,
                         const std::string& path,
                         const std::string& name) {
  if (const auto dataset = file.find(name)) return *dataset;
  fail_in(path, name,
          "no such dataset, expected train/images, train/labels, test/images "
          "and test/labels");
}

void check_finite(const std::string& path,
                  const std::string& name,
                  std::span<const float> values) {
  for (size_t i = 0; i < values.size(); ++i)
    if (!std::isfinite(values[i]))
      fail_in(path, name,
              fmt::format("element {} is {}, expected finite values", i,
                          values[i]));
}

void read_pixels(const ForeignHdf5& file,
                 const std::string& path,
                 const std::string& name,
                 ImageSet& set) {
  const Hdf5Dataset images = find_dataset(file, path, name);
  const auto& dims = images.dims;
  const bool is_bytes = images.type == ElementType::kUint8;
  if (!is_bytes && images.type != ElementType::kFloat32)
    fail_in(path, name,
            describe(images) + ", expected uint8 or float32 elements");
  if (dims.size() != 3 && dims.size() != 4)
    fail_in(path, name,
            describe(images) + ", expected (n, H, W) or (n, H, W, C)");
  for (const int64_t dim : dims)
    if (dim < 1)
      fail_in(path, name, describe(images) + ", expected no dimension of 0");
  check_memory(path + ": " + name, dims, is_bytes ? 1 : sizeof(float));
  set.samples = dims[0];
  set.spec = {.C = dims.size() == 4 ? dims[3] : 1, .H = dims[1], .W = dims[2]};
  if (is_bytes) {
    std::vector<uint8_t> pixels(static_cast<size_t>(images.elems()));
    file.read<uint8_t>(images, pixels);
    set.pixels = std::move(pixels);
  } else {
    std::vector<float> pixels(static_cast<size_t>(images.elems()));
    file.read<float>(images, pixels);
    check_finite(path, name, pixels);
    set.pixels = std::move(pixels);
  }
}

// Counts the classes if `classes` is 0.
void read_labels(const ForeignHdf5& file,
                 const std::string& path,
                 const std::string& name,
                 ImageSet& set,
                 int64_t classes) {
  const Hdf5Dataset labels = find_dataset(file, path, name);
  if (labels.dims.size() != 1 || labels.dims[0] != set.samples)
    fail_in(path, name,
            fmt::format("{}, expected ({}) as there are images",
                        describe(labels), set.samples));
  if (labels.type == ElementType::kFloat32 ||
      labels.type == ElementType::kFloat64)
    fail_in(path, name, describe(labels) + ", expected integers");
  std::vector<int64_t> wide(static_cast<size_t>(set.samples));
  file.read<int64_t>(labels, wide);
  for (size_t i = 0; i < wide.size(); ++i) {
    if (wide[i] < 0 || wide[i] > INT32_MAX)
      fail_in(
          path, name,
          fmt::format("element {}: label {}, expected 0, 1, ...", i, wide[i]));
    set.labels.push_back(static_cast<int32_t>(wide[i]));
  }
  const auto fault = classes == 0 ? count_classes(set.labels, &classes)
                                  : check_labels(set.labels, classes);
  if (fault)
    fail_in(path, name,
            fmt::format("element {}: {}", fault->position, fault->what));
  set.spec.classes = classes;
}

// One per line, or separated by commas; empty if the file has none.
std::vector<std::string> read_class_names(const ForeignHdf5& file,
                                          const std::string& path) {
  std::vector<std::string> names;
  const auto text = file.text_attribute("/", "class_names");
  if (!text) return names;
  const char separator = text->find('\n') == std::string::npos ? ',' : '\n';
  for (const std::string& part : split(trim(*text), separator)) {
    names.emplace_back(trim(part));
    if (names.back().empty())
      fail_in(path, "class_names",
              fmt::format("name {} is empty", names.size() - 1));
  }
  return names;
}

}  // namespace

Dataset read_hdf5_images(const DataOptions& options) {
  const std::string& path = options.path;
  const ForeignHdf5 file(path);
  Dataset data;
  data.train.class_names = read_class_names(file, path);
  data.test.class_names = data.train.class_names;
  read_pixels(file, path, "train/images", data.train);
  read_labels(file, path, "train/labels", data.train,
              std::ssize(data.train.class_names));
  read_pixels(file, path, "test/images", data.test);
  const ImageSpec &train = data.train.spec, &test = data.test.spec;
  if (test.C != train.C || test.H != train.H || test.W != train.W ||
      data.test.pixels.index() != data.train.pixels.index())
    fail_in(path, "test/images",
            "image size and element type are expected to be those of "
            "train/images");
  read_labels(file, path, "test/labels", data.test, train.classes);
  data.source = "hdf5 " + path;
  return data;
}

}  // namespace syncopate
