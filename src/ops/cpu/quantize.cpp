#include "ops/quantize.h"

#include <array>
#include <bit>
#include <cmath>

#include "ops/bodies.h"
#include "ops/cpu/parallel.h"
#include "ops/cpu/random_words.h"
#include "ops/cpu/simd.h"

namespace syncopate::cpu {
namespace {

// Loops over the 32 elements of a group are scalar code that GCC vectorises.
constexpr int kGroup = 32;  // elements; their bits fill whole words
constexpr uint32_t kSignBit = 0x80000000;

// Returns the group that begins at `first`: in place if it lies entirely in
// [begin, end), else in `copy` with zeros for the other elements.
const float* group_at(float* copy,
                      const float* x,
                      int64_t first,
                      int64_t begin,
                      int64_t end) {
  if (first >= begin && first + kGroup <= end) return x + first;
  for (int64_t i = first; i < first + kGroup; ++i)
    copy[i - first] = i >= begin && i < end ? x[i] : 0.0f;
  return copy;
}

using F8 = float __attribute__((vector_size(32)));
using U8 = uint32_t __attribute__((vector_size(32)));
using D8 = double __attribute__((vector_size(64)));

// |x| and x * x, exact in double.
struct Magnitude {
  [[gnu::always_inline]] D8 operator()(const F8& x) const {
    const U8 bits = reinterpret_cast<U8>(x) & ~kSignBit;
    return __builtin_convertvector(reinterpret_cast<F8>(bits), D8);
  }
};
struct Square {
  [[gnu::always_inline]] D8 operator()(const F8& x) const {
    const D8 wide = __builtin_convertvector(x, D8);
    return wide * wide;
  }
};

// Sums 32 lanes at distances 16, 8, ..., 1, in the order of a warp reduction.
double sum_of_lanes(const std::array<D8, 4>& sums) {
  D8 lanes = (sums[0] + sums[2]) + (sums[1] + sums[3]);
  for (int half = 4; half > 0; half /= 2)
    for (int lane = 0; lane < half; ++lane) lanes[lane] += lanes[lane + half];
  return lanes[0];
}

// Sums measure(x) over a chunk: element i of the range goes to lane i % 32.
// Calls visit(first) for each group that the chunk touches.
template <typename Measure, typename Visit>
double sum_in_chunk(const float* x,
                    const Segments::Chunk& chunk,
                    const Measure& measure,
                    const Visit& visit) {
  const int64_t begin = chunk.begin, end = begin + chunk.elems;
  D8 sums0 = {}, sums1 = {}, sums2 = {}, sums3 = {};
  for (int64_t first = begin / kGroup * kGroup; first < end; first += kGroup) {
    float copy[kGroup];
    const float* group = group_at(copy, x, first, begin, end);
    F8 parts[4];
    __builtin_memcpy(parts, group, sizeof parts);
    sums0 += measure(parts[0]);
    sums1 += measure(parts[1]);
    sums2 += measure(parts[2]);
    sums3 += measure(parts[3]);
    visit(first);
  }
  return sum_of_lanes({sums0, sums1, sums2, sums3});
}

// Calls finish(segment, sum) with the sum of measure() over each tensor. Chunk
// sums are added in lanes: chunk i of the tensor goes to lane i % 32.
template <typename Measure, typename Visit, typename Finish>
void sums_by_tensor(Context& context,
                    const float* x,
                    const Segments& segments,
                    const Measure& measure,
                    const Visit& visit,
                    const Finish& finish) {
  const int64_t chunks = std::ssize(segments.chunks());
  auto* partial = scratch<double>(context, chunks);
  parallel_for(context, chunks, segments.num_elems(), [&](int64_t index) {
    const Segments::Chunk& chunk = segments.chunks()[index];
    partial[index] = sum_in_chunk(x, chunk, measure,
                                  [&](int64_t first) { visit(chunk, first); });
  });
  for (int64_t segment = 0; segment < segments.num_segments(); ++segment) {
    const int64_t begin = segments.first_chunks()[segment];
    const int64_t end = segments.first_chunks()[segment + 1];
    std::array<D8, 4> lanes = {};
    for (int64_t i = 0; i < end - begin; ++i)
      lanes[i % kGroup / 8][i % 8] += partial[begin + i];
    finish(segment, sum_of_lanes(lanes));
  }
}

// Calls body(segment, begin, end) for the tensors in [begin, end) of the range.
template <typename Body>
void for_tensors(const Segments& segments,
                 int64_t begin,
                 int64_t end,
                 const Body& body) {
  int64_t segment = 0, behind = segments.num_segments();
  while (behind - segment > 1) {
    const int64_t middle = (segment + behind) / 2;
    (segments.begin(middle) <= begin ? segment : behind) = middle;
  }
  for (int64_t i = begin; i < end; ++segment) {
    const int64_t next = std::min(end, segments.begin(segment + 1));
    body(segment, i, next);
    i = next;
  }
}

}  // namespace

void sign_encode(Context& context,
                 std::span<uint32_t> words,
                 std::span<float> scales,
                 std::span<const float> x,
                 const Segments& segments) {
  const int64_t D = segments.num_elems();
  // A word belongs to the chunk in which its group begins.
  const auto pack = [&](const Segments::Chunk& chunk, int64_t first) {
    if (first < chunk.begin) return;
    float copy[kGroup];
    const float* group = group_at(copy, x.data(), first, first, D);
    uint32_t word = 0;
    for (int lane = 0; lane < kGroup; ++lane)
      word |= uint32_t{group[lane] < 0} << lane;
    words[first / kGroup] = word;
  };
  sums_by_tensor(context, x.data(), segments, Magnitude(), pack,
                 [&](int64_t segment, double sum) {
                   scales[segment] = static_cast<float>(
                       sum / static_cast<double>(segments.elems(segment)));
                 });
}

namespace {

struct SignBlend {
  float* y;
  const uint32_t* words;
  float a;

