#include "data/images/prepare_images.h"

#include <algorithm>
#include <span>
#include <tuple>

#include "base/text.h"
#include "data/images/dataset.h"
#include "data/images/image_reader.h"
#include "data/images/prepared_images.h"
#include "data/options.h"
#include "data/prepared_files.h"

namespace syncopate {
namespace {

constexpr int64_t kChannels = PreparedImages::kChannels;
constexpr int64_t kBlockBytes = 32 << 20;  // decoded between two writes

int64_t images_per_block(const ImageSet& set) {
  return std::max<int64_t>(1, kBlockBytes / set.spec.elems());
}

// Returns the sums of the images (samples, channels). `progress` receives the
// number of images of this set that are done.
std::vector<PixelSums> write_pixels(
    const ImageSet& set,
    BlockWriter& output,
    const std::function<void(int64_t)>& progress) {
  const auto& files = std::get<JpegFiles>(set.pixels);
  const int64_t image_bytes = set.spec.elems();
  const int64_t block_images = images_per_block(set);
  std::vector<uint8_t> block;
  std::vector<PixelSums> sums(static_cast<size_t>(set.samples * kChannels));
  for (int64_t first = 0; first < set.samples; first += block_images) {
    const int64_t count = std::min(block_images, set.samples - first);
    block.resize(static_cast<size_t>(count * image_bytes));
    set.pool->run(count, [&](int64_t i) {
      const std::span<uint8_t> image =
          std::span(block).subspan(static_cast<size_t>(i * image_bytes),
                                   static_cast<size_t>(image_bytes));
      read_jpeg_bytes(
          files.path(first + i),
          [&](int64_t H, int64_t W) {
            return evaluation_map(set, first + i, H, W);
          },
          set.spec, image.data());
      add_pixels(image, std::span(sums).subspan(
                            static_cast<size_t>((first + i) * kChannels),
                            static_cast<size_t>(kChannels)));
    });
    output.write({reinterpret_cast<const char*>(block.data()), block.size()});
    progress(first + count);
  }
  output.finish();
  return sums;
}

void write_header(const fs::path& path,
                  const Dataset& data,
                  const BlockWriter& train,
                  const BlockWriter& test,
                  const std::vector<PixelSums>& train_sums) {
  Hdf5Writer file(path, Seal::kDigest);
  for (const auto& [name, set, pixels] :
       {std::tuple("train", &data.train, &train),
        {"test", &data.test, &test}}) {
    const std::string group = name;
    const std::vector<int64_t> rows = {set->samples};
    file.write(group + "/labels", rows, std::span(set->labels));
    pixels->write_digests(file, group + "/digests",
                          "XXH3-128 of each block_images images of " + group +
                              ".images, as text");
  }
  std::vector<int64_t> sums;
  for (const PixelSums& one : train_sums)
    sums.insert(sums.end(), {one.sum, one.squares});
  const std::vector<int64_t> shape = {data.train.samples, kChannels, 2};
  file.write("train/sums", shape, std::span<const int64_t>(sums));
  file.attribute("train/sums", "description",
                 "sum of the bytes of an image of train.images and of their "
                 "squares, by channel");
  const std::string names = join(data.train.class_names, "\n");
  write_text(file, "class_names", {std::ssize(names)}, names);
  file.attribute("class_names", "description", "UTF-8, one per line, by label");
  file.attribute("/", "kind", PreparedImages::kKind);
  file.attribute("/", "version", PreparedImages::kVersion);
  file.attribute("/", "size", data.train.spec.H);
  file.attribute("/", "classes", data.train.spec.classes);
  file.attribute("/", "block_images", images_per_block(data.train));
  file.attribute("/", "description",
                 "train.images and test.images hold RGB bytes (samples, size, "
                 "size, 3)");
  file.close();
}

}  // namespace

Dataset prepare_images(const PrepareImages& wanted) {
  if (wanted.size < 1 || wanted.size > PreparedImages::kSizeLimit)
    fail(ExitCode::kUsage, "--size={}: expected 1 to {}", wanted.size,
         PreparedImages::kSizeLimit);
  WorkFolder work(wanted.to, PreparedImages::kNames);
  const PreparedImages files(work.path());
  DataOptions options;
  options.kind = "image_folder";
  options.path = wanted.from.string();
  options.height = options.width = options.eval_resize = wanted.size;
  options.decode_threads = wanted.threads;
  Dataset data = load_dataset(options);
  require_labels(data);

  const int64_t total = data.train.samples + data.test.samples;
  const int64_t block_bytes =
      images_per_block(data.train) * data.train.spec.elems();
  BlockWriter train(files.pixels("train"), block_bytes);
  BlockWriter test(files.pixels("test"), block_bytes);
  const auto sums = write_pixels(
      data.train, train, [&](int64_t done) { wanted.progress(done, total); });
  write_pixels(data.test, test, [&](int64_t done) {
    wanted.progress(data.train.samples + done, total);
  });
  write_header(files.header, data, train, test, sums);
  fsync_path(files.header);
  work.commit();
  return data;
}

}  // namespace syncopate
