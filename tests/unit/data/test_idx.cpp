// The IDX reader: values, refusals and error messages.
#include "data/images/normalization.h"
#include "data_files.h"

namespace syncopate {
namespace {

class Idx : public ::testing::Test {
 protected:
  void SetUp() override { write_idx_folder(folder_); }
  std::string path(int file) const { return (folder_ / kIdxFiles[file]); }
  DataOptions options() const { return options_for("idx", folder_.path()); }
  // Replaces a file and expects Error(kBadInput) "FILE: REST".
  void expect_refused(int file,
                      const std::string& bytes,
                      const std::string& rest) {
    write_bytes(path(file), bytes);
    expect_error(options(), ExitCode::kBadInput, path(file) + ": " + rest);
  }
  ScratchFolder folder_;
};

TEST_F(Idx, ReadsPixelsLabelsAndShape) {
  const Dataset data = load_dataset(options());
  const ImageSpec spec = {.C = 1, .H = 3, .W = 5, .classes = 3};
  EXPECT_EQ(data.train.spec, spec);
  EXPECT_EQ(data.test.spec, spec);
  EXPECT_EQ(data.train.samples, 6);
  EXPECT_EQ(data.test.samples, 4);
  EXPECT_EQ(data.train.labels, (std::vector<int32_t>{0, 1, 2, 0, 1, 2}));
  const auto& pixels = std::get<std::vector<uint8_t>>(data.train.pixels);
  ASSERT_EQ(pixels.size(), 90u);
  for (size_t i = 0; i < pixels.size(); ++i)
    ASSERT_EQ(pixels[i], (7 * i + 1) % 256);
  EXPECT_EQ(data.source, "idx " + folder_.path().string());
}

TEST_F(Idx, GzipGivesTheSameDigest) {
  const Dataset plain = load_dataset(options());
  for (const std::string name : kIdxFiles) {
    write_gz(folder_ / (name + ".gz"), idx_content(name));
    fs::remove(folder_ / name);
  }
  const Dataset packed = load_dataset(options());
  EXPECT_EQ(plain.train.digest, packed.train.digest);
  EXPECT_EQ(plain.test.digest, packed.test.digest);
  EXPECT_EQ(plain.train.digest.size(), 32u);
  EXPECT_NE(plain.train.digest, plain.test.digest);
}

TEST_F(Idx, DigestSeesLabelsPixelsAndShape) {
  const std::string before = load_dataset(options()).train.digest;
  std::string labels = idx_content(kIdxFiles[1]);
  labels[8] = 1;
  labels[9] = 0;
  write_bytes(path(1), labels);
  const std::string other_labels = load_dataset(options()).train.digest;
  EXPECT_NE(before, other_labels);
  write_bytes(path(0), idx_images(6, 5, 3, 1));
  write_bytes(path(2), idx_images(4, 5, 3, 2));
  EXPECT_NE(load_dataset(options()).train.digest, other_labels);
}

TEST_F(Idx, RefusesWrongHeaders) {
  const std::string pixels(90, 'x');
  expect_refused(0, be32(0x801) + be32(6) + be32(3) + be32(5) + pixels,
                 "offset 0 (0x0): magic number 0x00000801, expected "
                 "0x00000803");
  expect_refused(0, be32(0x803) + be32(7) + be32(3) + be32(5) + pixels,
                 "offset 4 (0x4): image count 7 of 3 x 5 bytes, expected at "
                 "most 6 from the size of the file");
  expect_refused(0, be32(0x803) + be32(5) + be32(3) + be32(5) + pixels,
                 "offset 91 (0x5b): more bytes follow, expected the end");
  expect_refused(0, be32(0x803) + be32(0) + be32(3) + be32(5),
                 "offset 4 (0x4): image count 0, expected at least 1");
  expect_refused(0, be32(0x803) + be32(6) + be32(0) + be32(5),
                 "offset 8 (0x8): image height 0, expected 1 to 65536");
  expect_refused(0, be32(0x803) + be32(6) + be32(3) + be32(0xffffffff),
                 "offset 12 (0xc): image width 4294967295, expected 1 to "
                 "65536");
  expect_refused(0, be32(0x803) + be32(0xffffffff) + be32(65536) + be32(65536),
                 "offset 4 (0x4): image count 4294967295 of 65536 x 65536 "
                 "bytes, expected at most 0 from the size of the file");
  expect_refused(0, be32(0x803) + "\0\0",
                 "offset 4 (0x4): the file ends, expected 4 more bytes of the "
                 "image count");
  expect_refused(0, "", "offset 0 (0x0): the file is empty");
}

TEST_F(Idx, RefusesWrongLabels) {
  expect_refused(1, idx_labels(5, 3),
                 "offset 4 (0x4): label count 5, expected 6 as there are "
                 "images");
  expect_refused(1, idx_labels(6, 3).substr(0, 12),
                 "offset 12 (0xc): the file ends, expected 2 more bytes of "
                 "labels");
  std::string gap = idx_labels(6, 3);
  gap[10] = static_cast<char>(250);
  expect_refused(1, gap,
                 "offset 10 (0xa): label 250, but no sample has label 3: "
                 "expected 0, 1, ... without a gap");
  write_bytes(path(1), idx_labels(6, 3));
  expect_refused(3, idx_labels(4, 4),
                 "offset 11 (0xb): label 3, expected 0 to 2");
}

TEST_F(Idx, RefusesTestImagesOfAnotherSize) {
  expect_refused(2, idx_images(4, 5, 3, 2),
                 "offset 8 (0x8): images of 5 x 3, expected 3 x 5 as in "
                 "train");
}

TEST_F(Idx, RefusesWhatIsNotThere) {
  fs::remove(path(3));
  expect_error(options(), ExitCode::kInputMissing,
               path(3) + ": not found, with or without .gz");
  expect_error(options_for("idx", "/nonexistent/folder"),
               ExitCode::kInputMissing,
               "data.path: /nonexistent/folder: no such folder");
  expect_error(options_for("idx", ""), ExitCode::kBadInput,
               "data.path: empty, expected where the idx data is");
  fs::create_directory(path(3));
  expect_error(options(), ExitCode::kBadInput,
               path(3) + ": not a regular file");
  expect_error_has(options_for("idy", folder_.path()), ExitCode::kBadInput,
                   "data.kind: idy, expected one of: idx cifar10");
}

TEST_F(Idx, ReadsEveryMemberOfAPackedFile) {
  const Dataset plain = load_dataset(options());
  const std::string content = idx_content(kIdxFiles[0]);
  fs::remove(path(0));
  write_bytes(path(0) + ".gz",
              gzipped(content.substr(0, 50)) + gzipped(content.substr(50)));
  using Bytes = std::vector<uint8_t>;
  EXPECT_EQ(std::get<Bytes>(load_dataset(options()).train.pixels),
            std::get<Bytes>(plain.train.pixels));
}

// A packed train-images file, damaged in one way after another.
TEST_F(Idx, RefusesDamagedGzip) {
  const fs::path packed = path(0) + ".gz";
  write_gz(packed, idx_content(kIdxFiles[0]));
  fs::remove(path(0));
  const std::string whole = read_bytes(packed);
  const auto refuse = [&](const std::string& bytes, const std::string& part) {
    write_bytes(packed, bytes);
    const Error error = error_of([&] { load_dataset(options()); });
    EXPECT_EQ(error.code(), ExitCode::kBadInput);
    const std::string line = error.what();
    EXPECT_TRUE(line.starts_with(packed.string() + ": offset ")) << line;
    EXPECT_NE(line.find(part), std::string::npos) << line;
  };
  refuse(whole.substr(0, whole.size() / 2), "the gzip data ends early");
  refuse(whole.substr(0, whole.size() - 4), "the gzip data ends early");
  refuse(whole + "more", "bytes follow the gzip data");
  refuse("plain text", "damaged gzip data: incorrect header check");
  refuse(changed_at(whole, whole.size() - 6),
         "damaged gzip data: incorrect data check");
  write_gz(packed, idx_content(kIdxFiles[0]) + "x");
  expect_error(options(), ExitCode::kBadInput,
               packed.string() +
                   ": offset 106 (0x6a) of the unpacked bytes: more bytes "
                   "follow, expected the end");
  write_gz(packed, be32(0x803) + be32(0x7fffffff) + be32(9999) + be32(9999));
  expect_error_has(options(), ExitCode::kBadInput,
                   "offset 4 (0x4) of the unpacked bytes: image count "
                   "2147483647 of 9999 x 9999 bytes");
  // The unpacked size is believable from the packed one, and too small.
  write_gz(packed,
           be32(0x803) + be32(6) + be32(30) + be32(5) + std::string(90, 'x'));
  expect_error_has(options(), ExitCode::kBadInput,
                   "offset 106 (0x6a) of the unpacked bytes: the file ends, "
                   "expected 810 more bytes of pixels");
}

TEST_F(Idx, ReadsFashionMnistOfDebian) {
  const std::string folder = "/usr/share/datasets/fashion-mnist";
  if (!fs::exists(folder))
    GTEST_SKIP() << "package dataset-fashion-mnist is not installed";
  const DataOptions real = options_for("idx", folder);
  const Dataset data = load_dataset(real);
  const ImageSpec spec = {.C = 1, .H = 28, .W = 28, .classes = 10};
  EXPECT_EQ(data.train.spec, spec);
  EXPECT_EQ(data.train.samples, 60000);
  EXPECT_EQ(data.test.samples, 10000);
  std::vector<int> count(10);
  for (const int32_t label : data.train.labels)
    ++count[static_cast<size_t>(label)];
  EXPECT_EQ(count, std::vector<int>(10, 6000));
  // The mean and deviation that are commonly used for this set.
  const Normalization normalization = make_normalization(real, data.train);
  EXPECT_NEAR(normalization.mean[0], 0.2860, 5e-5);  // published to 4 digits
  EXPECT_NEAR(normalization.std[0], 0.3530, 5e-5);
}

}  // namespace
}  // namespace syncopate
