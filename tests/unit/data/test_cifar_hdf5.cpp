// The CIFAR and HDF5 readers.
#include <cmath>

#include "base/hdf5_file.h"
#include "data/images/normalization.h"
#include "data_files.h"

namespace syncopate {
namespace {

// Records with label i % classes (CIFAR-100: coarse label 99 - fine) and
// pixel (i + 3 j) mod 256 at byte j.
std::string records(int first, int n, int classes, int label_bytes) {
  std::string bytes;
  for (int i = first; i < first + n; ++i) {
    const int label = i % classes;
    if (label_bytes == 2) bytes += static_cast<char>(99 - label);
    bytes += static_cast<char>(label);
    for (int j = 0; j < 3072; ++j)
      bytes += static_cast<char>((i + 3 * j) % 256);
  }
  return bytes;
}

void write_cifar10(const ScratchFolder& folder) {
  for (int f = 0; f < 5; ++f)
    write_bytes(folder / fmt::format("data_batch_{}.bin", f + 1),
                records(4 * f, 4, 10, 1));
  write_bytes(folder / "test_batch.bin", records(0, 3, 10, 1));
}

void expect_pixels(const ImageSet& set, int64_t samples) {
  const auto& pixels = std::get<std::vector<uint8_t>>(set.pixels);
  ASSERT_EQ(pixels.size(), static_cast<size_t>(samples * 3072));
  for (int64_t i = 0; i < samples; ++i)
    for (int64_t at = 0; at < 1024; ++at)
      for (int64_t c = 0; c < 3; ++c)
        ASSERT_EQ(pixels[static_cast<size_t>(i * 3072 + at * 3 + c)],
                  (i + 3 * (c * 1024 + at)) % 256);
}

TEST(Cifar10, ReadsPlanesAsChannelsLast) {
  const ScratchFolder folder;
  write_cifar10(folder);
  const Dataset data = load_dataset(options_for("cifar10", folder.path()));
  const ImageSpec spec = {.C = 3, .H = 32, .W = 32, .classes = 10};
  EXPECT_EQ(data.train.spec, spec);
  EXPECT_EQ(data.train.samples, 20);
  EXPECT_EQ(data.test.samples, 3);
  expect_pixels(data.train, 20);
  for (int i = 0; i < 20; ++i)
    EXPECT_EQ(data.train.labels[static_cast<size_t>(i)], i % 10);
  EXPECT_TRUE(data.train.class_names.empty());
}

TEST(Cifar10, ReadsClassNamesWhereTheyAre) {
  const ScratchFolder folder;
  write_cifar10(folder);
  write_bytes(folder / "batches.meta.txt", "a\nb\nc\nd\ne\nf\ng\nh\ni\nj\n\n");
  const Dataset data = load_dataset(options_for("cifar10", folder.path()));
  ASSERT_EQ(data.test.class_names.size(), 10u);
  EXPECT_EQ(data.test.class_names[9], "j");
  write_bytes(folder / "batches.meta.txt", "a\nb\n");
  expect_error_has(options_for("cifar10", folder.path()), ExitCode::kBadInput,
                   "batches.meta.txt: 2 class names, expected 10");
  write_bytes(folder / "batches.meta.txt",
              "a\nb\nc\nd\ne\nf\ng\nh\ni\nch\xE8vre\n");
  expect_error(options_for("cifar10", folder.path()), ExitCode::kBadInput,
               (folder / "batches.meta.txt").string() +
                   ": class name ch\\xE8vre: not valid UTF-8");
}

TEST(Cifar10, RefusesDamagedFiles) {
  const ScratchFolder folder;
  write_cifar10(folder);
  const DataOptions options = options_for("cifar10", folder.path());
  const std::string third = (folder / "data_batch_3.bin").string();
  const std::string whole = read_bytes(third);
  write_bytes(third, whole.substr(0, whole.size() - 1));
  expect_error(options, ExitCode::kBadInput,
               third +
                   ": offset 9219 (0x2403): 3072 bytes follow the last "
                   "whole record, expected records of 3073 bytes");
  std::string label = whole;
  label[2 * 3073] = 10;
  write_bytes(third, label);
  expect_error(options, ExitCode::kBadInput,
               third + ": offset 6146 (0x1802): label 10, expected 0 to 9");
  write_bytes(third, "");
  expect_error(options, ExitCode::kBadInput,
               third + ": offset 0 (0x0): the file is empty");
  fs::remove(third);
  expect_error_has(options, ExitCode::kInputMissing, third);
}

TEST(Cifar100, TakesTheFineLabel) {
  const ScratchFolder folder;
  write_bytes(folder / "train.bin", records(0, 130, 100, 2));
  write_bytes(folder / "test.bin", records(0, 2, 100, 2));
  const DataOptions options = options_for("cifar100", folder.path());
  const Dataset data = load_dataset(options);
  EXPECT_EQ(data.train.spec.classes, 100);
  EXPECT_EQ(data.train.labels[99], 99);
  EXPECT_EQ(data.train.labels[100], 0);
  expect_pixels(data.train, 130);
  std::string bytes = records(0, 2, 100, 2);
  bytes[3074 + 1] = 100;
  write_bytes(folder / "test.bin", bytes);
  expect_error(options, ExitCode::kBadInput,
               (folder / "test.bin").string() +
                   ": offset 3075 (0xc03): label 100, expected 0 to 99");
}

TEST(Cifar10, ReadsTheFolderNamedByTheEnvironment) {
  const char* folder = getenv("SYNCOPATE_CIFAR10");
  if (folder == nullptr)
    GTEST_SKIP() << "SYNCOPATE_CIFAR10 does not name a folder with CIFAR-10";
  const Dataset data = load_dataset(options_for("cifar10", folder));
  EXPECT_EQ(data.train.samples, 50000);
  EXPECT_EQ(data.test.samples, 10000);
  const Normalization normalization =
      make_normalization(options_for("cifar10", folder), data.train);
  // The published values; a set that was compressed as JPEG has them within 1%.
  const double means[] = {0.4914, 0.4822, 0.4465};
  for (size_t c = 0; c < 3; ++c)
    EXPECT_NEAR(normalization.mean[c], means[c], 0.01);
}

class Hdf5Images : public ::testing::Test {
 protected:
  using Dims = std::vector<int64_t>;

