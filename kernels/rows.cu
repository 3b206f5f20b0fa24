#include "ops/rows.h"

#include "cuda/pack.cuh"
#include "cuda/scan.cuh"
#include "cuda/touched.cuh"
#include "ops/bodies.h"

// Touched rows are counted by each warp's blocks, placed by sums over these
// counts, and listed in order.
namespace syncopate::cuda {

constexpr int kRowThreads = 256;
constexpr int kPlaceThreads = 1024;  // of the one block that sums up counts

// Without marks, blocks are those of the table, and all are marked.
struct RowsOfTable {
  float* values;
  int64_t n, D;
  TouchedBlocks touched;
  int64_t place;  // of the values in the range that the blocks divide
  int lanes;      // that look at a row together: a power of two

  __host__ __device__ int64_t first_block() const {
    return place / TouchedBlocks::kElems;
  }
  __host__ __device__ int64_t end_block() const {
    return ceil_div(place + n, TouchedBlocks::kElems);
  }
  __host__ __device__ int64_t chunks() const {
    return ceil_div(end_block() - first_block(), kBlocksOfRowPlace);
  }
  __device__ __forceinline__ bool is_marked(int64_t block) const {
    return touched.marks == nullptr ||
           touched.marks[block] != TouchedBlocks::kUntouched;
  }
};

// Returns how many rows that reach into the marked block, and into no marked
// block before it, are touched; kLists: writes their numbers. For a warp.
template <bool kLists>
__device__ __forceinline__ int find_rows_of_block(uint32_t* numbers,
                                                  const RowsOfTable& table,
                                                  int64_t block) {
  const int64_t place = block * TouchedBlocks::kElems - table.place;
  const int64_t begin = place < 0 ? 0 : place;
  const int64_t last =
      ceil_div(lesser(place + TouchedBlocks::kElems, table.n), table.D);
  int64_t first = begin / table.D;
  for (int64_t before = (table.place + first * table.D) / TouchedBlocks::kElems;
       before < block; ++before)
    if (table.is_marked(before)) {
      ++first;
      break;
    }
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const int of_row = lane % table.lanes;
  const auto* words = reinterpret_cast<const uint32_t*>(table.values);
  int count = 0;
  for (; first < last; first += kWarpSize / table.lanes) {
    const int64_t row = first + lane / table.lanes;
    uint32_t bits = 0;
    if (row < last)
      for (int64_t e = of_row; e < table.D; e += table.lanes)
        bits |= words[row * table.D + e];
    const unsigned votes = __ballot_sync(kAllLanes, bits != 0);
    const unsigned of_same_row =
        (votes >> (lane - of_row)) & (kAllLanes >> (kWarpSize - table.lanes));
    const bool is_found = of_row == 0 && of_same_row != 0;
    const unsigned found = __ballot_sync(kAllLanes, is_found);
    if (kLists && is_found)
      numbers[count + count_bits(found & ((1u << lane) - 1))] =
          static_cast<uint32_t>(row);
    count += count_bits(found);
  }
  return count;
}

// The same for all of the chunk's marked blocks, from left to right.
template <bool kLists>
__device__ __forceinline__ int find_rows_of_chunk(uint32_t* numbers,
                                                  const RowsOfTable& table,
                                                  int64_t chunk) {
  static_assert(kBlocksOfRowPlace % kWarpSize == 0);
  const int64_t begin = table.first_block() + chunk * kBlocksOfRowPlace;
  int count = 0;
  for (int64_t first = begin; first < begin + kBlocksOfRowPlace;
       first += kWarpSize) {
    const int64_t block = first + threadIdx.x % kWarpSize;
    const unsigned votes = __ballot_sync(
        kAllLanes, block < table.end_block() && table.is_marked(block));
    for (int i = 0; i < kWarpSize; ++i)
      if ((votes >> i & 1) != 0)
        count += find_rows_of_block<kLists>(kLists ? numbers + count : nullptr,
                                            table, first + i);
  }
  return count;
}

// Calls body(chunk) for each of the table's chunks with one warp.
template <typename Body>
__device__ __forceinline__ void for_chunks(const RowsOfTable& table,
                                           const Body& body) {
  const int64_t thread = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const int64_t warps = int64_t{gridDim.x} * (blockDim.x / kWarpSize);
  for (int64_t chunk = thread / kWarpSize; chunk < table.chunks();
       chunk += warps)
    body(chunk);
}

__global__ void __launch_bounds__(kRowThreads)
    count_rows_kernel(uint32_t* places, RowsOfTable table) {
  for_chunks(table, [&](int64_t chunk) {
    const int count = find_rows_of_chunk<false>(nullptr, table, chunk);
    if (threadIdx.x % kWarpSize == 0)
      places[chunk] = static_cast<uint32_t>(count);
  });
}

// One block, of which a thread takes some successive chunks: turns counts into
// places, with the sum of all behind them.
__global__ void __launch_bounds__(kPlaceThreads)
    place_rows_kernel(uint32_t* count, uint32_t* places, int64_t chunks) {
  const int64_t share = ceil_div(chunks, kPlaceThreads);
  const int64_t begin = lesser(share * threadIdx.x, chunks);
  const int64_t end = lesser(begin + share, chunks);
  uint32_t own = 0;
  for (int64_t chunk = begin; chunk < end; ++chunk) own += places[chunk];
  uint32_t before = block_scan(own, shared_memory<uint32_t>());
  if (threadIdx.x == kPlaceThreads - 1) *count = places[chunks] = before + own;
  for (int64_t chunk = begin; chunk < end; ++chunk) {
    const uint32_t of_chunk = places[chunk];
    places[chunk] = before;
    before += of_chunk;
  }
}

__global__ void __launch_bounds__(kRowThreads)
    list_rows_kernel(uint32_t* numbers,
                     const uint32_t* places,
                     RowsOfTable table) {
  for_chunks(table, [&](int64_t chunk) {
    if (places[chunk] != places[chunk + 1])
      find_rows_of_chunk<true>(numbers + places[chunk], table, chunk);
  });
}

// Calls body(element of the table, i) for element i of all rows, side by side.
template <typename Body>
__device__ __forceinline__ void for_elems(const RowsOfTable& table,
                                          const uint32_t* numbers,
                                          int64_t elems,
                                          const Body& body) {
  const int64_t threads = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < elems;
       i += threads) {
    const int64_t row = i / table.D;
    body(table.values[(numbers[row] - row) * table.D + i], i);
  }
}

