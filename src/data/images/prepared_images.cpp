#include "data/images/prepared_images.h"

#include <algorithm>

#include "base/text.h"
#include "data/byte_reader.h"
#include "data/images/image_reader.h"
#include "data/images/readers.h"
#include "data/prepared_files.h"

namespace syncopate {
namespace {

constexpr int64_t kChannels = PreparedImages::kChannels;

// The names by label, one per line, with their blanks. Earlier programs did not
// write the number of classes.
std::vector<std::string> read_class_names(const PreparedHeader& header) {
  const auto bytes = header.values<uint8_t>("class_names", {-1});
  std::vector<std::string> names =
      divide(std::string(bytes.begin(), bytes.end()), '\n');
  const auto classes = header.file().int_attribute("/", "classes");
  if (classes && *classes != std::ssize(names))
    header.fail_in(fmt::format("class_names: {} names of {} classes",
                               names.size(), *classes));
  return names;
}

// The sums (samples, channels, 2), each within what bytes can give.
std::vector<PixelSums> read_sums(const PreparedHeader& header,
                                 const ImageSet& set,
                                 const MappedImages& images) {
  const auto numbers =
      header.values<int64_t>("train/sums", {set.samples, kChannels, 2});
  const int64_t most = images.H * images.W * 255;
  std::vector<PixelSums> sums;
  for (size_t i = 0; i < numbers.size(); i += 2) {
    const PixelSums one{numbers[i], numbers[i + 1]};
    if (one.sum < 0 || one.sum > most || one.squares < one.sum ||
        one.squares > one.sum * 255)
      header.fail_in(fmt::format("train/sums: {} {}", one.sum, one.squares));
    sums.push_back(one);
  }
  return sums;
}

// Folders that earlier programs wrote have the number of pixels with each byte
// value (channels, 256) in place of the sums.
std::vector<PixelSums> total_of_histogram(const PreparedHeader& header,
                                          int64_t pixels) {
  const auto counts =
      header.values<int64_t>("train/histogram", {kChannels, 256});
  std::vector<PixelSums> total(kChannels);
  for (int64_t i = 0; i < std::ssize(counts); ++i) {
    const int64_t value = i % 256, count = counts[static_cast<size_t>(i)];
    if (count < 0 || count > pixels)
      header.fail_in(fmt::format("train/histogram: {}", count));
    total[static_cast<size_t>(i / 256)] +=
        {count * value, count * value * value};
  }
  return total;
}

ImageSet read_set(const PreparedHeader& header,
                  const PreparedImages& paths,
                  const std::string& name,
                  const std::vector<std::string>& class_names) {
  ImageSet set;
  set.class_names = class_names;
  set.spec = {.C = kChannels, .classes = std::ssize(class_names)};
  set.labels = header.values<int32_t>(name + "/labels", {-1});
  if (const auto fault = check_labels(set.labels, set.spec.classes))
    header.fail_in(fmt::format("{}/labels: element {}: {}", name,
                               fault->position, fault->what));
  set.samples = std::ssize(set.labels);
  MappedImages images;
  images.H = images.W = header.number("size");
  if (images.H > PreparedImages::kSizeLimit)
    header.fail_in(fmt::format("size = {}", images.H));
  const int64_t image_bytes = images.H * images.W * kChannels;
  images.blocks = header.map(paths.pixels(name), name + "/digests", set.samples,
                             image_bytes, header.number("block_images"),
                             fmt::format("images of {} bytes", image_bytes));
  if (name == "train" && header.file().has("train/sums"))
    images.sums = read_sums(header, set, images);
  else if (name == "train")
    images.total =
        total_of_histogram(header, set.samples * images.H * images.W);
  set.pixels = std::move(images);
  return set;
}

// With `is_train_optional`, without the training set if its pixels are not
// there.
Dataset read_folder(const fs::path& folder, bool is_train_optional) {
  const PreparedImages paths(folder);
  const PreparedHeader header(paths.header, "prepare images",
                              PreparedImages::kKind, PreparedImages::kVersion);
  const auto class_names = read_class_names(header);
  Dataset data;
  data.test = read_set(header, paths, "test", class_names);
  if (is_train_optional && !fs::exists(paths.pixels("train")))
    data.train.spec = data.test.spec;
  else
    data.train = read_set(header, paths, "train", class_names);
  data.source = "prepared_images " + folder.string();
  return data;
}

// `count` evenly spread numbers out of 0 ... total - 1.
std::vector<int64_t> spread(int64_t total, int64_t count) {
  std::vector<int64_t> places;
  for (int64_t i = 0; i < std::min(total, count); ++i)
    places.push_back(i * total / std::min(total, count));
  return places;
}

PixelCheck check_blocks(const MappedImages& images, int64_t num_blocks) {
  PixelCheck check;
  const MappedBlocks& blocks = images.blocks;
  for (const int64_t index : spread(std::ssize(blocks.digests), num_blocks)) {
    check.images +=
        std::ssize(blocks.block(index)) / (images.H * images.W * kChannels);
    if (auto fault = blocks.fault(index))
      check.faults.push_back(std::move(*fault));
  }
  return check;
}

PixelCheck check_files(const ImageSet& set,
                       const JpegFiles& files,
                       int64_t num_files) {
  const std::vector<int64_t> samples = spread(set.samples, num_files);
  std::vector<std::string> said(samples.size());
  set.pool->run(std::ssize(samples), [&](int64_t i) {
    const auto place = static_cast<size_t>(i);
    try {
      JpegDecoder decoder;
      decoder.decode(files.path(samples[place]), [](int64_t, int64_t) {
        // An eighth of the size is enough to notice damage.
        return ImageMap{{8, 0, 0, 0, 8, 0}, 0, Outside::kNearest};
      });
    } catch (const Error& error) {
      said[place] = error.what();
    }
  });
  PixelCheck check;
  check.images = std::ssize(samples);
  for (std::string& text : said)
    if (!text.empty()) check.faults.push_back(std::move(text));
  return check;
}

}  // namespace

Dataset read_prepared_images(const DataOptions& options) {
  Dataset data =
      read_folder(existing_path(options.path), may_lack_train(options));
  set_reading(options, data);
  return data;
}

PixelCheck check_pixels(const ImageSet& set, Extent extent) {
  constexpr int64_t kSampleBlocks = 4, kSampleFiles = 64;
  const bool is_all = extent == Extent::kAll;
  if (const auto* images = std::get_if<MappedImages>(&set.pixels))
    return check_blocks(*images, is_all ? INT64_MAX : kSampleBlocks);
  if (const auto* files = std::get_if<JpegFiles>(&set.pixels))
    return check_files(set, *files, is_all ? INT64_MAX : kSampleFiles);
  return {.faults = {}, .images = set.samples};  // the reader has checked all
}

bool is_prepared_images(const fs::path& folder) {
  const PreparedImages paths(folder);
  return fs::exists(paths.header) && fs::exists(paths.pixels("train"));
}

std::string describe_prepared_images(const fs::path& folder) {
  std::string text = fmt::format("prepared images {}\n", folder.string());
  try {
    const Dataset data = read_folder(folder, false);
    for (const ImageSet* set : {&data.train, &data.test}) {
      const auto& images = std::get<MappedImages>(set->pixels);
      const PixelCheck check = check_pixels(*set, Extent::kAll);
      text += fmt::format(
          "  {} images of {} x {} x {}, {} classes, {}: {}\n", set->samples,
          images.H, images.W, kChannels, set->spec.classes,
          human_bytes(static_cast<double>(images.bytes().size())),
          check.faults.empty() ? "whole" : images.blocks.file->path());
      for (const std::string& fault : check.faults)
        text += "  damaged: " + fault + "\n";
    }
  } catch (const Error& error) {
    if (error.code() != ExitCode::kBadInput &&
        error.code() != ExitCode::kInputMissing)
      throw;
    text += fmt::format("  damaged: {}\n", error.what());
  }
  return text;
}

}  // namespace syncopate