  // 4 train and 2 test images.
  template <typename Pixel, typename Label>
  void write(const Dims& train,
             const Dims& test,
             const std::vector<Label>& labels,
             const std::string& names = "") {
    Hdf5Writer file(path_);
    write_images<Pixel>(file, "train/images", train);
    write_images<Pixel>(file, "test/images", test);
    const Dims counts = {std::ssize(labels)};
    file.write<Label>("train/labels", counts, labels);
    const std::vector<Label> test_labels = {1, 0};
    const Dims two = {2};
    file.write<Label>("test/labels", two, test_labels);
    if (!names.empty()) file.attribute("/", "class_names", names);
    file.close();
  }
  template <typename Pixel>
  void write_images(Hdf5Writer& file,
                    const std::string& name,
                    const Dims& dims) {
    int64_t elems = 1;
    for (const int64_t dim : dims) elems *= dim;
    std::vector<Pixel> pixels(static_cast<size_t>(elems));
    for (size_t i = 0; i < pixels.size(); ++i)
      pixels[i] = static_cast<Pixel>(i % 200) + poison_<Pixel>(i);
    file.write<Pixel>(name, dims, pixels);
  }
  template <typename Pixel>
  Pixel poison_(size_t i) const {
    return i == poisoned_element_ ? static_cast<Pixel>(poison_value_)
                                  : Pixel{0};
  }
  DataOptions options() const { return options_for("hdf5", path_); }
  void expect_refused(const std::string& rest) {
    expect_error(options(), ExitCode::kBadInput, path_ + ": " + rest);
  }

