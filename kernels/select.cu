#include "ops/select.h"

#include <algorithm>

#include <cuda/atomic.cuh>

#include "cuda/draws.cuh"
#include "cuda/pack.cuh"
#include "cuda/reduce.cuh"
#include "cuda/scan.cuh"
#include "ops/bodies.h"

// Radix selection of all tensors at once: finds the smallest key that is kept
// digit by digit from histograms, then counts what is kept of each chunk,
// places it by sums over chunks, and writes it in order.
namespace syncopate::cuda {

constexpr int kSelectThreads = 256;
constexpr int kSelectWarps = kSelectThreads / kWarpSize;
constexpr int kBins = 2048;
constexpr int kBinsPerThread = kBins / kSelectThreads;
constexpr int kChunkElems = static_cast<int>(Segments::kChunkElems);
constexpr int kWarpElems = kChunkElems / kSelectWarps;
static_assert(kWarpElems % kWarpSize == 0);

// A digit of 32 bits; the highest comes first.
struct Digit {
  int shift, bits;
};
constexpr Digit kDigits[] = {{21, 11}, {10, 11}, {0, 10}};

// The bits of each word by which elements are compared.
struct Keys {
  const uint32_t* words;
  uint32_t bits;
  __device__ __forceinline__ uint32_t at(int64_t place) const {
    return words[place] & bits;
  }
};

// The tensors of a range and how much of each is kept, in device memory.
struct Parts {
  const Segments::Chunk* chunks;
  const int64_t *begins, *first_chunks, *kept_begins;
  int64_t num_chunks, num_segments;
};

struct Edge {     // per tensor
  uint32_t key;   // the digits found so far
  uint32_t ties;  // number of elements with these digits that are kept
};
struct ChunkPlace {   // per chunk
  int64_t first;      // where its kept elements begin
  int32_t above;      // elements above the edge
  int32_t ties;       // on it
  int32_t kept_ties;  // how many of these are kept, at most
};

// Two counts packed into one number.
__device__ __forceinline__ uint32_t count_pair(uint32_t key, uint32_t edge) {
  return (key > edge ? 1u : 0u) + (key == edge ? 1u << 16 : 0u);
}

__global__ void __launch_bounds__(kSelectThreads)
    start_kernel(Edge* edges, uint32_t* counts, Parts parts) {
  const int64_t thread = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const int64_t threads = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = thread; i < parts.num_segments * kBins; i += threads)
    counts[i] = 0;
  for (int64_t i = thread; i < parts.num_segments; i += threads)
    edges[i] = {0, static_cast<uint32_t>(parts.kept_begins[i + 1] -
                                         parts.kept_begins[i])};
}

// Adds the block's counters to those of their tensor and clears them.
__device__ __forceinline__ void flush_counts(uint32_t* counts,
                                             uint32_t* of_block) {
  __syncthreads();
  for (int bin = static_cast<int>(threadIdx.x); bin < kBins;
       bin += kSelectThreads) {
    if (of_block[bin] != 0) add_atomically(counts + bin, of_block[bin]);
    of_block[bin] = 0;
  }
  __syncthreads();
}

// counts: per tensor and value of the digit, the number of elements that agree
// with the edge in the previous digits. A block takes successive chunks.
__global__ void __launch_bounds__(kSelectThreads)
    histogram_kernel(uint32_t* counts,
                     const Edge* edges,
                     Keys keys,
                     Parts parts,
                     Digit digit) {
  auto* of_block = shared_memory<uint32_t>();
  for (int bin = static_cast<int>(threadIdx.x); bin < kBins;
       bin += kSelectThreads)
    of_block[bin] = 0;
  __syncthreads();
  const int64_t share = ceil_div(parts.num_chunks, gridDim.x);
  const int64_t begin = share * blockIdx.x;
  const int64_t end = lesser(begin + share, parts.num_chunks);
  for (int64_t chunk = begin; chunk < end; ++chunk) {
    const Segments::Chunk at = parts.chunks[chunk];
    const uint32_t edge = edges[at.segment].key;
    for (int i = static_cast<int>(threadIdx.x); i < at.elems;
         i += kSelectThreads) {
      const uint32_t key = keys.at(at.begin + i);
      // In two steps: a shift by 32 is undefined.
      if (((key ^ edge) >> digit.shift) >> digit.bits == 0)
        add_atomically(of_block + (key >> digit.shift) % (1u << digit.bits), 1);
    }
    if (chunk + 1 == end || parts.chunks[chunk + 1].segment != at.segment)
      flush_counts(counts + int64_t{at.segment} * kBins, of_block);
  }
}

