// User-provided images: an HDF5 file with train/images, train/labels,
// test/images and test/labels, laid out as in inputs/data_formats.md. A trained
// model needs only test/images.
#include <cmath>
#include <utility>

#include "base/hdf5_foreign.h"
#include "base/text.h"
#include "data/byte_reader.h"
#include "data/images/readers.h"

namespace syncopate {
namespace {

class OwnImages {
 public:
  explicit OwnImages(const std::string& path) : path_(path), file_(path) {}

  // The elements of a list, or the parts of a single text, which are separated
  // by line ends or else by commas; empty if the file has none.
  std::vector<std::string> read_class_names() const {
    std::vector<std::string> names;
    auto texts = file_.texts_attribute("/", "class_names");
    if (!texts) return names;
    if (texts->empty())
      fail_in("class_names", "an empty list, expected a name for each class");
    if (texts->size() == 1) {
      const std::string text(trim(texts->front()));
      texts = split(text, text.find('\n') == std::string::npos ? ',' : '\n');
    }
    for (const std::string& part : *texts) {
      names.emplace_back(trim(part));
      if (names.back().empty())
        fail_in("class_names",
                fmt::format("name {} is empty", names.size() - 1));
    }
    check_class_names(path_ + ": class_names", names);
    return names;
  }

  void read_pixels(const std::string& name, ImageSet& set) const {
    const Hdf5Dataset images = find(name);
    const auto& dims = images.dims;
    if (images.type != ElementType::kUint8 &&
        images.type != ElementType::kFloat32)
      fail_in(name, describe(images) + ", expected uint8 or float32 elements");
    if (dims.size() != 3 && dims.size() != 4)
      fail_in(name, describe(images) + ", expected (n, H, W) or (n, H, W, C)");
    for (const int64_t dim : dims)
      if (dim < 1)
        fail_in(name, describe(images) + ", expected no dimension of 0");
    refuse_channels_first(name, images);
    set.samples = dims[0];
    set.spec = {.C = dims.size() == 4 ? dims[3] : 1,
                .H = dims[1],
                .W = dims[2],
                .classes = set.spec.classes};
    if (images.type == ElementType::kUint8) {
      set.pixels = read_values<uint8_t>(images);
      return;
    }
    auto pixels = read_values<float>(images);
    for (size_t i = 0; i < pixels.size(); ++i)
      if (!std::isfinite(pixels[i]))
        fail_in(name, fmt::format("element {} is {}, expected finite values", i,
                                  pixels[i]));
    set.pixels = std::move(pixels);
  }

  bool has(const std::string& name) const {
    return file_.find(name).has_value();
  }

  // For predict, a test set need not have labels.
  void read_labels_if_any(const std::string& name, ImageSet& set) const {
    set.is_labelled = has(name);
    if (set.is_labelled)
      read_labels(name, set);
    else
      set.labels.assign(static_cast<size_t>(set.samples), -1);
  }

  void read_labels(const std::string& name, ImageSet& set) const {
    const Hdf5Dataset labels = find(name);
    if (labels.dims.size() != 1 || labels.dims[0] != set.samples)
      fail_in(name, fmt::format("{}, expected ({}) as there are images",
                                describe(labels), set.samples));
    if (labels.type == ElementType::kFloat32 ||
        labels.type == ElementType::kFloat64)
      fail_in(name, describe(labels) + ", expected integers");
    if (labels.type == ElementType::kUint64)
      append_labels<uint64_t>(labels, set);
    else
      append_labels<int64_t>(labels, set);
    if (const auto fault = check_labels(set.labels, set.spec.classes))
      fail_in(name,
              fmt::format("element {}: {}", fault->position, fault->what));
  }

  // "FILE: train/labels: WHAT"
  [[noreturn]] void fail_in(const std::string& name,
                            const std::string& what) const {
    fail(ExitCode::kBadInput, "{}: {}: {}", path_, name, what);
  }

 private:
  // (n, 3, 32, 40) would be images of 3 x 32 pixels with 40 channels, (n, 12,
  // 64, 96) of 12 x 64 with 96, and (n, 40, 10, 10) of 40 x 10 with 10. The
  // attribute layout = NHWC says that they are.
  void refuse_channels_first(const std::string& name,
                             const Hdf5Dataset& images) const {
    constexpr int64_t kMostPlanes = 4;  // grey, RGB, RGBA
    const auto& dims = images.dims;
    if (dims.size() != 4 || dims[3] <= kMostPlanes) return;
    const bool would_be_square = dims[2] == dims[3] && dims[1] != dims[2];
    if (dims[1] > kMostPlanes && dims[3] <= dims[1] && !would_be_square) return;
    const auto layout = file_.texts_attribute("/", "layout");
    if (layout && layout->size() == 1 && trim(layout->front()) == "NHWC")
      return;
    fail_in(name, describe(images) +
                      " looks like (n, C, H, W), expected (n, H, W, C): in "
                      "numpy, images.transpose(0, 2, 3, 1); if it really is "
                      "(n, H, W, C), set file.attrs[\"layout\"] = \"NHWC\"");
  }

  template <typename T>
  void append_labels(const Hdf5Dataset& labels, ImageSet& set) const {
    std::vector<T> wide(static_cast<size_t>(set.samples));
    file_.read<T>(labels, wide);
    for (size_t i = 0; i < wide.size(); ++i) {
      if (!std::in_range<int32_t>(wide[i]) || wide[i] < 0)
        fail_in(labels.name, fmt::format("element {}: label {}, expected 0, 1, "
                                         "...",
                                         i, wide[i]));
      set.labels.push_back(static_cast<int32_t>(wide[i]));
    }
  }

  Hdf5Dataset find(const std::string& name) const {
    if (const auto dataset = file_.find(name)) return *dataset;
    fail_in(name,
            "no such dataset, expected train/images, train/labels, "
            "test/images and test/labels");
  }

  template <typename T>
  std::vector<T> read_values(const Hdf5Dataset& dataset) const {
    check_memory(path_ + ": " + dataset.name, dataset.dims, sizeof(T));
    std::vector<T> values(static_cast<size_t>(dataset.elems()));
    file_.read<T>(dataset, values);
    return values;
  }

  const std::string path_;
  ForeignHdf5 file_;
};

}  // namespace

Dataset read_hdf5_images(const DataOptions& options) {
  const OwnImages file(existing_path(options.path, "file"));
  Dataset data;
  ImageSpec &train = data.train.spec, &test = data.test.spec;
  data.train.class_names = data.test.class_names = file.read_class_names();
  train.classes = std::ssize(data.train.class_names);
  const bool has_train = !may_lack_train(options) || file.has("train/images");
  if (has_train) {
    file.read_pixels("train/images", data.train);
    file.read_labels("train/labels", data.train);
  } else if (train.classes != 0 && train.classes != options.trained.classes) {
    file.fail_in("class_names",
                 fmt::format("{} names, but the model has {} "
                             "classes",
                             train.classes, options.trained.classes));
  } else {
    train.classes = options.trained.classes;
  }
  test.classes = train.classes;
  file.read_pixels("test/images", data.test);
  if (!has_train)
    train = test;
  else if (test != train ||
           data.test.pixels.index() != data.train.pixels.index())
    file.fail_in("test/images",
                 "image size and element type are expected to be those of "
                 "train/images");
  file.read_labels_if_any("test/labels", data.test);
  data.source = "hdf5 " + options.path;
  return data;
}

}  // namespace syncopate
