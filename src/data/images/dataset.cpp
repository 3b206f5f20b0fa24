#include "data/images/dataset.h"

#include <algorithm>

#include "base/check.h"
#include "base/file.h"
#include "base/text.h"
#include "data/images/readers.h"
#include "data/kinds.h"
#include "data/sampler.h"

namespace syncopate {
namespace {

// A digest of the pixels, or of block digests or names: files are not read.
struct DigestOfPixels {
  template <typename T>
  std::string operator()(const std::vector<T>& pixels) const {
    return digest_of(bytes_of(pixels));
  }
  std::string operator()(const MappedImages& images) const {
    return digest_of(join(images.block_digests, "\n"));
  }
  std::string operator()(const JpegFiles& files) const {
    return digest_of(join(files.names, "\n"));
  }
};

// Checks the invariants of every reader and sets the digest.
void finish(ImageSet& set) {
  const ImageSpec& spec = set.spec;
  const ImageSet::Resident stored = set.resident();
  const bool is_stored = !std::holds_alternative<JpegFiles>(set.pixels);
  CHECK(set.samples > 0);
  CHECK(!is_stored || std::ssize(stored.bytes) + std::ssize(stored.floats) ==
                          set.samples * spec.C * stored.H * stored.W);
  CHECK(set.labels.size() == static_cast<size_t>(set.samples));
  CHECK(!check_labels(set.labels, spec.classes));
  CHECK(set.class_names.empty() ||
        set.class_names.size() == static_cast<size_t>(spec.classes));
  set.digest = digest_of(fmt::format(
      "{} {} {} {} {} {} {}", spec.C, spec.H, spec.W, spec.classes,
      set.is_bytes() ? "u8" : "f32", std::visit(DigestOfPixels{}, set.pixels),
      digest_of(bytes_of(set.labels))));
}

}  // namespace

void add_pixels(std::span<const uint8_t> pixels, Histogram& histogram) {
  for (size_t i = 0; i < pixels.size();)
    for (auto& counts : histogram) ++counts[pixels[i++]];
}

ImageSet::Resident ImageSet::resident() const {
  if (const auto* bytes = std::get_if<std::vector<uint8_t>>(&pixels))
    return {spec.H, spec.W, *bytes, {}};
  if (const auto* floats = std::get_if<std::vector<float>>(&pixels))
    return {spec.H, spec.W, {}, *floats};
  if (const auto* mapped = std::get_if<MappedImages>(&pixels))
    return {mapped->H, mapped->W, mapped->file->bytes(), {}};
  return {};
}

void ImageSet::read_ahead() const {
  if (const auto* mapped = std::get_if<MappedImages>(&pixels))
    mapped->file->will_need(0, std::ssize(mapped->file->bytes()));
}

SampleTable::SampleTable(const ImageSet& set)
    : samples(set.samples),
      label_of([labels = std::span(set.labels)](int64_t sample) {
        return labels[static_cast<size_t>(sample)];
      }),
      classes(set.spec.classes) {}

int64_t ImageSet::memory_bytes() const {
  if (std::holds_alternative<MappedImages>(pixels)) return 0;
  const Resident stored = resident();
  return std::ssize(stored.bytes) +
         std::ssize(stored.floats) * static_cast<int64_t>(sizeof(float));
}

std::optional<LabelFault> count_classes(std::span<const int32_t> labels,
                                        int64_t* classes) {
  int32_t largest = 0;
  for (const int32_t label : labels) largest = std::max(largest, label);
  constexpr int32_t kClassLimit = 1 << 24;  // a bitmap of this fits anywhere
  if (const auto fault = check_labels(labels, kClassLimit)) return fault;
  std::vector<bool> present(static_cast<size_t>(largest) + 1, false);
  for (const int32_t label : labels) present[static_cast<size_t>(label)] = true;
  const auto gap = std::find(present.begin(), present.end(), false);
  if (gap != present.end()) {
    const auto missing = static_cast<int32_t>(gap - present.begin());
    const auto first =
        std::find_if(labels.begin(), labels.end(),
                     [&](int32_t label) { return label > missing; });
    return LabelFault{first - labels.begin(),
                      fmt::format("label {}, but no sample has label {}: "
                                  "expected 0, 1, ... without a gap",
                                  *first, missing)};
  }
  *classes = largest + int64_t{1};
  return std::nullopt;
}

std::optional<LabelFault> check_labels(std::span<const int32_t> labels,
                                       int64_t classes) {
  for (size_t i = 0; i < labels.size(); ++i)
    if (labels[i] < 0 || labels[i] >= classes)
      return LabelFault{
          static_cast<int64_t>(i),
          fmt::format("label {}, expected 0 to {}", labels[i], classes - 1)};
  return std::nullopt;
}

PixelSize image_size(const DataOptions& options) {
  const int64_t side = is_synthetic(options.kind) ? 32 : 224;
  return {options.height > 0 ? options.height : side,
          options.width > 0 ? options.width : side};
}

Dataset load_dataset(const DataOptions& options) {
  const DataKind* kind = find_data_kind(options.kind);
  if (kind == nullptr || kind->read_images == nullptr)
    fail(ExitCode::kBadInput, "data.kind: {}, expected one of: {}",
         options.kind, join(image_kinds(), " "));
  if (options.path.empty() && !kind->is_made)
    fail(ExitCode::kBadInput, "data.path: empty, expected where the {} data is",
         options.kind);
  Dataset data = kind->read_images(options);
  finish(data.train);
  finish(data.test);
  CHECK(data.train.spec == data.test.spec);
  return data;
}

}  // namespace syncopate
