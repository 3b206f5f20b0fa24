#include "data/images/prepare_images.h"

#include <algorithm>
#include <array>
#include <span>

#include "base/check.h"
#include "base/hdf5_file.h"
#include "base/text.h"
#include "data/images/dataset.h"
#include "data/images/image_reader.h"
#include "data/images/prepared_files.h"
#include "data/options.h"
#include "data/work_folder.h"

namespace syncopate {
namespace {

constexpr int64_t kChannels = 3;
constexpr int64_t kBlockBytes = 32 << 20;  // decoded between two writes

struct Written {
  std::string digests;        // of the blocks, concatenated
  std::vector<int64_t> sums;  // (samples, channels, 2), as PixelSums
};

// Sums of an image's bytes and of their squares, by channel.
void add_sums(std::span<const uint8_t> image, std::vector<int64_t>& sums) {
  std::array<PixelSums, kChannels> channels{};
  for (size_t i = 0; i < image.size(); ++i)
    channels[i % kChannels] += {image[i], int64_t{image[i]} * image[i]};
  for (const PixelSums& one : channels) {
    sums.push_back(one.sum);
    sums.push_back(one.squares);
  }
}

int64_t images_a_block(const ImageSet& set) {
  return std::max<int64_t>(1,
                           kBlockBytes / (set.spec.H * set.spec.W * kChannels));
}

// `progress` receives the number of images of this set that are done.
Written write_pixels(const ImageSet& set,
                     const fs::path& path,
                     const std::function<void(int64_t)>& progress) {
  const auto& files = std::get<JpegFiles>(set.pixels);
  const int64_t image_bytes = set.spec.H * set.spec.W * kChannels;
  const int64_t block_images = images_a_block(set);
  std::vector<uint8_t> block;
  OutputFile output(path);
  Written written;
  for (int64_t first = 0; first < set.samples; first += block_images) {
    const int64_t count = std::min(block_images, set.samples - first);
    block.resize(static_cast<size_t>(count * image_bytes));
    set.pool->run(count, [&](int64_t i) {
      read_jpeg_bytes(
          files.path(first + i),
          [&](int64_t H, int64_t W) {
            return evaluation_map(set, first + i, H, W);
          },
          set.spec, block.data() + i * image_bytes);
    });
    const std::string_view bytes(reinterpret_cast<const char*>(block.data()),
                                 block.size());
    output.write(bytes);
    written.digests += digest_of(bytes);
    for (int64_t i = 0; i < count; ++i)
      add_sums(std::span(block).subspan(static_cast<size_t>(i * image_bytes),
                                        static_cast<size_t>(image_bytes)),
               written.sums);
    progress(first + count);
  }
  output.finish();
  return written;
}

void write_labels(Hdf5Writer& file,
                  const std::string& name,
                  const ImageSet& set,
                  const std::string& digests) {
  const std::vector<int64_t> rows = {set.samples};
  file.write(name + "/labels", rows, std::span(set.labels));
  const std::vector<int64_t> blocks = {std::ssize(digests) / kDigestLetters,
                                       kDigestLetters};
  file.write(name + "/digests", blocks,
             std::span(reinterpret_cast<const uint8_t*>(digests.data()),
                       digests.size()));
  file.attribute(
      name + "/digests", "description",
      "XXH3-128 of each block_images images of " + name + ".images, as text");
}

void write_header(const fs::path& path,
                  const Dataset& data,
                  const Written& train,
                  const Written& test) {
  Hdf5Writer file(path, Seal::kDigest);
  write_labels(file, "train", data.train, train.digests);
  write_labels(file, "test", data.test, test.digests);
  const std::vector<int64_t> shape = {data.train.samples, kChannels, 2};
  file.write("train/sums", shape, std::span<const int64_t>(train.sums));
  file.attribute("train/sums", "description",
                 "sum of the bytes of an image of train.images and of their "
                 "squares, by channel");
  const std::string names = join(data.train.class_names, "\n");
  const std::vector<int64_t> letters = {std::ssize(names)};
  file.write(
      "class_names", letters,
      std::span(reinterpret_cast<const uint8_t*>(names.data()), names.size()));
  file.attribute("class_names", "description", "UTF-8, one a line, by label");
  file.attribute("/", "kind", PreparedFiles::kKind);
  file.attribute("/", "version", PreparedFiles::kVersion);
  file.attribute("/", "size", data.train.spec.H);
  file.attribute("/", "block_images", images_a_block(data.train));
  file.attribute("/", "description",
                 "train.images and test.images hold RGB bytes (samples, size, "
                 "size, 3)");
  file.close();
}

}  // namespace

Dataset prepare_images(const PrepareImages& wanted) {
  if (wanted.size < 1 || wanted.size > PreparedFiles::kSizeLimit)
    fail(ExitCode::kUsage, "--size={}: expected 1 to {}", wanted.size,
         PreparedFiles::kSizeLimit);
  WorkFolder work(wanted.to, PreparedFiles::kNames);
  const PreparedFiles files(work.path());
  DataOptions options;
  options.kind = "image_folder";
  options.path = wanted.from.string();
  options.height = options.width = options.eval_resize = wanted.size;
  options.decode_threads = wanted.threads;
  Dataset data = load_dataset(options);

  const int64_t total = data.train.samples + data.test.samples;
  const Written train =
      write_pixels(data.train, files.pixels("train"),
                   [&](int64_t done) { wanted.progress(done, total); });
  const Written test = write_pixels(
      data.test, files.pixels("test"),
      [&](int64_t done) { wanted.progress(data.train.samples + done, total); });
  write_header(files.header, data, train, test);
  fsync_path(files.header);
  work.commit();
  return data;
}

}  // namespace syncopate
