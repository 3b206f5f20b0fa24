// Images prepared once: equal to what the folder gives, verified, committed as
// a whole or not at all.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "all_or_nothing.h"
#include "base/hdf5_file.h"
#include "data/images/augment.h"
#include "data/images/prepare_images.h"
#include "data/images/prepared_images.h"
#include "jpeg_files.h"
#include "loader_bench.h"

namespace syncopate {
namespace {

constexpr int64_t kSize = 32;
constexpr int64_t kImageBytes = kSize * kSize * 3;

struct Prepared {
  ScratchFolder folder;
  fs::path from = folder / "raw", to = folder / "ready";
  int64_t calls = 0, last_total = 0;

  Prepared() { write_image_folder(from); }
  Dataset run(int threads = 2) {
    return prepare_images({.from = from,
                           .to = to,
                           .size = kSize,
                           .threads = threads,
                           .progress = [&](int64_t done, int64_t total) {
                             ++calls;
                             EXPECT_LE(done, total);
                             last_total = total;
                           }});
  }
  DataOptions options(const std::string& kind) const {
    DataOptions options = options_for(kind, kind == "image_folder" ? from : to);
    options.height = options.width = 28;
    options.batch = 6;
    return options;
  }
};

TEST(PreparedImages, HoldTheMiddleOfEachImage) {
  Prepared prepared;
  const Dataset raw = prepared.run();
  EXPECT_EQ(prepared.calls, 2);
  EXPECT_EQ(prepared.last_total, 36);
  EXPECT_EQ(names_in(prepared.folder),
            (std::vector<std::string>{"raw", "ready"}));
  EXPECT_EQ(fs::file_size(prepared.to / "train.images"), 24 * kImageBytes);
  const Dataset data = load_dataset(prepared.options("prepared_images"));
  EXPECT_EQ(data.train.labels, raw.train.labels);
  EXPECT_EQ(data.test.labels, raw.test.labels);
  EXPECT_EQ(data.train.class_names, raw.train.class_names);
  EXPECT_EQ(data.train.spec.H, 28);
  const ImageSet::Resident stored = data.train.resident();
  EXPECT_EQ(stored.H, kSize);
  // Against the whole file, read through the same map.
  const auto& files = std::get<JpegFiles>(raw.train.pixels);
  JpegDecoder decoder;
  for (int64_t sample = 0; sample < 24; ++sample) {
    const JpegDecoder::Image image = decoder.decode(files.path(sample), whole);
    std::vector<float> values(static_cast<size_t>(kImageBytes));
    reader_of_bytes({.C = 3, .H = kSize, .W = kSize, .classes = 3})
        .read(image.pixels, image.H, image.W,
              evaluation_view(image.H, image.W, kSize, kSize, kSize)
                  .to_map(0, Outside::kNearest),
              values.data());
    // Rounded; large ones were decoded at half the size.
    const double tolerance = std::min(image.H, image.W) < 64 ? 0.501 : 6;
    for (int64_t i = 0; i < kImageBytes; ++i)
      ASSERT_NEAR(stored.bytes[static_cast<size_t>(sample * kImageBytes + i)],
                  values[static_cast<size_t>(i)], tolerance);
  }
}

TEST(PreparedImages, EvaluateLikeTheFolder) {
  Prepared prepared;
  prepared.run();
  DataOptions options = prepared.options("prepared_images");
  options.eval_resize = kSize;
  const Dataset ready = load_dataset(options);
  options = prepared.options("image_folder");
  options.eval_resize = kSize;
  const Dataset raw = load_dataset(options);
  const Normalization units = {{0.5F, 0.5F, 0.5F}, {0.25F, 0.25F, 0.25F}};
  std::vector<int64_t> indices(12);
  std::iota(indices.begin(), indices.end(), 0);
  HostBatch one, two;
  fill_evaluation_batch(one, ready.test, units, indices);
  fill_evaluation_batch(two, raw.test, units, indices);
  EXPECT_EQ(one.labels, two.labels);
  ASSERT_EQ(one.images.size(), two.images.size());
  // Half a grey level of rounding: 0.5 / 255 / 0.25.
  for (size_t i = 0; i < one.images.size(); ++i)
    ASSERT_NEAR(one.images[i], two.images[i], 0.0081);
}

TEST(PreparedImages, NormalisationIsExactAndOfTheTrainSet) {
  Prepared prepared;
  prepared.run();
  const DataOptions options = prepared.options("prepared_images");
  const Dataset data = load_dataset(options);
  ImageSet memory = data.train;
  memory.spec.H = memory.spec.W = kSize;
  const auto bytes = data.train.resident().bytes;
  memory.pixels = std::vector<uint8_t>(bytes.begin(), bytes.end());
  const Normalization a = make_normalization(options, data.train);
  const Normalization b = make_normalization(options, memory);
  EXPECT_EQ(a.mean, b.mean);
  EXPECT_EQ(a.std, b.std);
  // Held-out images have no part; folders that have only the total say
  // the same.
  const std::vector<int64_t> training = {0, 3, 4, 11, 20, 23};
  const Normalization c = make_normalization(options, data.train, training);
  const Normalization d = make_normalization(options, memory, training);
  EXPECT_EQ(c.mean, d.mean);
  EXPECT_EQ(c.std, d.std);
  EXPECT_NE(c.mean, a.mean);
  ImageSet earlier = data.train;
  auto& mapped = std::get<MappedImages>(earlier.pixels);
  mapped.sums.clear();
  mapped.total.resize(3);
  add_pixels(bytes, mapped.total);
  const Normalization e = make_normalization(options, earlier, training);
  EXPECT_EQ(e.mean, d.mean);
  EXPECT_EQ(e.std, d.std);
}

// Every partition and augmentation that others have; the number of threads
// changes no bit of the files or the batches.
TEST(PreparedImages, TrainLikeOtherKinds) {
  Prepared prepared;
  prepared.run(1);
  const auto one = contents_of(prepared.to);
  fs::remove_all(prepared.to);
  prepared.run(5);
  EXPECT_EQ(contents_of(prepared.to), one);
  const Normalization units = {{0, 0, 0}, {1, 1, 1}};
  for (const Partitioning partition :
       {Partitioning::kInterleaved, Partitioning::kRandom,
        Partitioning::kContiguous, Partitioning::kSorted,
        Partitioning::kByClass})
    for (const auto& augment : std::vector<std::vector<std::string>>{
             {"resized_crop", "flip"}, {"crop", "flip", "rotate"}, {}}) {
      DataOptions options = prepared.options("prepared_images");
      options.partition = partition;
      options.augment = augment;
      std::vector<std::vector<float>> seen;
      for (const int64_t threads : {1, 3}) {
        options.decode_threads = threads;
        options.prefetch = threads - 1;
        const Dataset data = load_dataset(options);
        Loader loader(
            options, data.train, units,
            Sampler(options, data.train,
                    split_validation(options, data.train, 1).train, 2, 3),
            1, 3, 0);
        for (int i = 0; i < 3; ++i)
          seen.push_back(content_of(loader.next()).images);
      }
      for (size_t i = 0; i < 3; ++i)
        EXPECT_EQ(seen[i], seen[i + 3]) << name_of(partition);
    }
}

// A crop's padding shows stored pixels beyond the middle before it shows zeros.
TEST(PreparedImages, CropMovesOverTheStoredImage) {
  Prepared prepared;
  prepared.run();
  DataOptions options = prepared.options("prepared_images");
  options.eval_resize = kSize;
  options.augment = {"crop"};
  options.crop_pad = 2;  // (32 - 28) / 2
  const Dataset data = load_dataset(options);
  const Normalization units = {{0, 0, 0}, {1, 1, 1}};
  const Augmenter augmenter(options, data.train, units, 1);
  std::vector<float> out(28 * 28 * 3);
  const auto bytes = data.train.resident().bytes;
  for (int64_t epoch = 0; epoch < 20; ++epoch) {
    augmenter.fill(epoch, 7, out.data());
    const ImageMap map = augmenter.map(epoch, 7);
    const auto left = static_cast<int64_t>(map.m[2]);
    const auto top = static_cast<int64_t>(map.m[5]);
    EXPECT_TRUE(left >= 0 && left <= 4 && top >= 0 && top <= 4);
    for (int64_t y = 0; y < 28; ++y)
      for (int64_t x = 0; x < 84; ++x)
        ASSERT_EQ(out[static_cast<size_t>(y * 84 + x)],
                  static_cast<float>(bytes[static_cast<size_t>(
                      7 * kImageBytes + ((y + top) * kSize + left) * 3 + x)]) /
                      255);
  }
}

TEST(PreparedImages, NamesOfClassesStayAsTheyAre) {
  Prepared prepared;
  const std::vector<std::string> names = {" ant", "b,e e ", "c\u00f6w"};
  for (const char* const set : {"train", "val"})
    for (size_t label = 0; label < names.size(); ++label)
      fs::rename(prepared.from / set /
                     (label == 0   ? "ant"
                      : label == 1 ? "bee"
                                   : "cow"),
                 prepared.from / set / names[label]);
  EXPECT_EQ(prepared.run().train.class_names, names);
  EXPECT_EQ(load_dataset(prepared.options("prepared_images")).test.class_names,
            names);
}

// Writes the header again, with these names and number of classes; the latter
// is missing in headers of earlier programs.
void rewrite_header(const fs::path& header,
                    const std::string& names,
                    std::optional<int64_t> classes) {
  const fs::path other = header.string() + ".other";
  const Hdf5Reader from(header);
  Hdf5Writer to(other, Seal::kDigest);
  const auto copy = [&]<typename T>(const std::string& name, T) {
    const Hdf5Dataset found = from.dataset(name);
    std::vector<T> values(static_cast<size_t>(found.elems()));
    from.read<T>(name, values);
    to.write<T>(name, found.dims, values);
  };
  for (const std::string set : {"train", "test"}) {
    copy(set + "/labels", int32_t{});
    copy(set + "/digests", uint8_t{});
  }
  copy("train/sums", int64_t{});
  const std::vector<int64_t> letters = {std::ssize(names)};
  to.write(
      std::string("class_names"), letters,
      std::span(reinterpret_cast<const uint8_t*>(names.data()), names.size()));
  to.attribute("/", "kind", *from.text_attribute("/", "kind"));
  for (const char* const name : {"version", "size", "block_images"})
    to.attribute("/", name, *from.int_attribute("/", name));
  if (classes) to.attribute("/", "classes", *classes);
  to.close();
  fs::rename(other, header);
}

TEST(PreparedImages, TheNumberOfClassesIsCheckedWhereItIsKnown) {
  Prepared prepared;
  prepared.run();
  const fs::path header = prepared.to / "images.h5";
  const DataOptions options = prepared.options("prepared_images");
  EXPECT_EQ(Hdf5Reader(header).int_attribute("/", "classes"), 3);
  rewrite_header(header, "a\nb\nc\nd", 3);
  expect_error_has(options, ExitCode::kBadInput,
                   header.string() + ": class_names: 4 names of 3 classes");
  for (const auto classes : {std::optional<int64_t>(4), {}}) {
    rewrite_header(header, "a\nb\nc\nd", classes);
    EXPECT_EQ(load_dataset(options).train.spec.classes, 4);
  }
}

TEST(PreparedImages, DamageIsFound) {
  Prepared prepared;
  prepared.run();
  const DataOptions options = prepared.options("prepared_images");
  const fs::path pixels = prepared.to / "test.images";
  EXPECT_TRUE(is_prepared_images(prepared.to));
  EXPECT_FALSE(is_prepared_images(prepared.from));
  EXPECT_EQ(describe_prepared_images(prepared.to).find("damaged"),
            std::string::npos);
  const std::string whole = read_bytes(pixels);
  write_bytes(pixels, changed_at(whole, 12345));
  const Dataset data = load_dataset(options);  // does not read pixels
  EXPECT_TRUE(check_pixels(data.train, Extent::kAll).faults.empty());
  for (const Extent extent : {Extent::kAll, Extent::kSample}) {
    const PixelCheck check = check_pixels(data.test, extent);
    EXPECT_EQ(check.images, 12);
    ASSERT_EQ(check.faults.size(), 1u);
    EXPECT_EQ(check.faults[0],
              pixels.string() +
                  ": offset 0: 36864 bytes are not those that were written");
  }
  EXPECT_NE(describe_prepared_images(prepared.to).find("\n  damaged: "),
            std::string::npos);
  for (const std::string& other :
       {whole.substr(1), whole + "x", std::string()}) {
    write_bytes(pixels, other);
    expect_error(options, ExitCode::kBadInput,
                 fmt::format("{}: {} bytes, expected 12 images of 3072 bytes",
                             pixels.string(), other.size()));
    EXPECT_NE(describe_prepared_images(prepared.to).find("\n  damaged: "),
              std::string::npos);
  }
  fs::remove(pixels);
  EXPECT_EQ(error_of([&] { load_dataset(options); }).code(),
            ExitCode::kInputMissing);
  write_bytes(pixels, whole);
  const fs::path header = prepared.to / "images.h5";
  const std::string good = read_bytes(header);
  for (const size_t size : {size_t{0}, size_t{100}, good.size() / 2}) {
    write_bytes(header, good.substr(0, size));
    EXPECT_EQ(error_of([&] { load_dataset(options); }).code(),
              ExitCode::kBadInput);
  }
  for (size_t at = 0; at < good.size(); at += 997) {
    write_bytes(header, changed_at(good, at));
    EXPECT_EQ(error_of([&] { load_dataset(options); }).code(),
              ExitCode::kBadInput)
        << at;
  }
  fs::remove(header);
  EXPECT_EQ(error_of([&] { load_dataset(options); }).code(),
            ExitCode::kInputMissing);
}

TEST(PrepareImages, LeavesNothingHalf) {
  Prepared prepared;
  // A damaged file, in the last set.
  const fs::path file = prepared.from / "val/cow/103.JPEG";
  const std::string good = read_bytes(file);
  write_bytes(file, good.substr(0, good.size() / 2));
  expect_error_has(ExitCode::kBadInput, file.string() + ": ",
                   [&] { prepared.run(); });
  EXPECT_EQ(names_in(prepared.folder), std::vector<std::string>{"raw"});
  write_bytes(file, good);
  expect_all_or_nothing(prepared.folder, "train.images", 5000,
                        [&] { prepared.run(); });
  const Dataset data = load_dataset(prepared.options("prepared_images"));
  EXPECT_TRUE(check_pixels(data.test, Extent::kAll).faults.empty());
}

}  // namespace
}  // namespace syncopate
