#include "compress/sign.h"

#include "compress/message.h"

namespace syncopate {

Sign::Sign(Context& context,
           const CompressOptions& options,
           const ParameterTable& table)
    : segments_(segments_of(context, table)),
      words_(words(options, table)),
      packed_(static_cast<size_t>(packed_words(table.num_elems(), 1))) {}

void Sign::encode(Context& context,
                  std::span<uint32_t> message,
                  std::span<const float> x,
                  const Draw&) {
  CHECK(std::ssize(message) == words_);
  sign_encode(context, message.first(packed_),
              as_floats(message.subspan(packed_)), x, segments_);
}

void Sign::blend(Context& context,
                 std::span<float> y,
                 std::span<const uint32_t> message,
                 float a,
                 float b) {
  CHECK(std::ssize(message) == words_);
  sign_blend(context, y, message.first(packed_),
             as_floats(message.subspan(packed_)), segments_, a, b);
}

}  // namespace syncopate