// One block per tensor: finds the next digit of its edge, from the highest
// value down. Clears the counts.
__global__ void __launch_bounds__(kSelectThreads)
    choose_kernel(Edge* edges, uint32_t* counts, Digit digit) {
  uint32_t* of_tensor = counts + int64_t{blockIdx.x} * kBins;
  const Edge edge = edges[blockIdx.x];
  const int highest =
      kBins - 1 - static_cast<int>(threadIdx.x) * kBinsPerThread;
  uint32_t own = 0;
  for (int i = 0; i < kBinsPerThread; ++i) own += of_tensor[highest - i];
  uint32_t above = block_scan(own, shared_memory<uint32_t>());
  if (above < edge.ties && edge.ties <= above + own) {
    int bin = highest;
    for (; above + of_tensor[bin] < edge.ties; --bin) above += of_tensor[bin];
    edges[blockIdx.x] = {edge.key | static_cast<uint32_t>(bin) << digit.shift,
                         edge.ties - above};
  }
  for (int i = 0; i < kBinsPerThread; ++i) of_tensor[highest - i] = 0;
}

__global__ void __launch_bounds__(kSelectThreads)
    count_kernel(ChunkPlace* places,
                 const Edge* edges,
                 Keys keys,
                 Parts parts) {
  for (int64_t chunk = blockIdx.x; chunk < parts.num_chunks;
       chunk += gridDim.x) {
    const Segments::Chunk at = parts.chunks[chunk];
    const uint32_t edge = edges[at.segment].key;
    uint32_t pairs = 0;
    for (int i = static_cast<int>(threadIdx.x); i < at.elems;
         i += kSelectThreads)
      pairs += count_pair(keys.at(at.begin + i), edge);
    pairs = block_sum(pairs, shared_memory<uint32_t>());
    if (threadIdx.x == 0) {
      places[chunk].above = static_cast<int32_t>(pairs & 0xFFFF);
      places[chunk].ties = static_cast<int32_t>(pairs >> 16);
    }
  }
}

// One block per tensor; a thread takes some successive chunks of it.
__global__ void __launch_bounds__(kSelectThreads)
    place_kernel(ChunkPlace* places, const Edge* edges, Parts parts) {
  const int64_t tensor = blockIdx.x;
  const int64_t end = parts.first_chunks[tensor + 1];
  const int64_t share =
      ceil_div(end - parts.first_chunks[tensor], kSelectThreads);
  const int64_t begin = parts.first_chunks[tensor] + share * threadIdx.x;
  const int64_t own_end = lesser(begin + share, end);
  uint64_t pairs = 0;
  for (int64_t chunk = begin; chunk < own_end; ++chunk)
    pairs += static_cast<uint64_t>(places[chunk].above) +
             (static_cast<uint64_t>(places[chunk].ties) << 32);
  pairs = block_scan(pairs, shared_memory<uint64_t>());
  int64_t above = static_cast<int64_t>(pairs & 0xFFFFFFFF);
  int64_t ties = static_cast<int64_t>(pairs >> 32);
  const int64_t kept_ties = edges[tensor].ties;
  for (int64_t chunk = begin; chunk < own_end; ++chunk) {
    ChunkPlace& place = places[chunk];
    const int64_t ties_before = lesser(ties, kept_ties);
    place.first = parts.kept_begins[tensor] + above + ties_before;
    place.kept_ties = static_cast<int32_t>(
        lesser(kept_ties - ties_before, int64_t{kChunkElems}));
    above += place.above;
    ties += place.ties;
  }
}

// A warp takes successive elements of the chunk, row by row.
__global__ void __launch_bounds__(kSelectThreads)
    emit_kernel(float* values,
                uint32_t* indices,
                const float* x,
                const ChunkPlace* places,
                const Edge* edges,
                Keys keys,
                Parts parts,
                bool is_scaled) {
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const int warp = static_cast<int>(threadIdx.x) / kWarpSize;
  for (int64_t chunk = blockIdx.x; chunk < parts.num_chunks;
       chunk += gridDim.x) {
    const Segments::Chunk at = parts.chunks[chunk];
    const ChunkPlace place = places[chunk];
    const uint32_t edge = edges[at.segment].key;
    const auto elems = static_cast<float>(parts.begins[at.segment + 1] -
                                          parts.begins[at.segment]);
    const auto kept = static_cast<float>(parts.kept_begins[at.segment + 1] -
                                         parts.kept_begins[at.segment]);
    const auto pair_of = [&](int row) {
      const int i = warp * kWarpElems + row * kWarpSize + lane;
      return i < at.elems ? count_pair(keys.at(at.begin + i), edge) : 0u;
    };
    uint32_t own = 0;
    for (int row = 0; row < kWarpElems / kWarpSize; ++row) own += pair_of(row);
    const uint32_t before = block_scan(own, shared_memory<uint32_t>());
    // The counts of the warps below.
    uint32_t pairs = __shfl_sync(kAllLanes, before, 0);
    for (int row = 0; row < kWarpElems / kWarpSize; ++row) {
      const uint32_t pair = pair_of(row);
      const uint32_t through = warp_scan(pair) + pairs;
      pairs = __shfl_sync(kAllLanes, through, kWarpSize - 1);
      const auto above = static_cast<int>((through - pair) & 0xFFFF);
      const auto ties = static_cast<int>((through - pair) >> 16);
      const bool is_tie = pair >> 16 != 0;
      if (pair == 0 || (is_tie && ties >= place.kept_ties)) continue;
      const int64_t from =
          at.begin + warp * kWarpElems + row * kWarpSize + lane;
      const int64_t to = place.first + above + lesser(ties, place.kept_ties);
      values[to] = is_scaled ? x[from] * (elems / kept) : x[from];
      indices[to] = static_cast<uint32_t>(from);
    }
  }
}

