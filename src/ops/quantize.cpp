#include "ops/quantize.h"

#include "ops/bodies.h"

namespace syncopate {
namespace {

// Checks a range against its words and its per-tensor numbers.
void check_sizes(size_t elems,
                 size_t words,
                 size_t numbers,
                 const Segments& segments,
                 int64_t bits) {
  const int64_t D = segments.num_elems();
  CHECK_MSG(static_cast<int64_t>(elems) == D, "{} elements, tensors of {}",
            elems, D);
  CHECK_MSG(static_cast<int64_t>(words) == packed_words(D, bits),
            "{} words for {} elements of {} bits", words, D, bits);
  CHECK_MSG(static_cast<int64_t>(numbers) == segments.num_segments(),
            "{} numbers for {} tensors", numbers, segments.num_segments());
}

int64_t qsgd_bits(const QsgdParams& params) {
  // A code and the bits before it in its word must fit 64 bits.
  CHECK_MSG(params.levels >= 1 && params.levels <= 65535, "{} levels",
            params.levels);
  return 1 + bits_of_level(params.levels);
}

}  // namespace

void sign_encode(Context& context,
                 std::span<uint32_t> words,
                 std::span<float> scales,
                 std::span<const float> x,
                 const Segments& segments) {
  check_sizes(x.size(), words.size(), scales.size(), segments, 1);
  bodies_of(context).sign_encode(context, words, scales, x, segments);
}

void sign_blend(Context& context,
                std::span<float> y,
                std::span<const uint32_t> words,
                std::span<const float> scales,
                const Segments& segments,
                float a,
                float b) {
  check_sizes(y.size(), words.size(), scales.size(), segments, 1);
  bodies_of(context).sign_blend(context, y, words, scales, segments, a, b);
}

void qsgd_encode(Context& context,
                 std::span<uint32_t> words,
                 std::span<float> norms,
                 std::span<const float> x,
                 const Segments& segments,
                 const QsgdParams& params,
                 const Draw& draw) {
  check_sizes(x.size(), words.size(), norms.size(), segments,
              qsgd_bits(params));
  bodies_of(context).qsgd_encode(context, words, norms, x, segments, params,
                                 draw);
}

void qsgd_blend(Context& context,
                std::span<float> y,
                std::span<const uint32_t> words,
                std::span<const float> norms,
                const Segments& segments,
                const QsgdParams& params,
                float a,
                float b) {
  check_sizes(y.size(), words.size(), norms.size(), segments,
              qsgd_bits(params));
  bodies_of(context).qsgd_blend(context, y, words, norms, segments, params, a,
                                b);
}

}  // namespace syncopate
