#include "ops/select.h"

#include <array>
#include <bit>
#include <cmath>
#include <functional>

#include "ops/bodies.h"
#include "ops/cpu/parallel.h"
#include "ops/cpu/random_words.h"
#include "ops/cpu/simd.h"

// The kept elements of a tensor are those with the largest keys, ties broken by
// index. A guess bounds the key of the last one kept; one pass over the tensor
// collects everything not below the bounds; the exact key is found among the
// few within them. If the guess was wrong, the whole tensor is collected.
namespace syncopate::cpu {
namespace {

constexpr uint32_t kAllKeys = 0xFFFFFFFF;
constexpr int kTogether = 4;  // copied at once, needed or not

// An inclusive range of keys that is guessed to contain the smallest kept one.
struct Bounds {
  uint32_t low = 0, high = kAllKeys;
};
struct Threshold {
  uint32_t key;
  int64_t ties;  // number of elements with this key that are kept
};
struct TensorState {
  Bounds bounds;
  Threshold threshold;
};
struct ChunkState {
  int32_t collected, between;  // not below the bounds; of these, within them
  int32_t above, ties;  // of those collected, above the key and equal to it
  int64_t first;        // place of the chunk's first kept element
};

struct Collected {
  uint32_t* words;    // the words that keys derive from
  uint16_t* offsets;  // in the chunk
  uint32_t* between;  // keys within the bounds
};

// Each chunk has room for all of its elements plus the excess of kTogether.
struct Scratch {
  Collected all;
  ChunkState* chunks;
  TensorState* tensors;

