// IDX, the format of MNIST (http://yann.lecun.com/exdb/mnist):
// big-endian magic 00 00 TYPE RANK, a 32-bit length per dimension, values. A
// trained model needs only the test images.
#include <array>

#include "base/file.h"
#include "data/byte_reader.h"
#include "data/images/readers.h"

namespace syncopate {
namespace {

constexpr uint32_t kImagesMagic = 0x00000803;  // unsigned bytes, 3 dimensions
constexpr uint32_t kLabelsMagic = 0x00000801;  // unsigned bytes, 1 dimension
constexpr uint32_t kSideLimit = 65536;         // of a plausible image, pixels
constexpr int64_t kLabelsHeaderBytes = 8;

void read_magic(ByteReader& reader, uint32_t expected) {
  const uint32_t magic = reader.read_be32("the magic number");
  if (magic != expected)
    reader.fail_at(0, fmt::format("magic number {:#010x}, expected {:#010x}",
                                  magic, expected));
}

void read_images(const fs::path& path, ImageSet& set) {
  ByteReader reader(path);
  read_magic(reader, kImagesMagic);
  const uint32_t samples = reader.read_be32("the image count");
  const uint32_t height = reader.read_be32("the image height");
  const uint32_t width = reader.read_be32("the image width");
  if (samples == 0) reader.fail_at(4, "image count 0, expected at least 1");
  if (height == 0 || height > kSideLimit)
    reader.fail_at(8, fmt::format("image height {}, expected 1 to {}", height,
                                  kSideLimit));
  if (width == 0 || width > kSideLimit)
    reader.fail_at(
        12, fmt::format("image width {}, expected 1 to {}", width, kSideLimit));
  // At most 2^32 * 2^16 * 2^16, so that only the last factor can overflow.
  const int64_t image_bytes = int64_t{height} * width;
  const bool fits = samples <= reader.left_at_most() / image_bytes;
  if (!fits)
    reader.fail_at(4, fmt::format("image count {} of {} x {} bytes, expected "
                                  "at most {} from the size of the file",
                                  samples, height, width,
                                  reader.left_at_most() / image_bytes));
  const std::array<int64_t, 3> sizes = {samples, height, width};
  check_memory(reader.path(), sizes, 1);
  set.samples = samples;
  set.spec = {.C = 1, .H = height, .W = width};
  std::vector<uint8_t> pixels(static_cast<size_t>(samples * image_bytes));
  reader.read(pixels, "pixels");
  reader.expect_end();
  set.pixels = std::move(pixels);
}

void read_labels(const fs::path& path, ImageSet& set) {
  ByteReader reader(path);
  read_magic(reader, kLabelsMagic);
  const uint32_t samples = reader.read_be32("the label count");
  if (samples != set.samples)
    reader.fail_at(4, fmt::format("label count {}, expected {} as there are "
                                  "images",
                                  samples, set.samples));
  std::vector<uint8_t> labels(samples);
  reader.read(labels, "labels");
  reader.expect_end();
  set.labels.assign(labels.begin(), labels.end());
  if (const auto fault = check_labels(set.labels, set.spec.classes))
    reader.fail_at(kLabelsHeaderBytes + fault->position, fault->what);
}

}  // namespace

Dataset read_idx(const DataOptions& options) {
  const fs::path folder = existing_path(options.path);
  const fs::path train_images = folder / "train-images-idx3-ubyte";
  const fs::path test_images = folder / "t10k-images-idx3-ubyte";
  const fs::path test_labels = folder / "t10k-labels-idx1-ubyte";
  Dataset data;
  ImageSpec &train = data.train.spec, &test = data.test.spec;
  const bool has_train =
      !may_lack_train(options) || exists_plain_or_packed(train_images);
  if (has_train) {
    read_images(plain_or_packed(train_images), data.train);
    read_labels(plain_or_packed(folder / "train-labels-idx1-ubyte"),
                data.train);
  } else {
    train.classes = options.trained.classes;
  }
  const fs::path test_path = plain_or_packed(test_images);
  read_images(test_path, data.test);
  test.classes = train.classes;
  if (!has_train) train = test;
  if (test.H != train.H || test.W != train.W)
    fail(ExitCode::kBadInput,
         "{}: offset 8 (0x8): images of {} x {}, expected {} x {} as in train",
         test_path.string(), test.H, test.W, train.H, train.W);
  // For predict, a test set need not have labels.
  data.test.is_labelled =
      !options.trained.is_used || exists_plain_or_packed(test_labels);
  if (data.test.is_labelled)
    read_labels(plain_or_packed(test_labels), data.test);
  else
    data.test.labels.assign(static_cast<size_t>(data.test.samples), -1);
  data.source = "idx " + options.path;
  return data;
}

}  // namespace syncopate
