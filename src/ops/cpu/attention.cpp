// A task is one head of one sequence. Its queries are the lanes of vectors:
// scores, maxima and sums of a query block need no shuffles, keys and values
// are read in place and broadcast to all lanes, and no D is favoured. Blocks
// are sized so that the operands of one product fit in the L1 cache.
#include <atomic>
#include <cmath>

#include "ops/bodies.h"
#include "ops/cpu/attention_tiles.h"
#include "ops/cpu/parallel.h"

namespace syncopate::cpu {
namespace {

constexpr int kBlockVectors = 4;                       // of queries
constexpr int kBlockQueries = kBlockVectors * kLanes;  // 64
constexpr int64_t kBlockKeys = 128;

// One head of one sequence, and the location of its first token.
struct Head {
  int64_t length;  // tokens
  int64_t D;
  int64_t heads;
  int64_t first_token, index;  // of the sequence; of the head
  int64_t sample;              // of the batch
  int64_t H() const { return heads * D; }
  int64_t padded() const { return ceil_div(D, kLanes) * kLanes; }
  float scale() const { return 1.0f / std::sqrt(static_cast<float>(D)); }
  // Offset in a tensor (T, H).
  int64_t narrow() const { return first_token * H() + index * D; }
  // Offset of part 0 (queries), 1 (keys) or 2 (values) in a tensor (T, 3 H).
  int64_t wide(int part) const {
    return (first_token * 3 + part) * H() + index * D;
  }
  int64_t stats() const { return first_token * heads + index; }
};

// The dropout mask of a head's P: draws below the threshold are dropped.
struct Mask {
  uint32_t threshold = 0;  // 0: all are kept
  uint64_t seed = 0, sample = 0;
  uint32_t head = 0;
  float kept_scale = 1;

  Mask(const TokenDropout& dropout, const Head& of) {
    if (dropout.p == 0) return;
    // p < 1 means p <= 1 - 2^-24, so the product fits.
    threshold = static_cast<uint32_t>(
        std::ceil(static_cast<double>(dropout.p) * 0x1.0p32));
    seed = dropout.key->seed ^ dropout.salt;
    sample = dropout.key->first_sample + static_cast<uint64_t>(of.sample);
    head = static_cast<uint32_t>(of.index);
    kept_scale = 1.0f / (1.0f - dropout.p);
  }

  // Draws for queries first .. first + 15 in the lanes and four keys from
  // `key`, a multiple of four. The block number is that of the first draw
  // divided by 4, (head * 2^16 + query) * 2^14 + key / 4; its high word goes
  // into the second number of the sequence of draws.
  [[gnu::always_inline]] void draw(U16 (&words)[4],
                                   int64_t query,
                                   int64_t key) const {
    const U16 queries = static_cast<uint32_t>(query) + kLane;
    const U16 low =
        (queries << 14) + ((head << 30) + static_cast<uint32_t>(key / 4));
    draw_words(words, seed, sample, low, head >> 2);
  }
  [[gnu::always_inline]] F16 keep(U16 draws, F16 value) const {
    return draws >= threshold ? value : F16{};
  }
};

// Calls body(key, v, keep) for all keys of a block and all query vectors, where
// keep(x) is x or zero.
template <int kVectors, typename Body>
[[gnu::always_inline]] inline void for_elements(const Mask& mask,
                                                int64_t first_query,
                                                int64_t first_key,
                                                int64_t keys,
                                                const Body& body) {
  if (mask.threshold == 0) {
    for (int64_t key = 0; key < keys; ++key)
      for (int v = 0; v < kVectors; ++v) body(key, v, [](F16 x) { return x; });
    return;
  }
  for (int64_t key = 0; key < keys; key += 4)
    for (int v = 0; v < kVectors; ++v) {
      U16 words[4];
      mask.draw(words, first_query + v * kLanes, first_key + key);
      for (int64_t i = 0; i < std::min<int64_t>(4, keys - key); ++i)
        body(key + i, v, [&](F16 x) { return mask.keep(words[i], x); });
    }
}

// Calls body(integral constant) with the number of vectors that hold `queries`.
template <typename Body>
void with_vectors(int64_t queries, const Body& body) {
  switch (ceil_div(queries, kLanes)) {
    case 1:
      return body(std::integral_constant<int, 1>());
    case 2:
      return body(std::integral_constant<int, 2>());
    case 3:
      return body(std::integral_constant<int, 3>());
    default:
      return body(std::integral_constant<int, kBlockVectors>());
  }
}

// Hands out consecutive parts of a thread's memory.
class Parts {
 public:
  explicit Parts(float* memory) : next_(memory) {}
  float* take(int64_t elems) {
    float* part = next_;
    next_ += ceil_div(elems, kLanes) * kLanes;
    return part;
  }

