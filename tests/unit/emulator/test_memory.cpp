// Every invalid access is reported.
#include <cmath>
#include <csignal>
#include <thread>

#include "unit/emulator/emulated.h"

namespace syncopate::test {
namespace {

using MemoryTest = Emulated;
using MemoryDeathTest = Emulated;

const auto kInternalExit =
    ::testing::ExitedWithCode(static_cast<int>(ExitCode::kInternal));

__global__ void store_kernel(char* memory, int64_t at, int64_t writer) {
  const int64_t thread = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (thread == writer) memory[at] = 1;
}

__global__ void load_kernel(float* out, const float* in, int64_t at) {
  *out = in[at];
}

TEST_F(MemoryTest, IsAlignedPoisonedAndCounted) {
  const int64_t free_before = device->free_bytes();
  for (const int64_t bytes : {1, 255, 256, 257, 4096, 4097, 1000000}) {
    const auto memory = array<uint8_t>(bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(memory.data()) % 256, 0u);
    EXPECT_EQ(device->free_bytes(), free_before - bytes);
    EXPECT_EQ(values(memory),
              std::vector<uint8_t>(static_cast<size_t>(bytes), 0xFF));
  }
  EXPECT_EQ(device->free_bytes(), free_before);
  const Buffer nothing(*device, 0), nothing_else(*device, 0);
  EXPECT_NE(nothing.data(), nothing_else.data());
}

TEST_F(MemoryTest, TooMuchIsAnErrorWithTheSize) {
  const std::string line = error_of([&] { Buffer(*device, int64_t{1} << 40); });
  EXPECT_TRUE(has(line, "out of memory: "));
  EXPECT_TRUE(has(line, "asked for on emulated GPU 0"));
}

TEST_F(MemoryDeathTest, AWriteBehindAnAllocation) {
  const auto memory = array<char>(512);
  EXPECT_EXIT(launch(store_kernel, 4, 32, 0, *stream, memory.data(), 524, 70),
              kInternalExit,
              "emulator: kernel .*::store_kernel, block \\(2,0,0\\), thread "
              "\\(6,0,0\\): access outside of device memory at 0x[0-9a-f]+, 12 "
              "bytes behind an allocation of 512 bytes\n");
}

TEST_F(MemoryDeathTest, AWriteBeforeAnAllocation) {
  const auto memory = array<char>(8192);
  EXPECT_EXIT(launch(store_kernel, 1, 1, 0, *stream, memory.data(), -4, 0),
              kInternalExit,
              "store_kernel, .*: access outside of device memory at .*, 4 "
              "bytes before an allocation of 8192 bytes");
}

TEST_F(MemoryDeathTest, ReleasedMemory) {
  auto memory = array<char>(100);
  char* const data = memory.data();
  memory.memory = Buffer();
  EXPECT_EXIT(launch(store_kernel, 1, 1, 0, *stream, data, 40, 0),
              kInternalExit, "byte 40 of a released allocation of 100 bytes");
}

TEST_F(MemoryDeathTest, HostMemoryThatIsNone) {
  EXPECT_EXIT(launch(store_kernel, 1, 1, 0, *stream, nullptr, 16, 0),
              kInternalExit,
              "store_kernel, .*: access to 0x10, which is not device memory");
}

TEST_F(MemoryDeathTest, TheHostReadsDeviceMemory) {
  const auto memory = array(std::vector<float>{1, 2, 3});
  EXPECT_EXIT(std::exit(memory.data()[1] > 0), kInternalExit,
              "emulator: the host touched device memory at 0x[0-9a-f]+, 4 "
              "bytes into an allocation of 12 bytes: it gets there by "
              "Device::copy\\(\\) only\n");
}

TEST_F(MemoryDeathTest, TheHostWritesAfterAKernelDid) {
  const auto memory = array<char>(64);
  launch(store_kernel, 1, 1, 0, *stream, memory.data(), 0, 0);
  EXPECT_EXIT(memory.data()[0] = 2, kInternalExit, "the host touched");
}

TEST_F(MemoryDeathTest, AFaultElsewhereIsNotOurs) {
  volatile int* nowhere = nullptr;
  EXPECT_EXIT(
          *nowhere = 1, [](int status) { return !kInternalExit(status); }, "");
}

TEST_F(MemoryTest, AccessOpensIt) {
  const auto memory = array(std::vector<float>{1, 2, 3});
  {
    const emulator::Access outer;
    { const emulator::Access inner; }
    EXPECT_EQ(memory.data()[1], 2.0f);
  }
}

TEST_F(MemoryTest, OtherThreadsMayWorkInsideAnAccess) {
  const auto memory = array<int>(4 << 20);
  emulator::run_on(*stream, [&] {
    std::vector<std::thread> threads;
    for (int part = 0; part < 4; ++part)
      threads.emplace_back([&memory, part] {
        for (int64_t at = part; at < memory.elems; at += 4)
          memory.data()[at] = static_cast<int>(at);
      });
    for (auto& thread : threads) thread.join();
  });
  const auto found = values(memory);
  for (int64_t at = 0; at < memory.elems; ++at) ASSERT_EQ(found[at], at);
}

TEST_F(MemoryDeathTest, HandlersOfOthersAreTakenOver) {
  const auto memory = array<char>(64);
  EXPECT_EXIT(
      {
        std::signal(SIGSEGV, SIG_DFL);
        const Buffer next(*device, 1);
        launch(store_kernel, 1, 1, 0, *stream, memory.data(), 0, 0);
        std::exit(memory.data()[0]);
      },
      kInternalExit, "the host touched device memory");
}

TEST_F(MemoryTest, AWriteIntoThePaddingIsReported) {
  const auto memory = array<char>(100);
  const auto store = [&](int64_t at) {
    return [&, at] {
      launch(store_kernel, 1, 1, 0, *stream, memory.data(), at, 0);
    };
  };
  store(99)();
  const std::string behind = error_of(store(103));
  EXPECT_TRUE(has(behind, "::store_kernel: write at 0x"));
  EXPECT_TRUE(has(behind, "3 bytes behind an allocation of 100 bytes"));
  EXPECT_TRUE(has(error_of(store(-8)), "8 bytes before an allocation of 100"));
  store(0)();  // once reported, not again
}

TEST_F(MemoryTest, PaddingIsFoundInLargeMemoryToo) {
  const auto large = array<char>(3000001), small = array<char>(50);
  const std::string line = error_of([&] {
    launch(store_kernel, 1, 1, 0, *stream, large.data(), 3000001, 0);
  });
  EXPECT_TRUE(has(line, "0 bytes behind an allocation of 3000001 bytes"));
}

TEST_F(MemoryTest, PaddingIsCheckedAfterHostWork) {
  const auto memory = array<char>(100);
  const std::string line = error_of([&] {
    emulator::run_on(
        *stream, [&] { memory.data()[100] = 1; }, "convolution");
  });
  EXPECT_TRUE(has(line, "emulator: convolution: write at"));
}

TEST_F(MemoryDeathTest, PaddingIsCheckedAtRelease) {
  EXPECT_EXIT(
      {
        const auto memory = array<char>(100);
        const emulator::Access access;
        memory.data()[100] = 1;
      },
      kInternalExit, "at release: write at .*, 0 bytes behind an allocation");
}

TEST_F(MemoryDeathTest, ReleaseOfWhatIsNoAllocation) {
  const auto memory = array<char>(1000);
  EXPECT_EXIT(device->release(memory.data() + 256), kInternalExit,
              "which is no allocation's start");
}

TEST_F(MemoryTest, ReadingThePaddingGivesNan) {
  const auto in = array(std::vector<float>{1, 2, 3});
  const auto out = array<float>(1);
  for (const int64_t at : {3, 20, -1, -5}) {
    launch(load_kernel, 1, 1, 0, *stream, out.data(), in.data(), at);
    EXPECT_TRUE(std::isnan(values(out)[0])) << at;
  }
}

TEST_F(MemoryTest, CopiesAndFillsBeyondAnAllocationAreErrors) {
  const auto memory = array<char>(100);
  std::vector<char> host(200);
  EXPECT_TRUE(has(
      error_of([&] { device->copy(memory.data(), host.data(), 101, *stream); }),
      "copy to the device of 101 bytes from byte 0 of an allocation of 100"));
  EXPECT_TRUE(has(error_of([&] {
                    device->copy(host.data(), memory.data() + 90, 11, *stream);
                  }),
                  "from byte 90 of an allocation of 100 bytes"));
  EXPECT_TRUE(
      has(error_of([&] { device->fill_zero(memory.data(), 101, *stream); }),
          "fill of 101 bytes"));
  EXPECT_TRUE(has(error_of([&] { device->fill_zero(host.data(), 1, *stream); }),
                  "is no device memory"));
}

TEST_F(MemoryTest, ManyAllocationsComeAndGo) {
  std::vector<Buffer> kept;
  for (int round = 0; round < 500; ++round) {
    Buffer memory(*device, 1000 + round * 37);
    launch(store_kernel, 1, 1, 0, *stream, memory.as<char>(), round, 0);
    if (round % 7 == 0) kept.push_back(std::move(memory));
    if (round % 50 == 0) kept.clear();
  }
}

// --- shared memory ----------------------------------------------------------

__global__ void shared_values_kernel(uint8_t* out, int64_t bytes) {
  auto* shared = shared_memory<uint8_t>();
  if (reinterpret_cast<uintptr_t>(shared) % 16 != 0) return;
  for (int64_t at = 0; at < bytes; ++at) {
    out[int64_t{blockIdx.x} * bytes + at] = shared[at];
    shared[at] = 7;
  }
}

TEST_F(MemoryTest, SharedMemoryIsPoisonedBeforeEachBlock) {
  for (const int64_t bytes : {1, 16, 1001, 48 * 1024, 99 * 1024}) {
    const auto out = array<uint8_t>(bytes * 3);
    launch(shared_values_kernel, 3, 1, bytes, *stream, out.data(), bytes);
    EXPECT_EQ(values(out),
              std::vector<uint8_t>(static_cast<size_t>(bytes * 3), 0xFF));
  }
}

__global__ void shared_store_kernel(int64_t at) {
  if (threadIdx.x == 3 && blockIdx.x == 1) shared_memory<char>()[at] = 1;
}

TEST_F(MemoryDeathTest, AWriteBehindSharedMemory) {
  EXPECT_EXIT(launch(shared_store_kernel, 2, 4, 64, *stream, 66), kInternalExit,
              "shared_store_kernel, block \\(1,0,0\\), thread \\(3,0,0\\): "
              "access 2 bytes behind the 64 bytes of shared memory");
  EXPECT_EXIT(launch(shared_store_kernel, 2, 4, 0, *stream, 0), kInternalExit,
              "access 0 bytes behind the 0 bytes of shared memory");
}

TEST_F(MemoryDeathTest, AWriteFarBeforeSharedMemory) {
  EXPECT_EXIT(launch(shared_store_kernel, 2, 4, 64, *stream, -104000),
              kInternalExit, "104000 bytes before the 64 bytes of shared");
}

TEST_F(MemoryTest, AWriteBesideSharedMemoryIsReported) {
  const auto store = [&](int64_t at) {
    return error_of(
        [&] { launch(shared_store_kernel, 2, 4, 60, *stream, at); });
  };
  EXPECT_TRUE(has(store(61),
                  "shared_store_kernel, block (1,0,0): write 1 "
                  "bytes behind the 60 bytes of shared memory"));
  EXPECT_TRUE(has(store(-4), "write 4 bytes before the 60 bytes of shared"));
  launch(shared_store_kernel, 2, 4, 60, *stream, 59);
}

__attribute__((noinline)) int deep(int depth, const volatile int* outer) {
  volatile int local[64] = {};
  local[0] = depth;
  return depth == 0 ? outer[0] : deep(depth - 1, local) + local[0];
}

__global__ void deep_kernel(int* out, int depth) {
  const volatile int start = 0;
  *out = deep(depth, &start);
}

TEST_F(MemoryDeathTest, TooManyLocalVariables) {
  const auto out = array<int>(1);
  launch(deep_kernel, 1, 1, 0, *stream, out.data(), 50);
  EXPECT_EXIT(launch(deep_kernel, 1, 1, 0, *stream, out.data(), 100000),
              kInternalExit, "deep_kernel, .*: its local variables need more");
}

}  // namespace
}  // namespace syncopate::test
