#include "compress/sparse.h"

#include "compress/message.h"

namespace syncopate {
namespace {

double checked_ratio(const CompressOptions& options) {
  if (!(options.ratio >= 0 && options.ratio < 1))
    fail(ExitCode::kBadInput,
         "compress.ratio = {}: expected the share that is dropped, at least 0 "
         "and below 1",
         options.ratio);
  return options.ratio;
}

}  // namespace

int64_t Sparse::words(const CompressOptions& options,
                      const ParameterTable& table) {
  const double dropped = checked_ratio(options);
  int64_t kept = 0;
  for (const ParameterEntry& entry : table.entries())
    kept += kept_of(entry.elems(), dropped);
  return 2 * kept;
}

Sparse::Sparse(Context& context,
               const CompressOptions& options,
               const ParameterTable& table)
    : segments_(segments_of(context, table)),
      selection_(context,
                 segments_,
                 kept_elems(segments_, checked_ratio(options))) {}

std::span<float> Sparse::values(std::span<uint32_t> message) const {
  CHECK(std::ssize(message) == message_words());
  return as_floats(message.first(message.size() / 2));
}

std::span<uint32_t> Sparse::places(std::span<uint32_t> message) const {
  return message.subspan(message.size() / 2);
}

void Sparse::blend(Context& context,
                   std::span<float> y,
                   std::span<const uint32_t> message,
                   float a,
                   float b) {
  CHECK(std::ssize(message) == message_words() &&
        std::ssize(y) == segments_.num_elems());
  const size_t kept = message.size() / 2;
  sparse_blend(context, y, as_floats(message.first(kept)),
               message.subspan(kept), a, b);
}

}  // namespace syncopate