 private:
  float* next_;
};

// --- forward ----------------------------------------------------------------

struct ForwardMemory {
  float *keys, *values;  // (length, D)
  float* queries;        // (D, block), scaled
  float* scores;         // (keys of a block, block)
  float* out;            // (D, block)

  ForwardMemory(float* memory, int64_t length, int64_t D) {
    Parts parts(memory);
    keys = parts.take(length * D);
    values = parts.take(length * D);
    queries = parts.take(D * kBlockQueries);
    scores = parts.take(kBlockKeys * kBlockQueries);
    out = parts.take(D * kBlockQueries);
  }
  static int64_t elems(int64_t length, int64_t D) {
    return 2 * ceil_div(length * D, kLanes) * kLanes + 2 * D * kBlockQueries +
           kBlockKeys * kBlockQueries;
  }
};

// The running maximum and sum of exponentials per query.
template <int kVectors>
struct Softmax {
  F16 highest[kVectors], sum[kVectors];
};

// Replaces the scores of a block of keys by exponentials relative to the new
// maximum, and rescales earlier sums to it.
template <int kVectors>
void exponentiate(Softmax<kVectors>& state,
                  const ForwardMemory& memory,
                  const Mask& mask,
                  int64_t first_query,
                  int64_t first_key,
                  int64_t keys,
                  int64_t D) {
  constexpr int64_t kWidth = kVectors * kLanes;
  F16 highest[kVectors], rescale[kVectors], sum[kVectors] = {};
  for (int v = 0; v < kVectors; ++v) highest[v] = state.highest[v];
  for (int64_t key = 0; key < keys; ++key)
    for (int v = 0; v < kVectors; ++v) {
      const F16 score = load(memory.scores + key * kWidth + v * kLanes);
      highest[v] = score > highest[v] ? score : highest[v];
    }
  for (int v = 0; v < kVectors; ++v)
    rescale[v] = exp(state.highest[v] - highest[v]);
  for_elements<kVectors>(
      mask, first_query, first_key,
      keys, [&](int64_t key, int v, auto keep) __attribute__((always_inline)) {
        float* at = memory.scores + key * kWidth + v * kLanes;
        const F16 share = exp(load(at) - highest[v]);
        sum[v] += share;
        store(at, keep(share));
      });
  for (int v = 0; v < kVectors; ++v) {
    state.sum[v] = state.sum[v] * rescale[v] + sum[v];
    state.highest[v] = highest[v];
  }
  for (int64_t d = 0; d < D; ++d)
    for (int v = 0; v < kVectors; ++v) {
      float* at = memory.out + d * kWidth + v * kLanes;
      store(at, load(at) * rescale[v]);
    }
}

template <int kVectors, typename T>
void forward_block(T* out,
                   float* lse,
                   const T* queries,
                   const ForwardMemory& memory,
                   const Head& head,
                   const Mask& mask,
                   int64_t first_query,
                   int64_t count) {
  constexpr int64_t kWidth = kVectors * kLanes;
  const int64_t D = head.D;
  load_transposed(memory.queries, kWidth, queries, 3 * head.H(), count, D,
                  head.scale());
  std::fill_n(memory.out, D * kWidth, 0.0f);
  Softmax<kVectors> state;
  for (int v = 0; v < kVectors; ++v) {
    // Finite, so that rescaling the initial sum of zero gives zero and not NaN.
    state.highest[v] = splat(std::numeric_limits<float>::lowest());
    state.sum[v] = F16{};
  }
  for (int64_t key = 0; key < head.length; key += kBlockKeys) {
    const int64_t keys = std::min(kBlockKeys, head.length - key);
    multiply<kVectors, Product::kAssign>(memory.scores, kWidth,
                                         memory.keys + key * D, D, 1,
                                         memory.queries, kWidth, keys, D);
    exponentiate<kVectors>(state, memory, mask, first_query, key, keys, D);
    multiply<kVectors, Product::kAdd>(memory.out, kWidth,
                                      memory.values + key * D, 1, D,
                                      memory.scores, kWidth, D, keys);
  }
  alignas(64) float factor[kWidth], highest[kWidth], sum[kWidth];
  for (int v = 0; v < kVectors; ++v) {
    store(factor + v * kLanes, mask.kept_scale / state.sum[v]);
    store(highest + v * kLanes, state.highest[v]);
    store(sum + v * kLanes, state.sum[v]);
  }
  store_transposed(out, head.H(), memory.out, kWidth, count, D, factor);
  for (int64_t i = 0; i < count; ++i)
    lse[i * head.heads] = highest[i] + std::log(sum[i]);
}

template <typename T>
void forward_head(T* out,
                  float* lse,
                  const T* qkv,
                  const Head& head,
                  const Mask& mask,
                  const ForwardMemory& memory) {
  const int64_t D = head.D, stride = 3 * head.H();
  load_rows(memory.keys, D, qkv + head.wide(1), stride, head.length, D, 1);
  load_rows(memory.values, D, qkv + head.wide(2), stride, head.length, D, 1);
  for (int64_t query = 0; query < head.length; query += kBlockQueries) {
    const int64_t count = std::min<int64_t>(kBlockQueries, head.length - query);
    with_vectors(count, [&](auto vectors) {
      forward_block<vectors()>(out + head.narrow() + query * head.H(),
                               lse + head.stats() + query * head.heads,
                               qkv + head.wide(0) + query * stride, memory,
                               head, mask, query, count);
    });
  }
}

// --- backward ---------------------------------------------------------------

// P = exp(S - lse),  dP = keep(dout V^T) / (1 - p),  delta = sum_d dout out
// dS = P (dP - delta),  dQ = dS K / sqrt(D),  dK = dS^T Q / sqrt(D),
// dV = (keep(P) / (1 - p))^T dout
struct BackwardMemory {
  float *keys, *values;           // (length, D)
  float *dkeys, *dvalues;         // (length, padded D)
  float *queries, *dout;          // (D, block): scaled; / (1 - p)
  float *query_rows, *dout_rows;  // (block, padded D): scaled; / (1 - p)
  float *shares, *dscores;        // (keys of a block, block)
  float* dqueries;                // (D, block)

