// The device's calls, capture and replay, events.
#include <chrono>
#include <cstdlib>
#include <thread>

#include "unit/emulator/emulated.h"

namespace syncopate::test {
namespace {

using StreamTest = Emulated;

__global__ void add_kernel(float* values, int64_t elems, float amount) {
  const int64_t at = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (at < elems) values[at] += amount;
}

TEST_F(StreamTest, SaysWhatItIs) {
  EXPECT_EQ(device->kind(), DeviceKind::kCuda);
  EXPECT_EQ(device->name(), "emulated GPU");
  EXPECT_EQ(device->identity(), "emulated-0");
}

class DeviceCountTest : public Emulated {
 protected:
  ~DeviceCountTest() override { unsetenv("SYNCOPATE_EMULATED_GPUS"); }
};

TEST_F(DeviceCountTest, IsOfTheEnvironment) {
  unsetenv("SYNCOPATE_EMULATED_GPUS");
  EXPECT_EQ(cuda_device_count(), 1);
  setenv("SYNCOPATE_EMULATED_GPUS", "3", 1);
  EXPECT_EQ(cuda_device_count(), 3);
  const auto third = make_cuda_device(2);
  EXPECT_EQ(third->identity(), "emulated-2");
  const Buffer memory(*device, 1000);
  EXPECT_EQ(third->free_bytes(), device->free_bytes() + 1000);
  setenv("SYNCOPATE_EMULATED_GPUS", "0", 1);
  EXPECT_THROW(make_cuda_device(0), Error);
  setenv("SYNCOPATE_EMULATED_GPUS", "two", 1);
  EXPECT_THROW(cuda_device_count(), Error);
}

TEST_F(StreamTest, CopiesEveryWay) {
  const auto first = array(std::vector<int>{1, 2, 3, 4});
  const auto second = array<int>(4);
  device->copy(second.data(), first.data(), 16, *stream);
  device->fill_zero(second.data() + 1, 8, *stream);
  EXPECT_EQ(values(second), (std::vector<int>{1, 0, 0, 4}));
  HostBuffer locked(*device, 16);
  device->copy(locked.as<int>(), second.data(), 16, *stream);
  stream->synchronize();
  EXPECT_EQ(locked.as<int>()[3], 4);
  std::vector<int> pageable(4);
  device->copy(pageable.data(), locked.as<int>(), 16, *stream);
  EXPECT_EQ(pageable, (std::vector<int>{1, 0, 0, 4}));
}

TEST_F(StreamTest, ACaptureRunsNothingAndAGraphRunsItAll) {
  const auto memory = array(std::vector<float>{1, 2, 3});
  HostBuffer out(*device, 12);
  std::fill_n(out.as<float>(), 3, -1.0f);
  int num_runs = 0;
  float amount = 10;
  stream->begin_capture();
  EXPECT_TRUE(emulator::is_capturing(*stream));
  launch(add_kernel, 1, 32, 0, *stream, memory.data(), 3, amount);
  amount = 1000;  // the kernel has its copy
  device->copy(out.as<float>(), memory.data(), 12, *stream);
  device->fill_zero(memory.data(), 4, *stream);
  emulator::run_on(*stream, [&] { ++num_runs; });
  const auto graph = stream->end_capture();
  EXPECT_FALSE(emulator::is_capturing(*stream));
  EXPECT_EQ(values(memory), (std::vector<float>{1, 2, 3}));
  EXPECT_EQ(out.as<float>()[0], -1.0f);
  EXPECT_EQ(num_runs, 0);

  graph->launch(*stream);
  EXPECT_EQ(values(memory), (std::vector<float>{0, 12, 13}));
  EXPECT_EQ(out.as<float>()[0], 11.0f);
  const auto other = device->make_stream();
  graph->launch(*other);
  EXPECT_EQ(values(memory), (std::vector<float>{0, 22, 23}));
  EXPECT_EQ(num_runs, 2);
}

TEST_F(StreamTest, AGraphMayBePartOfAnother) {
  const auto memory = array(std::vector<float>{0});
  stream->begin_capture();
  launch(add_kernel, 1, 1, 0, *stream, memory.data(), 1, 1);
  auto inner = stream->end_capture();
  stream->begin_capture();
  inner->launch(*stream);
  inner->launch(*stream);
  const auto outer = stream->end_capture();
  inner.reset();
  EXPECT_EQ(values(memory)[0], 0.0f);
  outer->launch(*stream);
  EXPECT_EQ(values(memory)[0], 2.0f);
}

TEST_F(StreamTest, WhatACaptureForbids) {
  const auto memory = array<float>(4);
  HostBuffer locked(*device, 16);
  std::vector<float> pageable(4);
  stream->begin_capture();
  EXPECT_TRUE(has(error_of([&] { device->allocate(4); }), "allocate() while"));
  EXPECT_TRUE(
      has(error_of([&] { device->allocate_host(4); }), "being captured"));
  EXPECT_TRUE(has(error_of([&] { stream->synchronize(); }), "synchronize()"));
  EXPECT_TRUE(has(error_of([&] { device->synchronize(); }), "synchronize()"));
  EXPECT_TRUE(has(error_of([&] { stream->begin_capture(); }), "within"));
  EXPECT_TRUE(has(error_of([&] {
                    device->copy(pageable.data(), memory.data(), 16, *stream);
                  }),
                  "a captured copy of 16 bytes to host memory"));
  EXPECT_TRUE(has(error_of([&] {
                    device->copy(memory.data(), pageable.data(), 16, *stream);
                  }),
                  "from host memory"));
  EXPECT_TRUE(has(error_of([&] {
                    device->copy(memory.data(), locked.as<float>() + 1, 16,
                                 *stream);
                  }),
                  "from host memory"));
  device->copy(memory.data(), locked.as<float>(), 16, *stream);
  EXPECT_TRUE(has(error_of([&] {
                    launch(add_kernel, 1, 2000, 0, *stream, memory.data(), 4,
                           1);
                  }),
                  "2000"));
  EXPECT_NE(stream->end_capture(), nullptr);
  EXPECT_TRUE(has(error_of([&] { stream->end_capture(); }), "without"));
  Buffer(*device, 4);
}

TEST_F(StreamTest, ReleaseInACaptureEndsTheProcess) {
  EXPECT_EXIT(
      {
        const Buffer memory(*device, 4);
        stream->begin_capture();
      },
      ::testing::ExitedWithCode(70),
      "a stream of the device is being captured");
}

TEST_F(StreamTest, MemoryMustBeThereWhenAGraphRuns) {
  auto memory = array<float>(4);
  stream->begin_capture();
  device->fill_zero(memory.data(), 16, *stream);
  const auto graph = stream->end_capture();
  memory.memory = Buffer();
  EXPECT_TRUE(
      has(error_of([&] { graph->launch(*stream); }), "is no device memory"));
}

TEST_F(StreamTest, EventsAreDone) {
  const auto event = device->make_event();
  const auto other = device->make_stream();
  EXPECT_TRUE(event->is_done());
  event->wait_on(*stream);
  event->record(*stream);
  event->wait_on(*other);
  event->synchronize();
  EXPECT_TRUE(event->is_done());
}

TEST_F(StreamTest, EventsTellTheTimeBetweenThem) {
  const auto first = device->make_event(), second = device->make_event();
  const auto again = device->make_event();
  stream->begin_capture();
  again->record(*stream);
  const auto graph = stream->end_capture();
  first->record(*stream);
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  second->record(*stream);
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  graph->launch(*stream);
  EXPECT_GE(second->seconds_since(*first), 0.004);
  EXPECT_GE(again->seconds_since(*second), 0.004);
}

TEST_F(StreamTest, AnEventOfACaptureHappensWhenItsGraphRuns) {
  const auto event = device->make_event();
  const auto other = device->make_stream();
  stream->begin_capture();
  event->record(*stream);
  event->wait_on(*stream);
  EXPECT_TRUE(has(error_of([&] { event->wait_on(*other); }), "has not run"));
  const auto graph = stream->end_capture();
  EXPECT_TRUE(has(error_of([&] { event->is_done(); }), "has not run"));
  EXPECT_TRUE(has(error_of([&] { event->synchronize(); }), "has not run"));
  graph->launch(*stream);
  EXPECT_TRUE(event->is_done());
  event->wait_on(*other);
}

TEST_F(StreamTest, StreamsOfOtherDevicesAreRefused) {
  const auto cpu = make_cpu_device();
  const auto foreign = cpu->make_stream();
  EXPECT_THROW(launch(add_kernel, 1, 1, 0, *foreign, nullptr, 0, 0), Error);
  EXPECT_THROW(emulator::run_on(*foreign, [] {}), Error);
}

__global__ void barrier_add_kernel(float* values, int rounds) {
  auto* shared = shared_memory<float>();
  for (int round = 0; round < rounds; ++round) {
    shared[threadIdx.x] = static_cast<float>(threadIdx.x);
    __syncthreads();
    values[threadIdx.x] += shared[(threadIdx.x + 1) % blockDim.x];
    __syncthreads();
  }
}

TEST_F(StreamTest, SeveralThreadsLaunchAtOnce) {
  std::vector<std::thread> threads;
  std::vector<std::vector<float>> results(4);
  for (auto& result : results)
    threads.emplace_back([&result] {
      const auto own = make_cuda_device(0);
      const auto order = own->make_stream();
      const Buffer memory(*own, 64 * 4);
      own->fill_zero(memory.data(), 64 * 4, *order);
      for (int i = 0; i < 20; ++i)
        launch(barrier_add_kernel, 1, 64, 256, *order, memory.as<float>(), 5);
      result.resize(64);
      own->copy(result.data(), memory.data(), 64 * 4, *order);
    });
  for (auto& thread : threads) thread.join();
  for (const auto& result : results)
    for (int at = 0; at < 64; ++at)
      EXPECT_EQ(result[at], static_cast<float>((at + 1) % 64 * 100));
}

}  // namespace
}  // namespace syncopate::test
