#include "data/images/prepared_images.h"

#include <algorithm>

#include "base/check.h"
#include "base/hdf5_file.h"
#include "base/text.h"
#include "data/images/image_reader.h"
#include "data/images/prepared_files.h"
#include "data/images/readers.h"
#include "data/options.h"

namespace syncopate {
namespace {

constexpr int64_t kChannels = 3;

[[noreturn]] void fail_in(const fs::path& path, const std::string& what) {
  fail(ExitCode::kBadInput, "{}: {}, expected what prepare images writes",
       path.string(), what);
}

int64_t read_number(const Hdf5Reader& file,
                    const fs::path& path,
                    const std::string& name,
                    int64_t high) {
  const auto value = file.int_attribute("/", name);
  if (!value || *value < 1 || *value > high)
    fail_in(path, value ? fmt::format("{} = {}", name, *value)
                        : fmt::format("no attribute {}", name));
  return *value;
}

// A dataset of T with shape `dims`, where -1 stands for any length.
template <typename T>
std::vector<T> read_values(const Hdf5Reader& file,
                           const fs::path& path,
                           const std::string& name,
                           const std::vector<int64_t>& dims) {
  if (!file.has(name)) fail_in(path, "no dataset " + name);
  const Hdf5Dataset found = file.dataset(name);
  bool is_expected = found.type == element_type_of<T>() &&
                     found.dims.size() == dims.size() && found.elems() > 0;
  for (size_t i = 0; is_expected && i < dims.size(); ++i)
    is_expected = dims[i] < 0 || dims[i] == found.dims[i];
  if (!is_expected) fail_in(path, describe(found));
  std::vector<T> values(static_cast<size_t>(found.elems()));
  file.read<T>(name, values);
  return values;
}

std::vector<std::string> read_class_names(const Hdf5Reader& file,
                                          const fs::path& path) {
  const auto bytes = read_values<uint8_t>(file, path, "class_names", {-1});
  return split(std::string_view(reinterpret_cast<const char*>(bytes.data()),
                                bytes.size()),
               '\n');
}

// (samples, channels, 2) numbers that bytes can have.
std::vector<PixelSums> read_sums(const Hdf5Reader& file,
                                 const fs::path& path,
                                 const ImageSet& set,
                                 const MappedImages& images) {
  const auto numbers = read_values<int64_t>(file, path, "train/sums",
                                            {set.samples, kChannels, 2});
  const int64_t most = images.H * images.W * 255;
  std::vector<PixelSums> sums;
  for (size_t i = 0; i < numbers.size(); i += 2) {
    const PixelSums one{numbers[i], numbers[i + 1]};
    if (one.sum < 0 || one.sum > most || one.squares < one.sum ||
        one.squares > one.sum * 255)
      fail_in(path, fmt::format("train/sums: {} {}", one.sum, one.squares));
    sums.push_back(one);
  }
  return sums;
}

Histogram read_histogram(const Hdf5Reader& file, const fs::path& path) {
  const auto counts =
      read_values<int64_t>(file, path, "train/histogram", {kChannels, 256});
  Histogram histogram(kChannels);
  for (size_t i = 0; i < counts.size(); ++i)
    histogram[i / 256][i % 256] = counts[i];
  return histogram;
}

ImageSet read_set(const Hdf5Reader& file,
                  const PreparedFiles& paths,
                  const std::string& name,
                  const std::vector<std::string>& class_names) {
  const fs::path& header = paths.header;
  ImageSet set;
  set.class_names = class_names;
  set.spec = {.C = kChannels, .classes = std::ssize(class_names)};
  set.labels = read_values<int32_t>(file, header, name + "/labels", {-1});
  if (const auto fault = check_labels(set.labels, set.spec.classes))
    fail_in(header, fmt::format("{}/labels: element {}: {}", name,
                                fault->position, fault->what));
  set.samples = std::ssize(set.labels);
  MappedImages images;
  images.H = images.W =
      read_number(file, header, "size", PreparedFiles::kSizeLimit);
  images.block_images = read_number(file, header, "block_images", INT64_MAX);
  const int64_t blocks = (set.samples - 1) / images.block_images + 1;
  const auto digests = read_values<uint8_t>(file, header, name + "/digests",
                                            {blocks, kDigestLetters});
  for (int64_t i = 0; i < blocks; ++i)
    images.block_digests.emplace_back(
        digests.begin() + i * kDigestLetters,
        digests.begin() + (i + 1) * kDigestLetters);
  images.file = std::make_shared<MappedFile>(paths.pixels(name));
  const int64_t image_bytes = images.H * images.W * kChannels;
  const int64_t bytes = std::ssize(images.file->bytes());
  if (bytes / image_bytes != set.samples || bytes % image_bytes != 0)
    fail(ExitCode::kBadInput, "{}: {} bytes, expected {} images of {} bytes",
         images.file->path(), bytes, set.samples, image_bytes);
  if (name == "train" && file.has("train/sums"))
    images.sums = read_sums(file, header, set, images);
  else if (name == "train")
    images.histogram = read_histogram(file, header);
  set.pixels = std::move(images);
  return set;
}

Dataset read_folder(const fs::path& folder) {
  const PreparedFiles paths(folder);
  check_seal(paths.header);
  const Hdf5Reader file(paths.header);
  if (file.text_attribute("/", "kind") != PreparedFiles::kKind)
    fail_in(paths.header, "something else");
  if (file.int_attribute("/", "version") != PreparedFiles::kVersion)
    fail_in(paths.header, "another version");
  const auto class_names = read_class_names(file, paths.header);
  Dataset data;
  data.train = read_set(file, paths, "train", class_names);
  data.test = read_set(file, paths, "test", class_names);
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

PixelCheck check_blocks(const ImageSet& set,
                        const MappedImages& images,
                        int64_t num_blocks) {
  PixelCheck check;
  const int64_t image_bytes = images.H * images.W * kChannels;
  for (const int64_t block :
       spread(std::ssize(images.block_digests), num_blocks)) {
    const int64_t first = block * images.block_images;
    const int64_t count = std::min(images.block_images, set.samples - first);
    const int64_t from = first * image_bytes, bytes = count * image_bytes;
    images.file->will_need(from, bytes);
    const auto block_bytes = images.file->bytes().subspan(
        static_cast<size_t>(from), static_cast<size_t>(bytes));
    check.images += count;
    if (digest_of({reinterpret_cast<const char*>(block_bytes.data()),
                   block_bytes.size()}) !=
        images.block_digests[static_cast<size_t>(block)])
      check.faults.push_back(
          fmt::format("{}: offset {}: {} bytes are not those that were written",
                      images.file->path(), from, bytes));
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
        return ImageMap{
            {8, 0, 0, 0, 8, 0}, 0, 1};  // an eighth of the size suffices
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
  Dataset data = read_folder(options.path);
  set_reading(options, data);
  return data;
}

PixelCheck check_pixels(const ImageSet& set, Extent extent) {
  constexpr int64_t kSampleBlocks = 4, kSampleFiles = 64;
  const bool is_all = extent == Extent::kAll;
  if (const auto* images = std::get_if<MappedImages>(&set.pixels))
    return check_blocks(set, *images, is_all ? INT64_MAX : kSampleBlocks);
  if (const auto* files = std::get_if<JpegFiles>(&set.pixels))
    return check_files(set, *files, is_all ? INT64_MAX : kSampleFiles);
  return {.faults = {}, .images = set.samples};  // the reader has checked all
}

bool is_prepared_images(const fs::path& folder) {
  const PreparedFiles paths(folder);
  return fs::exists(paths.header) && fs::exists(paths.pixels("train"));
}

std::string describe_prepared_images(const fs::path& folder) {
  std::string text = fmt::format("prepared images {}\n", folder.string());
  try {
    const Dataset data = read_folder(folder);
    for (const ImageSet* set : {&data.train, &data.test}) {
      const auto& images = std::get<MappedImages>(set->pixels);
      const PixelCheck check = check_pixels(*set, Extent::kAll);
      text += fmt::format(
          "  {} images of {} x {} x {}, {} classes, {}: {}\n", set->samples,
          images.H, images.W, kChannels, set->spec.classes,
          human_bytes(static_cast<double>(images.file->bytes().size())),
          check.faults.empty() ? "whole" : images.file->path());
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