  [[gnu::always_inline]] void put(int64_t i, uint32_t word, float value) const {
    const uint32_t sign = word << (31 - i % kGroup) & kSignBit;
    const float q = std::bit_cast<float>(std::bit_cast<uint32_t>(value) ^ sign);
    y[i] = a == 0 ? q : std::fma(a, y[i], q);
  }
  // Decodes elements [begin, end) of one group.
  void part(int64_t begin, int64_t end, float value) const {
    for (int64_t i = begin; i < end; ++i) put(i, words[i / kGroup], value);
  }
  void range(int64_t begin, int64_t end, float value) const {
    const int64_t whole = ceil_div(begin, kGroup) * kGroup;
    if (whole >= end) return part(begin, end, value);
    part(begin, whole, value);
    int64_t first = whole;
    for (; first + kGroup <= end; first += kGroup) {
      const uint32_t word = words[first / kGroup];
      for (int lane = 0; lane < kGroup; ++lane) put(first + lane, word, value);
    }
    part(first, end, value);
  }
};

}  // namespace

void sign_blend(Context& context,
                std::span<float> y,
                std::span<const uint32_t> words,
                std::span<const float> scales,
                const Segments& segments,
                float a,
                float b) {
  const SignBlend blend{y.data(), words.data(), a};
  parallel_pieces(context, std::ssize(y), [&](int64_t begin, int64_t end) {
    for_tensors(segments, begin, end,
                [&](int64_t segment, int64_t i, int64_t behind) {
                  blend.range(i, behind, b * scales[segment]);
                });
  });
}

namespace {

// Elements per tile whose codes are between words and values.
constexpr int kTile = 256;

// Returns the code of a value: its sign bit, with the level above it.
[[gnu::always_inline]] inline uint32_t code_of(float x,
                                               float norm,
                                               float levels,
                                               uint32_t draw) {
  const float exact = std::fabs(x) / norm * levels;
  const float level = exact < levels ? exact : levels;  // also for NaN
  const auto below = static_cast<int32_t>(level);
  const float fraction = level - static_cast<float>(below);
  const auto u = static_cast<float>(static_cast<int32_t>(draw >> 8));
  const bool is_up = u < fraction * 0x1p24f;
  return (static_cast<uint32_t>(below) + uint32_t{is_up}) << 1 |
         uint32_t{x < 0};
}

// Packs `count` codes of `bits` each, whole groups and at most a tile:
// neighbours are merged until an item fills more than half of 64 bits, then the
// items are concatenated.
void pack(uint32_t* words, const uint32_t* codes, int64_t count, int bits) {
  uint64_t items[kTile / 2];
  count /= 2;
  for (int64_t i = 0; i < count; ++i)
    items[i] = codes[2 * i] | static_cast<uint64_t>(codes[2 * i + 1]) << bits;
  int width = 2 * bits;
  for (; width <= 32; width *= 2) {
    count /= 2;
    // Elements are read before they are overwritten.
#pragma GCC ivdep
    for (int64_t i = 0; i < count; ++i)
      items[i] = items[2 * i] | items[2 * i + 1] << width;
  }
  uint64_t pending = 0;
  int filled = 0;
  for (int64_t i = 0; i < count; ++i) {
    pending |= items[i] << filled;
    const int room = 64 - filled;
    filled += width;
    if (filled < 64) continue;
    *words++ = static_cast<uint32_t>(pending);
    *words++ = static_cast<uint32_t>(pending >> 32);
    pending = items[i] >> 1 >> (room - 1);  // what did not fit; room <= 64
    filled -= 64;
  }
  if (filled > 0) *words = static_cast<uint32_t>(pending);
}

// The positions of sixteen successive codes, starting at bit `first` of some
// words: the word in which each begins, and the bit within it.
struct CodePlaces {
  U16 word, bit;
  CodePlaces(int first, int bits) {
    for (int lane = 0; lane < kLanes; ++lane) {
      word[lane] = static_cast<uint32_t>((first + lane * bits) / 32);
      bit[lane] = static_cast<uint32_t>((first + lane * bits) % 32);
    }
  }
};

// Unpacks codes of `bits` each with shuffles and shifts of sixteen words at a
// time.
class Unpacker {
 public:
  Unpacker(std::span<const uint32_t> words, int bits)
      : words_(words.data()),
        end_(words.data() + words.size()),
        bits_(bits),
        low_(0, bits),
        high_(16 * bits % 32, bits) {}

