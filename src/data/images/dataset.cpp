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
    return digest_of(join(images.blocks.digests, "\n"));
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
  CHECK(spec.classes > 0);
  CHECK(!set.is_labelled || !check_labels(set.labels, set.spec.classes));
  CHECK(set.class_names.empty() ||
        set.class_names.size() == static_cast<size_t>(spec.classes));
  set.digest = digest_of(fmt::format(
      "{} {} {} {} {} {} {}", spec.C, spec.H, spec.W, spec.classes,
      set.is_bytes() ? "u8" : "f32", std::visit(DigestOfPixels{}, set.pixels),
      digest_of(bytes_of(set.labels))));
}

}  // namespace

void add_pixels(std::span<const uint8_t> pixels, std::span<PixelSums> sums) {
  for (size_t i = 0; i < pixels.size();)
    for (PixelSums& channel : sums) {
      const int64_t value = pixels[i++];
      channel += {value, value * value};
    }
}

ImageSet::Resident ImageSet::resident() const {
  if (const auto* bytes = std::get_if<std::vector<uint8_t>>(&pixels))
    return {spec.H, spec.W, *bytes, {}};
  if (const auto* floats = std::get_if<std::vector<float>>(&pixels))
    return {spec.H, spec.W, {}, *floats};
  if (const auto* mapped = std::get_if<MappedImages>(&pixels))
    return {mapped->H, mapped->W, mapped->bytes(), {}};
  return {};
}

void ImageSet::read_ahead() const {
  if (const auto* mapped = std::get_if<MappedImages>(&pixels))
    mapped->blocks.file->will_need(0, std::ssize(mapped->bytes()));
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

std::optional<LabelFault> check_labels(std::span<const int32_t> labels,
                                       int64_t& classes) {
  constexpr int64_t kClassLimit = 1 << 24;  // a bitmap of this fits anywhere
  const int64_t limit = classes > 0 ? classes : kClassLimit;
  for (size_t i = 0; i < labels.size(); ++i)
    if (labels[i] < 0 || labels[i] >= limit)
      return LabelFault{
          static_cast<int64_t>(i),
          fmt::format("label {}, expected 0 to {}", labels[i], limit - 1)};
  if (classes > 0) return std::nullopt;
  classes = *std::ranges::max_element(labels) + int64_t{1};
  std::vector<bool> present(static_cast<size_t>(classes), false);
  for (const int32_t label : labels) present[static_cast<size_t>(label)] = true;
  const auto missing = std::ranges::find(present, false) - present.begin();
  if (missing == classes) return std::nullopt;
  const auto first = std::ranges::find_if(
      labels, [&](int32_t label) { return label > missing; });
  return LabelFault{first - labels.begin(),
                    fmt::format("label {}, but no sample has label {}: "
                                "expected 0, 1, ... without a gap",
                                *first, missing)};
}

void check_class_names(const std::string& origin,
                       std::span<const std::string> names) {
  for (const std::string& name : names) {
    if (find_invalid_utf8(name))
      fail(ExitCode::kBadInput, "{}: class name {}: not valid UTF-8", origin,
           escape_bytes(name));
    if (has_control_character(name))
      fail(ExitCode::kBadInput, "{}: class name {}: has a control character",
           origin, escape_bytes(name));
  }
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
         options.kind, join(kinds_of(Samples::kImages), " "));
  if (options.path.empty() && !kind->is_made)
    fail(ExitCode::kBadInput, "data.path: empty, expected where the {} data is",
         options.kind);
  Dataset data = kind->read_images(options);
  CHECK(data.train.is_labelled);
  CHECK(data.has_train() || options.trained.is_used);
  if (data.has_train()) finish(data.train);
  finish(data.test);
  CHECK(data.train.spec == data.test.spec);
  return data;
}

void require_labels(const Dataset& data) {
  if (!data.test.is_labelled)
    fail(ExitCode::kBadInput,
         "{}: the test images have no labels: only predict can use them",
         data.source);
}

}  // namespace syncopate
