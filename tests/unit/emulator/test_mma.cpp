// The emulator's tensor-core products, matrix loads and asynchronous copies,
// and what happens to kernels that misuse them.
#include <cuda/mma.cuh>

#include <cmath>

#include "unit/emulator/emulated.h"

namespace syncopate::test {
namespace {

using MmaTest = Emulated;
using namespace syncopate::cuda;

// The matrices' elements are given to lanes one by one, by the table in PTX
// ISA, "Matrix Fragments for mma.m16n8k16", written for element i of a lane:
// a_i is in row group (+ 8 unless i < 2 or 4 <= i < 6), column 2 t + i % 2
// (+ 8 if i >= 4); b_i in row 2 t + i % 2 (+ 8 if i >= 2), column group.
__global__ void multiply_kernel(float* product,
                                const Bf16* a,
                                const Bf16* b,
                                int swapped_lanes) {
  const int lane = static_cast<int>(threadIdx.x);
  const int group = lane >> 2, t = lane % 4;
  uint32_t left[4], right[2];
  for (int i = 0; i < 8; ++i) {
    const int row = group + ((i < 2 || (i >= 4 && i < 6)) ? 0 : 8);
    const uint32_t bits = a[row * 16 + 2 * t + i % 2 + (i >= 4 ? 8 : 0)].bits;
    left[i / 2] = i % 2 == 0 ? bits : left[i / 2] | bits << 16;
  }
  for (int i = 0; i < 4; ++i) {
    const uint32_t bits =
        b[(2 * t + i % 2 + (i >= 2 ? 8 : 0)) * 8 + group].bits;
    right[i / 2] = i % 2 == 0 ? bits : right[i / 2] | bits << 16;
  }
  if (swapped_lanes != 0)
    right[0] = __shfl_xor_sync(~0u, right[0], swapped_lanes);
  float sum[4] = {1, 1, 1, 1};
  mma(sum, left, right[0], right[1]);
  for (int i = 0; i < 4; ++i)
    product[(group + (i < 2 ? 0 : 8)) * 8 + 2 * t + i % 2] = sum[i];
}

struct Product {
  std::vector<Bf16> a, b;
  std::vector<float> expected;  // 1 + a b, exact: small whole numbers
  Product() {
    for (int i = 0; i < 256; ++i)
      a.push_back(from_f32<Bf16>(static_cast<float>(i * 7 % 19 - 9)));
    for (int i = 0; i < 128; ++i)
      b.push_back(from_f32<Bf16>(static_cast<float>(i * 11 % 23 - 11)));
    for (int m = 0; m < 16; ++m)
      for (int n = 0; n < 8; ++n) {
        float sum = 1;
        for (int k = 0; k < 16; ++k)
          sum += to_f32(a[m * 16 + k]) * to_f32(b[k * 8 + n]);
        expected.push_back(sum);
      }
  }
};

TEST_F(MmaTest, MultipliesByPtxMapOfFragments) {
  const Product product;
  const auto out = array<float>(128);
  const auto a = array(product.a), b = array(product.b);
  launch(multiply_kernel, 1, 32, 0, *stream, out.data(), a.data(), b.data(), 0);
  EXPECT_EQ(values(out), product.expected);
}

TEST_F(MmaTest, FragmentsInTheWrongLanesGiveAWrongProduct) {
  const Product product;
  const auto out = array<float>(128);
  const auto a = array(product.a), b = array(product.b);
  for (const int swapped : {1, 2, 4, 8, 16}) {
    launch(multiply_kernel, 1, 32, 0, *stream, out.data(), a.data(), b.data(),
           swapped);
    EXPECT_NE(values(out), product.expected) << swapped;
  }
}

__global__ void load_kernel(uint32_t* out,
                            const uint16_t* in,
                            bool is_transposed,
                            int misplaced) {
  Bf16* shared = shared_memory<Bf16>();
  const int lane = static_cast<int>(threadIdx.x);
  for (int i = 0; i < 8; ++i) shared[lane * 8 + i].bits = in[lane * 8 + i];
  __syncwarp();
  uint32_t got[4];
  if (is_transposed)
    load_transposed(got, shared + lane * 8 + misplaced);
  else
    load_matrices(got, shared + lane * 8 + misplaced);
  for (int m = 0; m < 4; ++m) out[lane * 4 + m] = got[m];
}

TEST_F(MmaTest, LoadsMatricesAndTheirTransposes) {
  std::vector<uint16_t> host(256);
  for (size_t i = 0; i < host.size(); ++i) host[i] = static_cast<uint16_t>(i);
  const auto in = array(host);
  const auto out = array<uint32_t>(128);
  for (const bool is_transposed : {false, true}) {
    launch(load_kernel, 1, 32, 512, *stream, out.data(), in.data(),
           is_transposed, 0);
    const auto got = values(out);
    for (int lane = 0; lane < 32; ++lane)
      for (int m = 0; m < 4; ++m) {
        const int row = lane / 4, column = lane % 4 * 2;
        const uint16_t low = is_transposed ? host[m * 64 + column * 8 + row]
                                           : host[m * 64 + row * 8 + column];
        const uint16_t high = is_transposed
                                  ? host[m * 64 + (column + 1) * 8 + row]
                                  : host[m * 64 + row * 8 + column + 1];
        EXPECT_EQ(got[lane * 4 + m], (uint32_t{high} << 16 | low));
      }
  }
  const std::string line = error_of([&] {
    launch(load_kernel, 1, 32, 528, *stream, out.data(), in.data(), false, 1);
  });
  EXPECT_TRUE(has(line, "at no multiple of 16 bytes"));
}

// Two groups of copies, the second still under way when the first is used.
enum class Fault { kNone, kNoWait, kTooFewWaits, kNoBarrier, kNoCommit };

template <Fault kFault>
__global__ void copy_kernel(float* out, const float* in) {
  float* shared = shared_memory<float>();
  const int thread = static_cast<int>(threadIdx.x);
  copy_async<16>(shared + thread * 4, in + thread * 4, thread < 60);
  if constexpr (kFault != Fault::kNoCommit) commit_copies();
  copy_async<4>(shared + 256 + thread, in + 256 + thread, true);
  if constexpr (kFault != Fault::kNoCommit) commit_copies();
  if constexpr (kFault == Fault::kTooFewWaits)
    wait_for_copies<2>();
  else if constexpr (kFault != Fault::kNoWait)
    wait_for_copies<1>();
  if constexpr (kFault != Fault::kNoBarrier) __syncthreads();
  const int other = 63 - thread;
  for (int i = 0; i < 4; ++i) out[thread * 4 + i] = shared[other * 4 + i];
  wait_for_copies<0>();
  __syncthreads();
  out[256 + thread] = shared[256 + other];
}

TEST_F(MmaTest, ACopyIsThereOnceItIsWaitedFor) {
  std::vector<float> host(320), expected(320);
  for (size_t i = 0; i < host.size(); ++i) host[i] = static_cast<float>(i + 1);
  for (size_t thread = 0; thread < 64; ++thread) {
    for (size_t i = 0; i < 4; ++i)
      expected[thread * 4 + i] = thread < 4 ? 0 : host[(63 - thread) * 4 + i];
    expected[256 + thread] = host[256 + 63 - thread];
  }
  const auto in = array(host);
  const auto out = array<float>(320);
  for (uint64_t seed = 0; seed < 10; ++seed) {
    emulator::set_seed(seed);
    launch(copy_kernel<Fault::kNone>, 1, 64, 1280, *stream, out.data(),
           in.data());
    EXPECT_EQ(values(out), expected);
    for (const auto kernel :
         {copy_kernel<Fault::kNoWait>, copy_kernel<Fault::kTooFewWaits>,
          copy_kernel<Fault::kNoBarrier>, copy_kernel<Fault::kNoCommit>}) {
      launch(kernel, 1, 64, 1280, *stream, out.data(), in.data());
      const auto got = values(out);
      EXPECT_NE(got, expected);
      bool has_nan = false;
      for (const float value : got) has_nan = has_nan || std::isnan(value);
      EXPECT_TRUE(has_nan);
    }
  }
}

__global__ void bad_copy_kernel(const float* in, int64_t to, int64_t from) {
  copy_async<16>(shared_memory<float>() + to, in + from, true);
}

TEST_F(MmaTest, ACopyToOrFromAWrongPlaceIsReported) {
  const auto in = array<float>(32);
  const auto copy = [&](int64_t to, int64_t from) {
    return error_of([&] {
      launch(bad_copy_kernel, 1, 1, 64, *stream, in.data(), to, from);
    });
  };
  EXPECT_TRUE(has(copy(1, 0), "a copy of 16 bytes at no multiple of them"));
  EXPECT_TRUE(has(copy(0, 2), "a copy of 16 bytes at no multiple of them"));
  EXPECT_TRUE(has(copy(16, 0), "a copy to 64 bytes past the start of 64"));
  EXPECT_TRUE(has(copy(-4, 0), "of 64 bytes of shared memory"));
}

}  // namespace
}  // namespace syncopate::test