  void group(uint32_t* codes, int64_t index) const {
    const uint32_t* from = words_ + index * bits_;
    uint32_t copy[2 * kLanes] = {};
    if (end_ - from < 2 * kLanes) {
      std::copy(from, from + bits_, copy);
      from = copy;
    }
    half(codes, from, low_);
    half(codes + kLanes, from + bits_ / 2, high_);
  }

 private:
  [[gnu::always_inline]] void half(uint32_t* codes,
                                   const uint32_t* words,
                                   const CodePlaces& places) const {
    U16 from;
    __builtin_memcpy(&from, words, sizeof from);
    const U16 low = __builtin_shuffle(from, places.word) >> places.bit;
    const U16 high = __builtin_shuffle(from, places.word + 1);
    const U16 code =
        (low | high << 1 << (31 - places.bit)) & ((1u << bits_) - 1);
    __builtin_memcpy(codes, &code, sizeof code);
  }

  const uint32_t* words_;
  const uint32_t* end_;
  int bits_;
  CodePlaces low_, high_;
};

// Returns the value of one level: c |x|_2 / s.
float level_unit(float norm, int64_t elems, const QsgdParams& params) {
  const auto d = static_cast<double>(elems);
  const auto s = static_cast<double>(params.levels);
  const double c =
      params.is_biased ? 1 / (1 + std::min(d / (s * s), std::sqrt(d) / s)) : 1;
  return static_cast<float>(static_cast<double>(norm) * (c / s));
}

}  // namespace

void qsgd_encode(Context& context,
                 std::span<uint32_t> words,
                 std::span<float> norms,
                 std::span<const float> x,
                 const Segments& segments,
                 const QsgdParams& params,
                 const Draw& draw) {
  sums_by_tensor(
      context, x.data(), segments, Square(),
      [](const Segments::Chunk&, int64_t) {},
      [&](int64_t segment, double sum) {
        norms[segment] = static_cast<float>(std::sqrt(sum));
      });
  const auto bits = static_cast<int>(1 + bits_of_level(params.levels));
  const auto levels = static_cast<float>(params.levels);
  parallel_pieces(context, std::ssize(x), [&](int64_t begin, int64_t end) {
    for (int64_t tile = begin; tile < end; tile += kTile) {
      uint32_t draws[kTile], codes[kTile];
      random_words(draws, draw, tile / 4, kTile / 4);
      const int64_t behind = std::min(end, tile + kTile);
      for_tensors(segments, tile, behind,
                  [&](int64_t segment, int64_t from, int64_t to) {
                    // Avoids 0 / 0 for a zero tensor.
                    const float norm = norms[segment] == 0 ? 1 : norms[segment];
                    for (int64_t i = from; i < to; ++i)
                      codes[i - tile] =
                          code_of(x[i], norm, levels, draws[i - tile]);
                  });
      const int64_t padded = ceil_div(behind - tile, kGroup) * kGroup;
      std::fill(codes + (behind - tile), codes + padded, 0u);
      pack(words.data() + tile / kGroup * bits, codes, padded, bits);
    }
  });
}

void qsgd_blend(Context& context,
                std::span<float> y,
                std::span<const uint32_t> words,
                std::span<const float> norms,
                const Segments& segments,
                const QsgdParams& params,
                float a,
                float b) {
  const Unpacker unpacker(words,
                          static_cast<int>(1 + bits_of_level(params.levels)));
  parallel_pieces(context, std::ssize(y), [&](int64_t begin, int64_t end) {
    for (int64_t tile = begin; tile < end; tile += kTile) {
      uint32_t codes[kTile];
      const int64_t behind = std::min(end, tile + kTile);
      for (int64_t first = tile; first < behind; first += kGroup)
        unpacker.group(codes + (first - tile), first / kGroup);
      for_tensors(
          segments, tile, behind,
          [&](int64_t segment, int64_t from, int64_t to) {
            const float unit =
                b * level_unit(norms[segment], segments.elems(segment), params);
            for (int64_t i = from; i < to; ++i) {
              const uint32_t code = codes[i - tile];
              const auto level = static_cast<int32_t>(code >> 1);
              const auto q = static_cast<float>(code & 1 ? -level : level);
              y[i] = a == 0 ? unit * q : std::fma(unit, q, a * y[i]);
            }
          });
    }
  });
}

}  // namespace syncopate::cpu