  Scratch(Context& context, const Segments& segments) {
    const int64_t num_chunks = std::ssize(segments.chunks());
    const int64_t room = segments.num_elems() + kTogether * num_chunks;
    all.words = scratch<uint32_t>(context, 2 * room, 0);
    all.between = all.words + room;
    all.offsets = scratch<uint16_t>(context, room, 1);
    chunks = scratch<ChunkState>(context, num_chunks, 2);
    tensors = scratch<TensorState>(context, segments.num_segments(), 3);
  }
  Collected of(const Segments& segments, int64_t chunk) const {
    const int64_t at = segments.chunks()[chunk].begin + kTogether * chunk;
    return {all.words + at, all.offsets + at, all.between + at};
  }
};

// Returns the k-th largest of the keys, all within the bounds; reorders `keys`.
Threshold kth_largest(std::span<uint32_t> keys, int64_t k, Bounds bounds) {
  constexpr int kDigitBits = 11;  // 8 KiB of counters
  constexpr size_t kFew = 512;    // below this, clearing counters costs more
  while (keys.size() > kFew && bounds.low < bounds.high) {
    const uint32_t range = bounds.high - bounds.low;
    const int width = static_cast<int>(std::bit_width(range));
    const int shift = std::max(0, width - kDigitBits);
    std::array<int64_t, 1 << kDigitBits> counts{};
    for (const uint32_t key : keys) ++counts[(key - bounds.low) >> shift];
    uint32_t digit = range >> shift;
    for (; counts[digit] < k; --digit) k -= counts[digit];
    bounds.low += digit << shift;
    bounds.high =
        bounds.low + std::min((1u << shift) - 1, kAllKeys - bounds.low);
    size_t left = 0;
    for (const uint32_t key : keys)
      if (key >= bounds.low && key <= bounds.high) keys[left++] = key;
    keys = keys.first(left);
  }
  if (bounds.low == bounds.high) return {bounds.low, k};
  std::nth_element(keys.begin(), keys.begin() + (k - 1), keys.end(),
                   std::greater());
  const uint32_t key = keys[static_cast<size_t>(k - 1)];
  return {key,
          k - std::count_if(keys.begin(), keys.end(),
                            [key](uint32_t other) { return other > key; })};
}

U16 load_words(const uint32_t* from) {
  U16 words;
  __builtin_memcpy(&words, from, sizeof words);
  return words;
}
[[gnu::always_inline]] inline U16 load_words(const float* from) {
  return reinterpret_cast<U16>(load(from));
}
uint32_t word_of(float value) {
  return std::bit_cast<uint32_t>(value);
}
uint32_t word_of(uint32_t value) {
  return value;
}

// Returns a mask whose bit i is set if lane i of the two vectors' 32 lanes is
// nonzero. Lanes are 0 or all ones.
[[gnu::always_inline]] inline uint32_t lane_mask(U16 first, U16 second) {
  constexpr U16 kBits = {1,       2,       4,       8,      16,   32,
                         64,      128,     256,     512,    1024, 2048,
                         1 << 12, 1 << 13, 1 << 14, 1 << 15};
  U16 mask = (first & kBits) | (second & (kBits << 16));
  mask |= __builtin_shuffle(
      mask, U16{8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7});
  mask |= __builtin_shuffle(
      mask, U16{4, 5, 6, 7, 0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3});
  return mask[0] | mask[1] | mask[2] | mask[3];
}

// Collects from the words of a chunk.
template <uint32_t kKeyBits, typename Word>
void collect(const Collected& to,
             ChunkState& state,
             const Word* from,
             int32_t elems,
             const Bounds& bounds) {
  constexpr int kStep = 2 * kLanes;
  const U16 low = U16{} + bounds.low;
  int32_t count = 0, begin = 0;
  for (; begin + kStep <= elems; begin += kStep) {
    const U16 first = load_words(from + begin) & kKeyBits;
    const U16 second = load_words(from + begin + kLanes) & kKeyBits;
    uint32_t mask = lane_mask(first >= low, second >= low);
    // In groups of four, so the trip count is rarely mispredicted.
    const int found = std::popcount(mask);
    for (int together = 0; together < found; together += kTogether)
      for (int i = 0; i < kTogether; ++i) {
        const int lane = std::countr_zero(mask | 0x80000000u);
        to.words[count + together + i] = word_of(from[begin + lane]);
        to.offsets[count + together + i] = static_cast<uint16_t>(begin + lane);
        mask &= mask - 1;
      }
    count += found;
  }
  for (; begin < elems; ++begin) {
    const uint32_t word = word_of(from[begin]);
    if ((word & kKeyBits) < bounds.low) continue;
    to.words[count] = word;
    to.offsets[count++] = static_cast<uint16_t>(begin);
  }
  int32_t between = 0;
  for (int32_t i = 0; i < count; ++i) {
    const uint32_t key = to.words[i] & kKeyBits;
    to.between[between] = key;
    between += key <= bounds.high;
  }
  state.collected = count;
  state.between = between;
}

// Ranks around `rank` among `among` draws. The number of kept draws is
// binomial: four standard deviations plus a margin for small numbers miss once
// in 1e4.
struct RankBounds {
  int64_t high, low;  // ranks, from 1
};
RankBounds around(double rank, double among) {
  const double deviation = std::sqrt(rank * (1 - rank / among));
  const auto spread = static_cast<int64_t>(4 * deviation) + 5;
  return {static_cast<int64_t>(rank) - spread,
          static_cast<int64_t>(rank) + 1 + spread};
}

// The bits of |x|, which sort like the numbers, with NaN last.
struct Magnitudes {
  static constexpr uint32_t kKeyBits = 0x7FFFFFFF;
  const float* x;

  // Guesses from a sample: one element per equal piece, at a scattered place
  // within its piece, so no period in the values can mislead it.
  Bounds guess(const Segments& segments,
               int64_t segment,
               int64_t kept,
               uint32_t* memory) const {
    constexpr int64_t kPiece = 128, kMinSamples = 256, kMaxSamples = 32768;
    constexpr uint32_t kGolden = 0x9E3779B9;  // 2^32 / golden ratio: scatters
    const int64_t elems = segments.elems(segment);
    const int64_t samples = std::min(kMaxSamples, elems / kPiece);
    if (samples < kMinSamples) return {};  // collect everything
    const int64_t piece = elems / samples;
    const float* from = x + segments.begin(segment);
    for (int64_t i = 0; i < samples; ++i) {
      const uint32_t scattered = static_cast<uint32_t>(i) * kGolden;
      const int64_t within = (scattered * piece) >> 32;
      memory[i] = word_of(from[i * piece + within]) & kKeyBits;
    }
    const auto drawn = static_cast<double>(samples);
    const RankBounds ranks = around(
        drawn * static_cast<double>(kept) / static_cast<double>(elems), drawn);
    Bounds bounds;
    uint32_t* rest = memory;
    const auto nth = [&](int64_t rank) {
      std::nth_element(rest, memory + (rank - 1), memory + samples,
                       std::greater());
      rest = memory + rank;
      return memory[rank - 1];
    };
    if (ranks.high >= 1) bounds.high = nth(ranks.high);
    if (ranks.low <= samples) bounds.low = nth(ranks.low);
    return bounds;
  }
  void collect_chunk(const Collected& to,
                     ChunkState& state,
                     const Segments::Chunk& chunk,
                     const Bounds& bounds) const {
    collect<kKeyBits>(to, state, x + chunk.begin, chunk.elems, bounds);
  }
  float value(uint32_t word, int64_t, int64_t) const {
    return std::bit_cast<float>(word);
  }
};

// Keys are the words of a random sequence, one per element.
struct RandomKeys {
  static constexpr uint32_t kKeyBits = kAllKeys;
  const float* x;
  const Draw& draw;
  const Segments& segments;
  const Selection& selection;
  Scaling scaling;

