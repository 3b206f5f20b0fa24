#include "compress/qsgd.h"

#include <algorithm>
#include <cmath>

#include "compress/message.h"

namespace syncopate {
namespace {

constexpr int64_t kMaxBits = 16;

int64_t levels_of(const CompressOptions& options) {
  constexpr int64_t kMaxLevels = (int64_t{1} << kMaxBits) - 1;
  if (options.levels < 0 || options.levels > kMaxLevels)
    fail(ExitCode::kBadInput,
         "compress.levels = {}: expected 1 to {}, or 0 to count by "
         "compress.bits",
         options.levels, kMaxLevels);
  if (options.levels > 0) return options.levels;
  if (options.bits < 1 || options.bits > kMaxBits)
    fail(ExitCode::kBadInput, "compress.bits = {}: expected 1 to {}",
         options.bits, kMaxBits);
  return (int64_t{1} << options.bits) - 1;
}

int64_t packed_words_of(int64_t levels, const ParameterTable& table) {
  return packed_words(table.num_elems(), 1 + bits_of_level(levels));
}

double omega(int64_t elems, int64_t levels) {
  const auto d = static_cast<double>(elems), s = static_cast<double>(levels);
  return std::min(d / (s * s), std::sqrt(d) / s);
}

}  // namespace

int64_t Qsgd::words(const CompressOptions& options,
                    const ParameterTable& table) {
  return packed_words_of(levels_of(options), table) + table.num_tensors();
}

Qsgd::Qsgd(Context& context,
           const CompressOptions& options,
           const ParameterTable& table)
    : segments_(segments_of(context, table)),
      params_{.levels = levels_of(options), .is_biased = options.biased},
      words_(words(options, table)),
      packed_(static_cast<size_t>(packed_words_of(params_.levels, table))),
      is_contractive_(
          options.biased ||
          std::ranges::all_of(table.entries(), [&](const auto& entry) {
            return omega(entry.elems(), params_.levels) < 1;
          })) {}

void Qsgd::encode(Context& context,
                  std::span<uint32_t> message,
                  std::span<const float> x,
                  const Draw& draw) {
  CHECK(std::ssize(message) == words_);
  qsgd_encode(context, message.first(packed_),
              as_floats(message.subspan(packed_)), x, segments_, params_, draw);
}

void Qsgd::blend(Context& context,
                 std::span<float> y,
                 std::span<const uint32_t> message,
                 float a,
                 float b) {
  CHECK(std::ssize(message) == words_);
  qsgd_blend(context, y, message.first(packed_),
             as_floats(message.subspan(packed_)), segments_, params_, a, b);
}

}  // namespace syncopate
