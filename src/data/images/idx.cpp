// IDX, the format of MNIST (http://yann.lecun.com/exdb/mnist):
// big-endian magic 00 00 TYPE RANK, a 32-bit length per dimension, values.
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
  const fs::path folder = existing_folder(options.path);
  const auto find = [&](const char* name) {
    return plain_or_packed(folder / name);
  };
  Dataset data;
  read_images(find("train-images-idx3-ubyte"), data.train);
  read_labels(find("train-labels-idx1-ubyte"), data.train);
  const fs::path test_images = find("t10k-images-idx3-ubyte");
  read_images(test_images, data.test);
  if (data.test.spec.H != data.train.spec.H ||
      data.test.spec.W != data.train.spec.W)
    fail(ExitCode::kBadInput,
         "{}: offset 8 (0x8): images of {} x {}, expected {} x {} as in train",
         test_images.string(), data.test.spec.H, data.test.spec.W,
         data.train.spec.H, data.train.spec.W);
  data.test.spec.classes = data.train.spec.classes;
  read_labels(find("t10k-labels-idx1-ubyte"), data.test);
  data.source = "idx " + options.path;
  return data;
}

}  // namespace syncopate