template <typename T>
__global__ void __launch_bounds__(kRowThreads)
    take_rows_kernel(T* values,
                     RowsOfTable table,
                     const uint32_t* numbers,
                     int64_t elems) {
  for_elems(table, numbers, elems, [&](float& from, int64_t i) {
    values[i] = from_f32<T>(from);
    from = 0;
  });
}

template <typename T>
__global__ void __launch_bounds__(kRowThreads)
    add_rows_kernel(RowsOfTable table,
                    const uint32_t* numbers,
                    const T* values,
                    int64_t elems) {
  for_elems(table, numbers, elems, [&](float& to, int64_t i) {
    to += to_f32(values[i]);
    mark_touched(table.touched, &to);
  });
}

__global__ void __launch_bounds__(kRowThreads)
    mark_rows_kernel(RowsOfTable table) {
  const int64_t threads = int64_t{gridDim.x} * blockDim.x;
  for (int64_t block =
           table.first_block() + int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
       block < table.end_block(); block += threads) {
    uint8_t& mark = table.touched.marks[block];
    if (mark == TouchedBlocks::kUntouched) mark = TouchedBlocks::kTouched;
  }
}

namespace {

// A warp has the more rows of a block at a time, the shorter they are.
RowsOfTable rows_of(const RowTable& table) {
  constexpr int64_t kElemsOfLane = TouchedBlocks::kElems / kWarpSize;
  int lanes = 1;
  while (lanes < kWarpSize && 2 * lanes * kElemsOfLane <= table.row_elems)
    lanes *= 2;
  const bool has_marks = table.touched.marks != nullptr;
  return {.values = table.values.data(),
          .n = std::ssize(table.values),
          .D = table.row_elems,
          .touched = table.touched,
          .place = has_marks ? table.touched.place_of(table.values.data()) : 0,
          .lanes = lanes};
}

dim3 grid_over(const RowsOfTable& rows) {
  return dim3(grid_for(rows.chunks(), kRowThreads / kWarpSize));
}

}  // namespace

void count_rows(Context& context,
                uint32_t* count,
                std::span<uint32_t> places,
                const RowTable& table) {
  const RowsOfTable rows = rows_of(table);
  constexpr int64_t kShared = kPlaceThreads / kWarpSize * sizeof(uint32_t);
  launch(count_rows_kernel, grid_over(rows), dim3(kRowThreads), 0,
         context.stream(), places.data(), rows);
  launch(place_rows_kernel, dim3(1), dim3(kPlaceThreads), kShared,
         context.stream(), count, places.data(), rows.chunks());
}

void list_rows(Context& context,
               std::span<uint32_t> numbers,
               std::span<const uint32_t> places,
               const RowTable& table) {
  const RowsOfTable rows = rows_of(table);
  launch(list_rows_kernel, grid_over(rows), dim3(kRowThreads), 0,
         context.stream(), numbers.data(), places.data(), rows);
}

void take_rows(Context& context,
               Tensor values,
               const RowTable& table,
               std::span<const uint32_t> numbers) {
  const auto take = [&](auto* to) {
    launch(take_rows_kernel<std::remove_pointer_t<decltype(to)>>,
           dim3(grid_for(values.elems(), kRowThreads)), dim3(kRowThreads), 0,
           context.stream(), to, rows_of(table), numbers.data(),
           values.elems());
  };
  if (values.dtype == DType::kF32)
    take(values.f32());
  else
    take(static_cast<Bf16*>(values.data));
}

void add_rows(Context& context,
              const RowTable& table,
              std::span<const uint32_t> numbers,
              ConstTensor values) {
  const auto add = [&](const auto* from) {
    launch(add_rows_kernel<
               std::remove_cv_t<std::remove_pointer_t<decltype(from)>>>,
           dim3(grid_for(values.elems(), kRowThreads)), dim3(kRowThreads), 0,
           context.stream(), rows_of(table), numbers.data(), from,
           values.elems());
  };
  if (values.dtype == DType::kF32)
    add(values.f32());
  else
    add(static_cast<const Bf16*>(values.data));
}

void mark_rows(Context& context, const RowTable& table) {
  const RowsOfTable rows = rows_of(table);
  if (table.touched.marks == nullptr || table.values.empty()) return;
  launch(mark_rows_kernel,
         dim3(grid_for(rows.end_block() - rows.first_block(), kRowThreads)),
         dim3(kRowThreads), 0, context.stream(), rows);
}

}  // namespace syncopate::cuda