  ScratchFolder folder_;
  std::string path_ = (folder_ / "own.h5").string();
  size_t poisoned_element_ = SIZE_MAX;
  float poison_value_ = 0;
};

TEST_F(Hdf5Images, ReadsBytesWithChannels) {
  write<uint8_t, int64_t>({4, 6, 2, 5}, {2, 6, 2, 5}, {0, 1, 2, 1},
                          "cat, dog ,eel");
  const Dataset data = load_dataset(options());
  const ImageSpec spec = {.C = 5, .H = 6, .W = 2, .classes = 3};
  EXPECT_EQ(data.train.spec, spec);
  EXPECT_EQ(data.train.class_names,
            (std::vector<std::string>{"cat", "dog", "eel"}));
  EXPECT_EQ(data.test.labels, (std::vector<int32_t>{1, 0}));
  const auto& pixels = std::get<std::vector<uint8_t>>(data.train.pixels);
  for (size_t i = 0; i < pixels.size(); ++i) ASSERT_EQ(pixels[i], i % 200);
}

TEST_F(Hdf5Images, ReadsFloatsWithoutChannels) {
  write<float, uint8_t>({4, 3, 2}, {2, 3, 2}, {0, 1, 0, 1});
  const Dataset data = load_dataset(options());
  const ImageSpec spec = {.C = 1, .H = 3, .W = 2, .classes = 2};
  EXPECT_EQ(data.train.spec, spec);
  EXPECT_EQ(std::get<std::vector<float>>(data.train.pixels)[23], 23.0F);
}

TEST_F(Hdf5Images, ClassesMayBeMoreThanTheLabelsShow) {
  write<uint8_t, int32_t>({4, 3, 2}, {2, 3, 2}, {0, 1, 0, 3}, "a,b,c,d,e");
  EXPECT_EQ(load_dataset(options()).test.spec.classes, 5);
  write<uint8_t, int32_t>({4, 3, 2}, {2, 3, 2}, {0, 1, 0, 3});
  expect_refused(
      "train/labels: element 3: label 3, but no sample has label 2: expected "
      "0, 1, ... without a gap");
  write<uint8_t, int32_t>({4, 3, 2}, {2, 3, 2}, {0, 1, 0, 3}, "a,b,c");
  expect_refused("train/labels: element 3: label 3, expected 0 to 2");
}

TEST_F(Hdf5Images, ClassNamesMayStandOneALine) {
  write<uint8_t, int32_t>({4, 3, 2}, {2, 3, 2}, {0, 1, 0, 1}, "a, b\nc\n");
  EXPECT_EQ(load_dataset(options()).test.class_names,
            (std::vector<std::string>{"a, b", "c"}));
  write<uint8_t, int32_t>({4, 3, 2}, {2, 3, 2}, {0, 1, 0, 1}, "a,,c");
  expect_refused("class_names: name 1 is empty");
  write<uint8_t, int32_t>({4, 3, 2}, {2, 3, 2}, {0, 1, 0, 1}, "cat,ch\xE8vre");
  expect_refused("class_names: class name ch\\xE8vre: not valid UTF-8");
}

TEST_F(Hdf5Images, RefusesChannelsFirst) {
  for (const Dims& chw : {Dims{3, 6, 5}, Dims{5, 6, 6}, Dims{12, 16, 24},
                          Dims{5, 8, 10}, Dims{8, 20, 30}, Dims{40, 10, 10}}) {
    const Dims train = {4, chw[0], chw[1], chw[2]};
    const Dims test = {2, chw[0], chw[1], chw[2]};
    write<uint8_t, int32_t>(train, test, {0, 1, 0, 1});
    expect_refused(fmt::format(
        "train/images: uint8 (4, {}, {}, {}) looks like (n, C, H, W), expected "
        "(n, H, W, C): in numpy, images.transpose(0, 2, 3, 1); if it really "
        "is (n, H, W, C), set file.attrs[\"layout\"] = \"NHWC\"",
        chw[0], chw[1], chw[2]));
    Hdf5Writer file(path_);
    for (const auto& [part, dims] :
         {std::pair("train", train), std::pair("test", test)}) {
      write_images<uint8_t>(file, fmt::format("{}/images", part), dims);
      const std::vector<int32_t> labels(static_cast<size_t>(dims[0]), 0);
      const Dims count = {dims[0]};
      file.write<int32_t>(fmt::format("{}/labels", part), count, labels);
    }
    file.attribute("/", "layout", "NHWC");
    file.close();
    EXPECT_EQ(load_dataset(options()).train.spec.C, chw[2]);
  }
  write<uint8_t, int32_t>({4, 6, 6, 5}, {2, 6, 6, 5}, {0, 1, 0, 1});
  EXPECT_EQ(load_dataset(options()).train.spec.C, 5);
}

TEST_F(Hdf5Images, RefusesWrongShapesAndTypes) {
  write<uint8_t, int32_t>({4, 6}, {2, 6}, {0, 1, 0, 1});
  expect_refused(
      "train/images: uint8 (4, 6), expected (n, H, W) or (n, H, W, C)");
  write<int32_t, int32_t>({4, 3, 2}, {2, 3, 2}, {0, 1, 0, 1});
  expect_refused(
      "train/images: int32 (4, 3, 2), expected uint8 or float32 elements");
  write<uint8_t, int32_t>({4, 3, 2}, {2, 3, 2}, {0, 1, 0});
  expect_refused("train/labels: int32 (3), expected (4) as there are images");
  write<uint8_t, float>({4, 3, 2}, {2, 3, 2}, {0, 1, 0, 1});
  expect_refused("train/labels: float32 (4), expected integers");
  write<uint8_t, int64_t>({4, 3, 2}, {2, 3, 2}, {0, -1, 0, 1});
  expect_refused("train/labels: element 1: label -1, expected 0, 1, ...");
  write<uint8_t, int64_t>({4, 3, 2}, {2, 2, 3}, {0, 1, 0, 1});
  expect_refused(
      "test/images: image size and element type are expected to be those of "
      "train/images");
}

TEST_F(Hdf5Images, RefusesValuesThatAreNotFinite) {
  poisoned_element_ = 17;
  for (const float value : {std::nanf(""), HUGE_VALF, -HUGE_VALF}) {
    poison_value_ = value;
    write<float, int32_t>({4, 3, 2}, {2, 3, 2}, {0, 1, 0, 1});
    expect_refused(fmt::format(
        "train/images: element 17 is {}, expected finite values", value));
  }
}

TEST_F(Hdf5Images, RefusesWhatIsNotThere) {
  expect_error_has(options(), ExitCode::kInputMissing, path_);
  write_bytes(path_, "no HDF5 at all");
  expect_error_has(options(), ExitCode::kBadInput, path_);
  Hdf5Writer file(path_);
  write_images<uint8_t>(file, "train/images", {4, 3, 2});
  file.close();
  expect_refused(
      "train/labels: no such dataset, expected train/images, train/labels, "
      "test/images and test/labels");
}

}  // namespace
}  // namespace syncopate
