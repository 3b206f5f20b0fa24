// Accesses at addresses that a GPU refuses, in kernels compiled as the
// project's own are.
#include <span>

#include "cuda/pack.cuh"
#include "ops/context.h"
#include "ops/reduce.h"
#include "unit/emulator/emulated.h"

namespace syncopate::test {
namespace {

using AlignmentTest = Emulated;
using AlignmentDeathTest = Emulated;

const auto kInternalExit =
    ::testing::ExitedWithCode(static_cast<int>(ExitCode::kInternal));

template <typename T, int kElems>
__global__ void load_kernel(T* out, const T* in) {
  const auto pack = cuda::Pack<T, kElems>::load(in);
  for (int i = 0; i < kElems; ++i) out[i] = pack.elem[i];
}

template <typename T, int kElems>
__global__ void store_kernel(T* out, const T* in) {
  cuda::Pack<T, kElems> pack;
  for (int i = 0; i < kElems; ++i) pack.elem[i] = in[i];
  pack.store(out);
}

__global__ void store_shared_kernel(float* out, int at) {
  cuda::Pack<float> pack{};
  pack.store(shared_memory<float>() + at);
  *out = 0;
}

__global__ void store_scalar_kernel(uint8_t* out) {
  *reinterpret_cast<float*>(out) = 1;
}

TEST_F(AlignmentTest, PacksAtTheirMultiplesAreLoadedAndStored) {
  const std::vector<float> numbers = {1, 2, 3, 4, 5, 6, 7, 8};
  const auto in = array(numbers), out = array<float>(8);
  launch(load_kernel<float, 4>, 1, 1, 0, *stream, out.data(), in.data() + 4);
  launch(store_kernel<float, 4>, 1, 1, 0, *stream, out.data() + 4, in.data());
  EXPECT_EQ(values(out), (std::vector<float>{5, 6, 7, 8, 1, 2, 3, 4}));
  launch(load_kernel<float, 1>, 1, 1, 0, *stream, out.data() + 3,
         in.data() + 1);
  EXPECT_EQ(values(out)[3], 2);
}

TEST_F(AlignmentDeathTest, APackAtAnotherElementIsReported) {
  const auto in = array<float>(16), out = array<float>(16);
  for (const int at : {1, 2, 3}) {
    EXPECT_EXIT(launch(load_kernel<float, 4>, 1, 1, 0, *stream, out.data(),
                       in.data() + at),
                kInternalExit,
                "emulator: kernel .*::load_kernel.*, block \\(0,0,0\\), thread "
                "\\(0,0,0\\): access to 0x[0-9a-f]+ as .*Pack.* "
                "\\(pack.cuh:[0-9]+\\), which must be at a multiple of 16 "
                "bytes, [0-9]+ bytes into an allocation of 64 bytes\n");
    EXPECT_EXIT(launch(store_kernel<float, 4>, 1, 1, 0, *stream,
                       out.data() + at, in.data()),
                kInternalExit, "store_kernel.*multiple of 16 bytes");
  }
  const auto halves = array<Bf16>(16), others = array<Bf16>(16);
  EXPECT_EXIT(launch(load_kernel<Bf16, 8>, 1, 1, 0, *stream, halves.data(),
                     others.data() + 4),
              kInternalExit, "load_kernel.*multiple of 16 bytes");
  EXPECT_EXIT(launch(store_kernel<Bf16, 2>, 1, 1, 0, *stream, halves.data() + 1,
                     others.data()),
              kInternalExit, "store_kernel.*multiple of 4 bytes");
}

TEST_F(AlignmentDeathTest, SharedMemoryAndSingleElementsToo) {
  const auto out = array<float>(1);
  launch(store_shared_kernel, 1, 1, 64, *stream, out.data(), 4);
  EXPECT_EXIT(launch(store_shared_kernel, 1, 1, 64, *stream, out.data(), 5),
              kInternalExit,
              "store_shared_kernel.*\\(pack.cuh:[0-9]+\\), which must be at a "
              "multiple of 16 bytes\n");
  const auto bytes = array<uint8_t>(16);
  EXPECT_EXIT(launch(store_scalar_kernel, 1, 1, 0, *stream, bytes.data() + 2),
              kInternalExit,
              "as 'float' \\(test_alignment.cpp:[0-9]+\\), which must be at a "
              "multiple of 4 bytes, 2 bytes into an allocation of 16 bytes");
}

TEST_F(AlignmentDeathTest, AndInTheProjectsKernels) {
  const auto bytes = array(std::vector<uint8_t>(64));
  Context context(*device, *stream, 1);
  const auto numbers_at = [&](int64_t at) {
    return std::span(reinterpret_cast<const float*>(bytes.data() + at), 8);
  };
  EXPECT_EQ(first_nonfinite(context, numbers_at(4)), -1);
  EXPECT_EXIT(
      first_nonfinite(context, numbers_at(2)), kInternalExit,
      "emulator: kernel .*first_nonfinite_kernel.*\\(reduce.cu:[0-9]+\\), "
      "which must be at a multiple of 4 bytes, [0-9]+ bytes into an "
      "allocation of 64 bytes");
}

}  // namespace
}  // namespace syncopate::test
