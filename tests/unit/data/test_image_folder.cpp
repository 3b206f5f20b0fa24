// Folders of JPEGs: the index, what is refused, and that batches do not depend
// on threads, prefetching or workers.
#include <algorithm>
#include <cmath>

#include "data/images/augment.h"
#include "data/images/prepared_images.h"
#include "jpeg_files.h"
#include "loader_bench.h"

namespace syncopate {
namespace {

DataOptions folder_options(const ScratchFolder& folder) {
  DataOptions options = options_for("image_folder", folder.path());
  options.height = 24;
  options.width = 20;
  options.batch = 6;
  options.decode_threads = 2;
  options.augment = {"resized_crop", "flip", "rotate"};
  return options;
}

TEST(ImageFolder, ListsClassesInOrder) {
  const ScratchFolder folder;
  write_image_folder(folder / "");
  write_bytes(folder / "train/.hidden", "x");
  write_bytes(folder / "train/ant/.DS_Store", "x");
  const Dataset data = load_dataset(options_for("image_folder", folder.path()));
  const ImageSpec spec = {.C = 3, .H = 224, .W = 224, .classes = 3};
  EXPECT_EQ(data.train.spec, spec);
  EXPECT_EQ(data.test.spec, spec);
  EXPECT_EQ(data.train.eval_resize, 256);
  EXPECT_EQ(data.train.class_names,
            (std::vector<std::string>{"ant", "bee", "cow"}));
  EXPECT_EQ(data.train.samples, 24);
  EXPECT_EQ(data.test.samples, 12);
  const auto& files = std::get<JpegFiles>(data.train.pixels);
  EXPECT_EQ(files.names[0], "ant/100.JPEG");
  EXPECT_EQ(files.names[10], "bee/102.jpeg");
  EXPECT_EQ(files.path(23), folder / "train/cow/107.jpg");
  for (int64_t i = 0; i < 24; ++i)
    EXPECT_EQ(data.train.labels[static_cast<size_t>(i)], i / 8);
  EXPECT_TRUE(data.train.resident().bytes.empty());
  // The digest is that of names and labels.
  const std::string digest = data.train.digest;
  fs::rename(folder / "train/cow/107.jpg", folder / "train/cow/108.jpg");
  EXPECT_NE(
      load_dataset(options_for("image_folder", folder.path())).train.digest,
      digest);
  // test/ may replace val/, and a class may be missing there.
  fs::rename(folder / "val", folder / "test");
  fs::remove_all(folder / "test/bee");
  const Dataset again =
      load_dataset(options_for("image_folder", folder.path()));
  EXPECT_EQ(again.test.samples, 8);
  EXPECT_EQ(again.test.labels.back(), 2);
}

TEST(ImageFolder, RefusesWhatIsNotOne) {
  const ScratchFolder folder;
  const DataOptions options = folder_options(folder);
  const std::string at = folder.path().string();
  expect_error(options, ExitCode::kInputMissing, at + "/train: no such folder");
  write_image_folder(folder / "");
  fs::rename(folder / "val", folder / "other");
  expect_error(options, ExitCode::kInputMissing,
               at + ": holds neither val nor test");
  fs::rename(folder / "other", folder / "val");
  fs::create_directories(folder / "val/dog");
  expect_error(options, ExitCode::kBadInput,
               at + "/val/dog: a class that train does not have");
  fs::create_directories(folder / "train/dog");
  expect_error(options, ExitCode::kBadInput,
               at + "/train/dog: a class without an image");
  write_bytes(folder / "train/dog/a.png", "x");
  expect_error(options, ExitCode::kBadInput,
               at + "/train/dog/a.png: expected JPEG files in a class's folder "
                    "(.jpg .jpeg)");
  fs::remove(folder / "train/dog/a.png");
  fs::create_directories(folder / "train/dog/b.jpg");
  expect_error_has(options, ExitCode::kBadInput, "b.jpg: expected JPEG files");
  fs::remove_all(folder / "train");
  fs::create_directories(folder / "train");
  write_bytes(folder / "train/a.jpg", "x");
  expect_error(options, ExitCode::kBadInput,
               at + "/train: contains no folders, expected one per class");
}

TEST(ImageFolder, RefusesImpossibleOptions) {
  const ScratchFolder folder;
  write_image_folder(folder / "");
  DataOptions options = folder_options(folder);
  options.eval_resize = 23;
  expect_error(options, ExitCode::kBadInput,
               "data.eval_resize: 23, expected at least 24 for images of 24 x "
               "20");
  options = folder_options(folder);
  options.height = -1;
  expect_error(options, ExitCode::kBadInput,
               "data.height: -1, expected 1 to 32768");
  options = folder_options(folder);
  options.decode_threads = 4096;
  expect_error(options, ExitCode::kBadInput,
               "data.decode_threads: 4096, expected 0 to 1024");
}

TEST(ImageFolder, BatchesDoNotDependOnThreadsOrPrefetch) {
  const ScratchFolder folder;
  write_image_folder(folder / "");
  DataOptions options = folder_options(folder);
  options.decode_threads = 1;
  options.prefetch = 0;
  const LoaderBench serial(options);
  const std::vector<Content> expected = contents_of(serial, 2, 6);
  EXPECT_FALSE(expected[0] == expected[2]);
  for (const int64_t threads : {2, 5})
    for (const int64_t prefetch : {0, 3}) {
      options.decode_threads = threads;
      options.prefetch = prefetch;
      const LoaderBench other(options);
      EXPECT_EQ(other.normalization.mean, serial.normalization.mean);
      EXPECT_EQ(other.normalization.std, serial.normalization.std);
      for (const int64_t first : {0, 4}) {
        Loader loader = other.loader(0, 2, first);
        for (size_t i = static_cast<size_t>(first); i < 6; ++i)
          ASSERT_EQ(content_of(loader.next()), expected[i])
              << threads << " " << prefetch << " " << i;
      }
    }
}

TEST(ImageFolder, WorkersTogetherSeeWhatOneSees) {
  const ScratchFolder folder;
  write_image_folder(folder / "");
  expect_workers_see_what_one_sees(folder_options(folder), 3, 5);
}

// Training's view of a file is its map read from the whole image; decoding at
// a part of the size changes little of waves this long.
TEST(ImageFolder, FillsThroughTheMapOfTheFilesSize) {
  const ScratchFolder folder;
  write_image_folder(folder / "");
  for (const auto& augment :
       std::vector<std::vector<std::string>>{{},
                                             {"crop", "flip"},
                                             {"resized_crop"},
                                             {"resized_crop", "rotate"}}) {
    DataOptions options = folder_options(folder);
    options.augment = augment;
    options.height = options.width = 12;  // decoded at 1/2 and 1/4
    const LoaderBench fixture(options);
    const Augmenter augmenter(options, fixture.data.train,
                              fixture.normalization, LoaderBench::kSeed);
    const auto& files = std::get<JpegFiles>(fixture.data.train.pixels);
    const PixelReader reader(
        fixture.data.train.spec,
        pixel_scale(fixture.data.train, fixture.normalization),
        fixture.normalization);
    JpegDecoder decoder;
    std::vector<float> out(12 * 12 * 3), expected(out.size());
    for (int64_t sample = 0; sample < 24; sample += 5) {
      augmenter.fill(3, sample, out.data());
      const JpegDecoder::Image image =
          decoder.decode(files.path(sample), whole);
      const ImageMap map = augmenter.map(3, sample, image.H, image.W);
      reader.read(image.pixels, image.H, image.W, map, expected.data());
      double mean = 0;
      for (size_t i = 0; i < out.size(); ++i)
        mean +=
            std::fabs(out[i] - expected[i]) / static_cast<double>(out.size());
      // In standard deviations; the images' own is 1.
      EXPECT_LT(mean, 0.06) << ::testing::PrintToString(augment);
    }
  }
}

TEST(ImageFolder, EvaluationIsTheMiddle) {
  const ScratchFolder folder;
  write_image_folder(folder / "");
  DataOptions options = folder_options(folder);
  options.height = options.width = 40;  // the shorter side of many
  options.eval_resize = 40;
  const LoaderBench fixture(options);
  const auto& files = std::get<JpegFiles>(fixture.data.test.pixels);
  HostBatch batch;
  std::vector<int64_t> indices = {0, 5, 11};
  fill_evaluation_batch(batch, fixture.data.test, fixture.normalization,
                        indices);
  EXPECT_EQ(batch.labels, (std::vector<int32_t>{0, 1, 2}));
  JpegDecoder decoder;
  int compared = 0;
  for (size_t n = 0; n < indices.size(); ++n) {
    const JpegDecoder::Image image =
        decoder.decode(files.path(indices[n]), whole);
    if (std::min(image.H, image.W) != 40) continue;
    ++compared;
    const int64_t top = (image.H - 40 + 1) / 2, left = (image.W - 40 + 1) / 2;
    for (int64_t y = 0; y < 40; ++y)
      for (int64_t x = 0; x < 40 * 3; ++x) {
        const float pixel = image.pixels[((y + top) * image.W + left) * 3 + x];
        const auto c = static_cast<size_t>(x % 3);
        ASSERT_EQ(batch.images[n * 4800 + static_cast<size_t>(y * 120 + x)],
                  (pixel / 255 - fixture.normalization.mean[c]) /
                      fixture.normalization.std[c]);
      }
  }
  EXPECT_GE(compared, 1);
}

TEST(ImageFolder, NamesOfClassesHaveNoControlCharacters) {
  for (const std::string name : {"a\nb", "a\tb", "a\x7f"}) {
    const ScratchFolder folder;
    write_image_folder(folder / "");
    for (const char* const set : {"train", "val"})
      fs::rename(folder / set / "ant", folder / set / name);
    const std::string shown = name == "a\nb"   ? "a\\x0Ab"
                              : name == "a\tb" ? "a\\x09b"
                                               : "a\\x7F";
    expect_error(folder_options(folder), ExitCode::kBadInput,
                 (folder / "train").string() + "/" + shown +
                     ": a control character in the name of a class: rename it");
  }
}

TEST(ImageFolder, ADamagedFileAppearsWhenItIsRead) {
  const ScratchFolder folder;
  write_image_folder(folder / "");
  const std::string good = read_bytes(folder / "val/bee/101.jpg");
  write_bytes(folder / "val/bee/101.jpg", good.substr(0, good.size() / 2));
  write_bytes(folder / "train/cow/100.JPEG", "no picture");
  DataOptions options = folder_options(folder);
  options.normalize = "none";
  for (const int64_t prefetch : {0, 2}) {
    options.prefetch = prefetch;
    const LoaderBench fixture(options);  // loads
    Loader loader = fixture.loader(0, 1, 0);
    expect_error_has(
        ExitCode::kBadInput,
        (folder / "train/cow/100.JPEG").string() + ": not a whole JPEG: ", [&] {
          for (int i = 0; i < 4; ++i) loader.next();  // an epoch
        });
    HostBatch batch;
    const std::vector<int64_t> indices = {0, 5};
    EXPECT_THROW(fill_evaluation_batch(batch, fixture.data.test,
                                       fixture.normalization, indices),
                 Error);
    const PixelCheck train = check_pixels(fixture.data.train, Extent::kSample);
    EXPECT_EQ(train.images, 24);
    ASSERT_EQ(train.faults.size(), 1u);
    EXPECT_NE(train.faults[0].find("cow/100.JPEG"), std::string::npos);
    EXPECT_EQ(check_pixels(fixture.data.test, Extent::kAll).faults.size(), 1u);
  }
  options.normalize = "auto";  // reads images itself
  const Dataset data = load_dataset(options);
  EXPECT_THROW(make_normalization(options, data.train), Error);
}

}  // namespace
}  // namespace syncopate