// Words 4 * block to 4 * block + 3 of Rng(seed, kQuantize, worker, step).
__global__ void __launch_bounds__(kSelectThreads)
    random_keys_kernel(uint32_t* words, int64_t blocks, Draw draw) {
  const int64_t threads = int64_t{gridDim.x} * blockDim.x;
  for (int64_t block = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
       block < blocks; block += threads) {
    const Draws draws = draws_of(draw, block);
    Pack<uint32_t> four;
    for (int i = 0; i < 4; ++i) four.elem[i] = draws.word[i];
    four.store(words + 4 * block);
  }
}

__global__ void __launch_bounds__(kSelectThreads)
    sparse_blend_kernel(float* y,
                        const float* values,
                        const uint32_t* places,
                        int64_t count,
                        float a,
                        float b) {
  const int64_t threads = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count;
       i += threads) {
    float& to = y[places[i]];
    to = a == 0 ? b * values[i] : fmaf(b, values[i], a * to);
  }
}

namespace {

void encode(Context& context,
            std::span<float> values,
            std::span<uint32_t> places,
            std::span<const float> x,
            const Segments& segments,
            const Selection& selection,
            Keys keys,
            bool is_scaled) {
  const Parts parts{.chunks = segments.device_chunks(),
                    .begins = segments.device_begins(),
                    .first_chunks = segments.device_first_chunks(),
                    .kept_begins = selection.device_begins(),
                    .num_chunks = std::ssize(segments.chunks()),
                    .num_segments = segments.num_segments()};
  const int64_t bins = parts.num_segments * kBins;
  auto* counts = static_cast<uint32_t*>(
      context.scratch(bins * int64_t{sizeof(uint32_t)}, 1));
  auto* edges = static_cast<Edge*>(
      context.scratch(parts.num_segments * int64_t{sizeof(Edge)}, 2));
  auto* chunk_places = static_cast<ChunkPlace*>(
      context.scratch(parts.num_chunks * int64_t{sizeof(ChunkPlace)}, 3));
  const dim3 threads(kSelectThreads);
  const dim3 tensors(static_cast<unsigned>(parts.num_segments));
  const dim3 chunks(grid_for(parts.num_chunks, 1));
  constexpr int64_t kScanShared = kSelectWarps * sizeof(uint64_t);
  Stream& stream = context.stream();
  launch(start_kernel, dim3(grid_for(bins, kSelectThreads)), threads, 0, stream,
         edges, counts, parts);
  for (const Digit& digit : kDigits) {
    launch(histogram_kernel, chunks, threads, kBins * sizeof(uint32_t), stream,
           counts, edges, keys, parts, digit);
    launch(choose_kernel, tensors, threads, kScanShared, stream, edges, counts,
           digit);
  }
  launch(count_kernel, chunks, threads, kScanShared, stream, chunk_places,
         edges, keys, parts);
  launch(place_kernel, tensors, threads, kScanShared, stream, chunk_places,
         edges, parts);
  launch(emit_kernel, chunks, threads, kScanShared, stream, values.data(),
         places.data(), x.data(), chunk_places, edges, keys, parts, is_scaled);
}

}  // namespace

void top_k_encode(Context& context,
                  std::span<float> values,
                  std::span<uint32_t> places,
                  std::span<const float> x,
                  const Segments& segments,
                  const Selection& selection) {
  // |x| as bits, which are ordered like the numbers, with NaN last.
  const Keys keys{reinterpret_cast<const uint32_t*>(x.data()), 0x7FFFFFFF};
  encode(context, values, places, x, segments, selection, keys, false);
}

void random_k_encode(Context& context,
                     std::span<float> values,
                     std::span<uint32_t> places,
                     std::span<const float> x,
                     const Segments& segments,
                     const Selection& selection,
                     const Draw& draw,
                     Scaling scaling) {
  const int64_t blocks = ceil_div(std::ssize(x), 4);
  auto* words = static_cast<uint32_t*>(
      context.scratch(4 * blocks * int64_t{sizeof(uint32_t)}, 0));
  launch(random_keys_kernel, dim3(grid_for(blocks, kSelectThreads)),
         dim3(kSelectThreads), 0, context.stream(), words, blocks, draw);
  encode(context, values, places, x, segments, selection, {words, 0xFFFFFFFF},
         scaling == Scaling::kScaled);
}

void sparse_blend(Context& context,
                  std::span<float> y,
                  std::span<const float> values,
                  std::span<const uint32_t> places,
                  float a,
                  float b) {
  launch(sparse_blend_kernel,
         dim3(grid_for(std::ssize(places), kSelectThreads)),
         dim3(kSelectThreads), 0, context.stream(), y.data(), values.data(),
         places.data(), std::ssize(places), a, b);
}

}  // namespace syncopate::cuda
