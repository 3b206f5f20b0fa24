// CIFAR-10 and CIFAR-100, binary version (https://www.cs.toronto.edu/~kriz/
// cifar.html): records of label bytes and 3 planes of 32 x 32 bytes. A trained
// model needs only the test records.
#include <algorithm>
#include <span>

#include "base/file.h"
#include "base/text.h"
#include "data/byte_reader.h"
#include "data/images/readers.h"

namespace syncopate {
namespace {

constexpr int64_t kSide = 32, kPlane = kSide * kSide, kChannels = 3;
constexpr int64_t kImageBytes = kChannels * kPlane;

struct Format {
  int64_t classes;
  int64_t label_bytes;  // the last is used: CIFAR-100 has coarse, fine
  std::vector<std::string> train_files, test_files;
  std::string names_file;  // one class per line; optional
};

// Planes (C, H, W) to (H, W, C).
void interleave_channels(const uint8_t* planes, uint8_t* pixels) {
  for (int64_t i = 0; i < kPlane; ++i)
    for (int64_t c = 0; c < kChannels; ++c)
      pixels[i * kChannels + c] = planes[c * kPlane + i];
}

void append_file(const fs::path& path, const Format& format, ImageSet& set) {
  ByteReader reader(path);
  const int64_t record_bytes = format.label_bytes + kImageBytes;
  const int64_t file_bytes = reader.left_at_most();
  const int64_t samples = file_bytes / record_bytes;
  if (file_bytes % record_bytes != 0)
    reader.fail_at(samples * record_bytes,
                   fmt::format("{} bytes follow the last whole record, "
                               "expected records of {} bytes",
                               file_bytes % record_bytes, record_bytes));
  auto& pixels = std::get<std::vector<uint8_t>>(set.pixels);
  const auto first = static_cast<size_t>(set.samples);
  set.samples += samples;
  pixels.resize(static_cast<size_t>(set.samples * kImageBytes));
  std::vector<uint8_t> record(static_cast<size_t>(record_bytes));
  for (int64_t i = 0; i < samples; ++i) {
    reader.read(record, "a record");
    set.labels.push_back(record[static_cast<size_t>(format.label_bytes - 1)]);
    interleave_channels(
        record.data() + format.label_bytes,
        pixels.data() + (static_cast<int64_t>(first) + i) * kImageBytes);
  }
  const std::span<const int32_t> labels(set.labels);
  if (const auto fault = check_labels(labels.subspan(first), set.spec.classes))
    reader.fail_at(fault->position * record_bytes + format.label_bytes - 1,
                   fault->what);
}

// Reserves memory for all files at once, because growing file by file would
// copy the pixels and hold them twice. Faulty files are reported when they are
// read.
void reserve_pixels(const fs::path& folder,
                    const std::vector<std::string>& files,
                    ImageSet& set) {
  uintmax_t bytes = 0;
  for (const std::string& name : files) {
    std::error_code error;
    const uintmax_t size = fs::file_size(folder / name, error);
    if (!error) bytes += size;
  }
  constexpr uintmax_t kMost = uintmax_t{1} << 28;  // CIFAR's are 154 MB
  std::get<std::vector<uint8_t>>(set.pixels).reserve(std::min(bytes, kMost));
}

std::vector<std::string> read_names(const fs::path& path, int64_t classes) {
  std::vector<std::string> names;
  if (!fs::exists(path)) return names;
  constexpr int64_t kLimitBytes = 1 << 20;  // far above 100 short words
  for (const std::string& line : split(read_file(path, kLimitBytes), '\n'))
    if (const auto name = trim(line); !name.empty()) names.emplace_back(name);
  if (static_cast<int64_t>(names.size()) != classes)
    fail(ExitCode::kBadInput, "{}: {} class names, expected {}", path.string(),
         names.size(), classes);
  check_class_names(path.string(), names);
  return names;
}

Dataset read_cifar(const DataOptions& options, const Format& format) {
  const fs::path folder = existing_path(options.path);
  Dataset data;
  const ImageSpec spec = {
      .C = kChannels, .H = kSide, .W = kSide, .classes = format.classes};
  data.train.spec = data.test.spec = spec;
  const bool has_train =
      !may_lack_train(options) ||
      std::ranges::any_of(format.train_files, [&](const std::string& name) {
        return fs::exists(folder / name);
      });
  if (has_train) {
    reserve_pixels(folder, format.train_files, data.train);
    for (const auto& name : format.train_files)
      append_file(folder / name, format, data.train);
  }
  for (const auto& name : format.test_files)
    append_file(folder / name, format, data.test);
  data.train.class_names =
      read_names(folder / format.names_file, format.classes);
  data.test.class_names = data.train.class_names;
  data.source = options.kind + " " + options.path;
  return data;
}

}  // namespace

Dataset read_cifar10(const DataOptions& options) {
  return read_cifar(options,
                    {.classes = 10,
                     .label_bytes = 1,
                     .train_files = {"data_batch_1.bin", "data_batch_2.bin",
                                     "data_batch_3.bin", "data_batch_4.bin",
                                     "data_batch_5.bin"},
                     .test_files = {"test_batch.bin"},
                     .names_file = "batches.meta.txt"});
}

Dataset read_cifar100(const DataOptions& options) {
  return read_cifar(options, {.classes = 100,
                              .label_bytes = 2,
                              .train_files = {"train.bin"},
                              .test_files = {"test.bin"},
                              .names_file = "fine_label_names.txt"});
}

}  // namespace syncopate