  BackwardMemory(float* memory, int64_t length, int64_t D, int64_t padded) {
    Parts parts(memory);
    keys = parts.take(length * D);
    values = parts.take(length * D);
    dkeys = parts.take(length * padded);
    dvalues = parts.take(length * padded);
    queries = parts.take(D * kBlockQueries);
    dout = parts.take(D * kBlockQueries);
    query_rows = parts.take(padded * kBlockQueries);
    dout_rows = parts.take(padded * kBlockQueries);
    shares = parts.take(kBlockKeys * kBlockQueries);
    dscores = parts.take(kBlockKeys * kBlockQueries);
    dqueries = parts.take(D * kBlockQueries);
  }
  static int64_t elems(int64_t length, int64_t D, int64_t padded) {
    return 2 * ceil_div(length * D, kLanes) * kLanes + 2 * length * padded +
           (3 * D + 2 * padded + 2 * kBlockKeys) * kBlockQueries;
  }
};

// Statistics of a block's queries, zero-padded.
struct QueryStats {
  alignas(64) float lse[kBlockQueries] = {};
  alignas(64) float delta[kBlockQueries] = {};
};

template <typename T>
float dot_row(const T* a, const T* b, int64_t D) {
  F16 sums{};
  for_vectors(0, D, [&](auto lanes, int64_t d) {
    sums += lanes.get(a + d) * lanes.get(b + d);
  });
  float sum = 0;
  for (int lane = 0; lane < kLanes; ++lane) sum += sums[lane];
  return sum;
}

template <int kVectors>
void differentiate(const BackwardMemory& memory,
                   const QueryStats& stats,
                   const Mask& mask,
                   int64_t first_query,
                   int64_t first_key,
                   int64_t keys) {
  constexpr int64_t kWidth = kVectors * kLanes;
  F16 lse[kVectors], delta[kVectors];
  for (int v = 0; v < kVectors; ++v) {
    lse[v] = load(stats.lse + v * kLanes);
    delta[v] = load(stats.delta + v * kLanes);
  }
  for_elements<kVectors>(
      mask, first_query, first_key,
      keys, [&](int64_t key, int v, auto keep) __attribute__((always_inline)) {
        float* share_at = memory.shares + key * kWidth + v * kLanes;
        float* dscore_at = memory.dscores + key * kWidth + v * kLanes;
        const F16 share = exp(load(share_at) - lse[v]);
        store(dscore_at, share * (keep(load(dscore_at)) - delta[v]));
        store(share_at, keep(share));
      });
}

template <int kVectors, typename T>
void backward_block(T* dqueries,
                    const T* queries,
                    const T* dout,
                    const QueryStats& stats,
                    const BackwardMemory& memory,
                    const Head& head,
                    const Mask& mask,
                    int64_t first_query,
                    int64_t count) {
  constexpr int64_t kWidth = kVectors * kLanes;
  const int64_t D = head.D, padded = head.padded(), H = head.H();
  load_transposed(memory.queries, kWidth, queries, 3 * H, count, D,
                  head.scale());
  load_transposed(memory.dout, kWidth, dout, H, count, D, mask.kept_scale);
  load_rows(memory.query_rows, padded, queries, 3 * H, count, D, head.scale());
  load_rows(memory.dout_rows, padded, dout, H, count, D, mask.kept_scale);
  std::fill_n(memory.dqueries, D * kWidth, 0.0f);
  for (int64_t key = 0; key < head.length; key += kBlockKeys) {
    const int64_t keys = std::min(kBlockKeys, head.length - key);
    multiply<kVectors, Product::kAssign>(memory.shares, kWidth,
                                         memory.keys + key * D, D, 1,
                                         memory.queries, kWidth, keys, D);
    multiply<kVectors, Product::kAssign>(memory.dscores, kWidth,
                                         memory.values + key * D, D, 1,
                                         memory.dout, kWidth, keys, D);
    differentiate<kVectors>(memory, stats, mask, first_query, key, keys);
    multiply_add(memory.dvalues + key * padded, memory.shares, kWidth, 1,
                 memory.dout_rows, padded / kLanes, keys, count);
    multiply_add(memory.dkeys + key * padded, memory.dscores, kWidth, 1,
                 memory.query_rows, padded / kLanes, keys, count);
    multiply<kVectors, Product::kAdd>(memory.dqueries, kWidth,
                                      memory.keys + key * D, 1, D,
                                      memory.dscores, kWidth, D, keys);
  }
  alignas(64) float factor[kWidth];
  std::fill_n(factor, kWidth, head.scale());
  store_transposed(dqueries, 3 * H, memory.dqueries, kWidth, count, D, factor);
}

template <typename T>
void backward_head(T* dqkv,
                   const T* dout,
                   const T* qkv,
                   const T* out,
                   const float* lse,
                   const Head& head,
                   const Mask& mask,
                   const BackwardMemory& memory) {
  const int64_t D = head.D, H = head.H(), padded = head.padded();
  load_rows(memory.keys, D, qkv + head.wide(1), 3 * H, head.length, D, 1);
  load_rows(memory.values, D, qkv + head.wide(2), 3 * H, head.length, D, 1);
  std::fill_n(memory.dkeys, head.length * padded, 0.0f);
  std::fill_n(memory.dvalues, head.length * padded, 0.0f);
  for (int64_t query = 0; query < head.length; query += kBlockQueries) {
    const int64_t count = std::min<int64_t>(kBlockQueries, head.length - query);
    const int64_t narrow = head.narrow() + query * H;
    QueryStats stats;
    for (int64_t i = 0; i < count; ++i) {
      stats.lse[i] = lse[head.stats() + (query + i) * head.heads];
      stats.delta[i] = dot_row(dout + narrow + i * H, out + narrow + i * H, D);
    }
    with_vectors(count, [&](auto vectors) {
      const int64_t wide = head.wide(0) + query * 3 * H;
      backward_block<vectors()>(dqkv + wide, qkv + wide, dout + narrow, stats,
                                memory, head, mask, query, count);
    });
  }
  store_rows(dqkv + head.wide(1), 3 * H, memory.dkeys, padded, head.length, D);
  store_rows(dqkv + head.wide(2), 3 * H, memory.dvalues, padded, head.length,
             D);
}

// Calls body(head, memory) for each head of each sequence, with `elems` floats
// of memory that no concurrent task uses.
template <typename Body>
void for_heads(Context& context,
               const Sequences& sequences,
               int64_t heads,
               int64_t D,
               int64_t elems,
               const Body& body) {
  for (int64_t n = 0; n < sequences.count; ++n)
    CHECK(sequences.offsets[n + 1] - sequences.offsets[n] <=
          sequences.max_length);
  const int64_t slots = context.threads();
  auto* memory = scratch<float>(context, slots * elems);
  std::atomic<int64_t> next = 0;
  parallel_for(context, slots,
               sequences.tokens * sequences.max_length * heads * D,
               [&](int64_t slot) {
                 for (int64_t task = next++; task < sequences.count * heads;
                      task = next++) {
                   const int64_t n = task / heads;
                   const int64_t begin = sequences.offsets[n];
                   const Head head{.length = sequences.offsets[n + 1] - begin,
                                   .D = D,
                                   .heads = heads,
                                   .first_token = begin,
                                   .index = task % heads,
                                   .sample = n};
                   body(head, memory + slot * elems);
                 }
               });
}

}  // namespace

void attention_forward(Context& context, const AttentionForwardArgs& args) {
  const int64_t D = args.out.shape[1] / args.heads;
  with_float_type(args.out.dtype, [&](auto element) {
    using T = decltype(element);
    for_heads(context, args.sequences, args.heads, D,
              ForwardMemory::elems(args.sequences.max_length, D),
              [&](const Head& head, float* memory) {
                forward_head(static_cast<T*>(args.out.data), args.lse.f32(),
                             static_cast<const T*>(args.qkv.data), head,
                             Mask(args.dropout, head),
                             ForwardMemory(memory, head.length, D));
              });
  });
}

void attention_backward(Context& context, const AttentionBackwardArgs& args) {
  const int64_t D = args.out.shape[1] / args.heads;
  const int64_t padded = ceil_div(D, kLanes) * kLanes;
  with_float_type(args.out.dtype, [&](auto element) {
    using T = decltype(element);
    for_heads(context, args.sequences, args.heads, D,
              BackwardMemory::elems(args.sequences.max_length, D, padded),
              [&](const Head& head, float* memory) {
                backward_head(static_cast<T*>(args.dqkv.data),
                              static_cast<const T*>(args.dout.data),
                              static_cast<const T*>(args.qkv.data),
                              static_cast<const T*>(args.out.data),
                              args.lse.f32(), head, Mask(args.dropout, head),
                              BackwardMemory(memory, head.length, D, padded));
              });
  });
}

}  // namespace syncopate::cpu