  // The keys are uniform.
  Bounds guess(const Segments&,
               int64_t segment,
               int64_t kept,
               uint32_t*) const {
    const auto elems = static_cast<double>(segments.elems(segment));
    const RankBounds ranks = around(static_cast<double>(kept), elems);
    const auto key_of = [&](int64_t rank) {
      return static_cast<uint32_t>(0x1.0p32 *
                                   (1 - static_cast<double>(rank) / elems));
    };
    Bounds bounds;
    if (ranks.high >= 1) bounds.high = key_of(ranks.high);
    if (static_cast<double>(ranks.low) < elems) bounds.low = key_of(ranks.low);
    return bounds;
  }
  void collect_chunk(const Collected& to,
                     ChunkState& state,
                     const Segments::Chunk& chunk,
                     const Bounds& bounds) const {
    uint32_t words[Segments::kChunkElems + 8];
    const int64_t skipped = chunk.begin % 4;
    random_words(words, draw, chunk.begin / 4,
                 ceil_div(skipped + chunk.elems, 4));
    collect<kKeyBits>(to, state, words + skipped, chunk.elems, bounds);
  }
  float value(uint32_t, int64_t place, int64_t segment) const {
    if (scaling == Scaling::kNone) return x[place];
    return x[place] * (static_cast<float>(segments.elems(segment)) /
                       static_cast<float>(selection.kept(segment)));
  }
};

template <typename Keys>
Threshold find_threshold(const Segments& segments,
                         int64_t segment,
                         int64_t kept,
                         const Keys& keys,
                         const Scratch& scratch) {
  const int64_t begin = segments.first_chunks()[segment];
  const int64_t end = segments.first_chunks()[segment + 1];
  int64_t collected = 0, between = 0;
  const auto count = [&] {
    collected = between = 0;
    for (int64_t chunk = begin; chunk < end; ++chunk) {
      collected += scratch.chunks[chunk].collected;
      between += scratch.chunks[chunk].between;
    }
  };
  Bounds bounds = scratch.tensors[segment].bounds;
  count();
  if (collected < kept || collected - between >= kept) {
    bounds = {};
    for (int64_t chunk = begin; chunk < end; ++chunk)
      keys.collect_chunk(scratch.of(segments, chunk), scratch.chunks[chunk],
                         segments.chunks()[chunk], bounds);
    count();
  }
  uint32_t* together = scratch.of(segments, begin).between;
  int64_t filled = 0;
  for (int64_t chunk = begin; chunk < end; ++chunk) {
    const uint32_t* from = scratch.of(segments, chunk).between;
    std::copy(from, from + scratch.chunks[chunk].between, together + filled);
    filled += scratch.chunks[chunk].between;
  }
  return kth_largest({together, static_cast<size_t>(filled)},
                     kept - (collected - between), bounds);
}

// Sets where each chunk's kept elements begin; `ties` becomes the number of
// ties that the chunk keeps.
void place_chunks(const Segments& segments,
                  const Selection& selection,
                  const Scratch& scratch) {
  for (int64_t segment = 0; segment < segments.num_segments(); ++segment) {
    int64_t first = selection.begin(segment);
    int64_t ties = scratch.tensors[segment].threshold.ties;
    for (int64_t chunk = segments.first_chunks()[segment];
         chunk < segments.first_chunks()[segment + 1]; ++chunk) {
      ChunkState& state = scratch.chunks[chunk];
      state.ties = static_cast<int32_t>(std::min<int64_t>(state.ties, ties));
      ties -= state.ties;
      state.first = first;
      first += state.above + state.ties;
    }
    CHECK(first == selection.begin(segment) + selection.kept(segment));
  }
}

template <typename Keys>
void encode(Context& context,
            std::span<float> values,
            std::span<uint32_t> places,
            const Segments& segments,
            const Selection& selection,
            const Keys& keys) {
  const Scratch scratch(context, segments);
  const int64_t elems = segments.num_elems();
  const int64_t num_chunks = std::ssize(segments.chunks());
  const auto key_of = [](uint32_t word) { return word & Keys::kKeyBits; };
  parallel_for(context, segments.num_segments(), elems, [&](int64_t segment) {
    scratch.tensors[segment].bounds = keys.guess(
        segments, segment, selection.kept(segment),
        scratch.of(segments, segments.first_chunks()[segment]).between);
  });
  parallel_for(context, num_chunks, elems, [&](int64_t chunk) {
    const Segments::Chunk& at = segments.chunks()[chunk];
    keys.collect_chunk(scratch.of(segments, chunk), scratch.chunks[chunk], at,
                       scratch.tensors[at.segment].bounds);
  });
  parallel_for(context, segments.num_segments(), elems, [&](int64_t segment) {
    scratch.tensors[segment].threshold = find_threshold(
        segments, segment, selection.kept(segment), keys, scratch);
  });
  parallel_for(context, num_chunks, elems, [&](int64_t chunk) {
    const uint32_t edge =
        scratch.tensors[segments.chunks()[chunk].segment].threshold.key;
    const uint32_t* words = scratch.of(segments, chunk).words;
    int32_t above = 0, ties = 0;
    for (int32_t i = 0; i < scratch.chunks[chunk].collected; ++i) {
      above += key_of(words[i]) > edge;
      ties += key_of(words[i]) == edge;
    }
    scratch.chunks[chunk].above = above;
    scratch.chunks[chunk].ties = ties;
  });
  place_chunks(segments, selection, scratch);
  parallel_for(context, num_chunks, elems, [&](int64_t chunk) {
    const Segments::Chunk& at = segments.chunks()[chunk];
    const ChunkState& state = scratch.chunks[chunk];
    const Collected from = scratch.of(segments, chunk);
    const uint32_t edge = scratch.tensors[at.segment].threshold.key;
    int64_t next = state.first;
    int32_t ties = state.ties;
    for (int32_t i = 0; i < state.collected; ++i) {
      const uint32_t key = key_of(from.words[i]);
      if (key < edge || (key == edge && ties-- <= 0)) continue;
      const int64_t place = at.begin + from.offsets[i];
      values[next] = keys.value(from.words[i], place, at.segment);
      places[next++] = static_cast<uint32_t>(place);
    }
  });
}

}  // namespace

void top_k_encode(Context& context,
                  std::span<float> values,
                  std::span<uint32_t> places,
                  std::span<const float> x,
                  const Segments& segments,
                  const Selection& selection) {
  encode(context, values, places, segments, selection, Magnitudes{x.data()});
}

void random_k_encode(Context& context,
                     std::span<float> values,
                     std::span<uint32_t> places,
                     std::span<const float> x,
                     const Segments& segments,
                     const Selection& selection,
                     const Draw& draw,
                     Scaling scaling) {
  encode(context, values, places, segments, selection,
         RandomKeys{x.data(), draw, segments, selection, scaling});
}

void sparse_blend(Context& context,
                  std::span<float> y,
                  std::span<const float> values,
                  std::span<const uint32_t> places,
                  float a,
                  float b) {
  float* to = y.data();
  const float* from = values.data();
  const uint32_t* at = places.data();
  parallel_pieces(context, std::ssize(places), [&](int64_t begin, int64_t end) {
    if (a == 0)
      for (int64_t i = begin; i < end; ++i) to[at[i]] = b * from[i];
    else
      for (int64_t i = begin; i < end; ++i)
        to[at[i]] = std::fma(b, from[i], a * to[at[i]]);
  });
}

}  // namespace syncopate::cpu
