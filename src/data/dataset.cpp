#include "data/dataset.h"

#include <algorithm>
#include <array>

#include "base/check.h"
#include "base/file.h"
#include "base/text.h"
#include "data/readers.h"

namespace syncopate {
namespace {

struct Kind {
  const char* name;
  Dataset (*read)(const DataOptions&);
};
constexpr std::array<Kind, 5> kKinds = {{
    {"idx", read_idx},
    {"cifar10", read_cifar10},
    {"cifar100", read_cifar100},
    {"hdf5", read_hdf5_images},
    {"synthetic_images", make_synthetic_images},
}};

template <typename T>
std::string_view bytes_of_vector(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()),
          values.size() * sizeof(T)};
}

// What every reader must have kept.
void finish(ImageSet& set) {
  const ImageSpec& spec = set.spec;
  const auto values =
      static_cast<size_t>(set.samples * spec.C * spec.H * spec.W);
  const auto [stored, pixel_digest] = std::visit(
      [](const auto& pixels) {
        return std::pair(pixels.size(), digest_of(bytes_of_vector(pixels)));
      },
      set.pixels);
  CHECK(set.samples > 0 && stored == values);
  CHECK(set.labels.size() == static_cast<size_t>(set.samples));
  CHECK(!check_labels(set.labels, spec.classes));
  CHECK(set.class_names.empty() ||
        set.class_names.size() == static_cast<size_t>(spec.classes));
  set.digest = digest_of(
      fmt::format("{} {} {} {} {} {} {}", spec.C, spec.H, spec.W, spec.classes,
                  set.pixels.index() == 0 ? "u8" : "f32", pixel_digest,
                  digest_of(bytes_of_vector(set.labels))));
}

}  // namespace

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

std::vector<std::string> data_kinds() {
  std::vector<std::string> names;
  for (const Kind& kind : kKinds) names.emplace_back(kind.name);
  return names;
}

Dataset load_dataset(const DataOptions& options) {
  const auto kind =
      std::find_if(kKinds.begin(), kKinds.end(),
                   [&](const Kind& k) { return options.kind == k.name; });
  if (kind == kKinds.end())
    fail(ExitCode::kBadInput, "data.kind: {}, expected one of: {}",
         options.kind, join(data_kinds(), " "));
  if (options.path.empty() && options.kind != "synthetic_images")
    fail(ExitCode::kBadInput, "data.path: empty, expected where the {} data is",
         options.kind);
  Dataset data = kind->read(options);
  finish(data.train);
  finish(data.test);
  CHECK(data.train.spec == data.test.spec);
  return data;
}

}  // namespace syncopate
