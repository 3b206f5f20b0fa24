// The device's calls, capture and replay, events, and when work runs.
#include <chrono>
#include <cstdlib>
#include <set>
#include <stdexcept>
#include <thread>

#include "unit/emulator/emulated.h"

namespace syncopate::test {
namespace {

// Even seeds run work when it is given, odd ones late.
constexpr uint64_t kSeeds = 6;

class StreamTest : public Emulated,
                   public ::testing::WithParamInterface<uint64_t> {
 protected:
  StreamTest() {
    stream.reset();
    device = emulator::make_emulated_device(0, GetParam());
    stream = device->make_stream();
  }
  bool runs_late() const { return GetParam() % 2 == 1; }
};
INSTANTIATE_TEST_SUITE_P(Seeds,
                         StreamTest,
                         ::testing::Range<uint64_t>(1, kSeeds + 1));

// The values of `outcome_of(seed)` over enough seeds for every order to occur.
template <typename Outcome>
std::set<float> outcomes(const Outcome& outcome_of) {
  std::set<float> found;
  for (uint64_t seed = 1; seed <= 60; ++seed) found.insert(outcome_of(seed));
  return found;
}

__global__ void add_kernel(float* values, int64_t elems, float amount) {
  const int64_t at = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (at < elems) values[at] += amount;
}

TEST_P(StreamTest, SaysWhatItIs) {
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

class DeviceMemoryTest : public Emulated {
 protected:
  ~DeviceMemoryTest() override { unsetenv("SYNCOPATE_EMULATED_MEMORY"); }
};

TEST_F(DeviceMemoryTest, IsOfTheEnvironment) {
  EXPECT_EQ(device->total_bytes(), int64_t{16} << 30);
  setenv("SYNCOPATE_EMULATED_MEMORY", "100000", 1);
  EXPECT_EQ(device->total_bytes(), 100000);
  const Buffer memory(*device, 60000);
  EXPECT_EQ(device->free_bytes(), 40000);
  EXPECT_THROW(Buffer(*device, 40001), OutOfMemory);
  setenv("SYNCOPATE_EMULATED_MEMORY", "1e6", 1);
  EXPECT_THROW(device->total_bytes(), Error);
}

TEST_P(StreamTest, CopiesEveryWay) {
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

TEST_P(StreamTest, ACaptureRunsNothingAndAGraphRunsItAll) {
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
  other->synchronize();
  EXPECT_EQ(values(memory), (std::vector<float>{0, 22, 23}));
  EXPECT_EQ(num_runs, 2);
}

TEST_P(StreamTest, AGraphMayBePartOfAnother) {
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

TEST_P(StreamTest, WhatACaptureForbids) {
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

TEST_P(StreamTest, ReleaseInACaptureEndsTheProcess) {
  EXPECT_EXIT(
      {
        const Buffer memory(*device, 4);
        stream->begin_capture();
      },
      ::testing::ExitedWithCode(70),
      "a stream of the device is being captured");
}

TEST_P(StreamTest, MemoryMustBeThereWhenAGraphRuns) {
  auto memory = array<float>(4);
  stream->begin_capture();
  device->fill_zero(memory.data(), 16, *stream);
  const auto graph = stream->end_capture();
  memory.memory = Buffer();
  EXPECT_TRUE(has(error_of([&] {
                    graph->launch(*stream);
                    stream->synchronize();
                  }),
                  "is no device memory"));
}

TEST_P(StreamTest, EventsAreDone) {
  const auto event = device->make_event();
  const auto other = device->make_stream();
  EXPECT_TRUE(event->is_done());
  event->wait_on(*stream);
  event->record(*stream);
  event->wait_on(*other);
  event->synchronize();
  EXPECT_TRUE(event->is_done());
}

TEST_P(StreamTest, EventsTellTheTimeBetweenThem) {
  const auto first = device->make_event(), second = device->make_event();
  const auto again = device->make_event();
  stream->begin_capture();
  again->record(*stream);
  const auto graph = stream->end_capture();
  first->record(*stream);
  first->synchronize();
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  second->record(*stream);
  second->synchronize();
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  graph->launch(*stream);
  again->synchronize();
  EXPECT_GE(second->seconds_since(*first), 0.004);
  EXPECT_GE(again->seconds_since(*second), 0.004);
}

TEST_P(StreamTest, AnEventOfACaptureHappensWhenItsGraphRuns) {
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
  event->synchronize();
  EXPECT_TRUE(event->is_done());
  event->wait_on(*other);
}

TEST_P(StreamTest, StreamsOfOtherDevicesAreRefused) {
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

TEST_P(StreamTest, SeveralThreadsLaunchAtOnce) {
  std::vector<std::thread> threads;
  std::vector<std::vector<float>> results(4);
  for (auto& result : results)
    threads.emplace_back([&result] {
      const auto own = emulator::make_emulated_device(0, GetParam());
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

TEST_P(StreamTest, WorkRunsAtOnceOrWhenItIsNeeded) {
  int num_runs = 0;
  const auto count = [&] { ++num_runs; };
  emulator::run_on(*stream, count);
  EXPECT_EQ(num_runs, runs_late() ? 0 : 1);
  stream->synchronize();
  EXPECT_EQ(num_runs, 1);
  emulator::run_on(*stream, count);
  device->synchronize();
  EXPECT_EQ(num_runs, 2);
  void* const memory = device->allocate(4);
  emulator::run_on(*stream, count);
  device->release(memory);
  EXPECT_EQ(num_runs, 3);
  void* const host = device->allocate_host(4);
  emulator::run_on(*stream, count);
  device->release_host(host);
  EXPECT_EQ(num_runs, 4);
  emulator::run_on(*stream, count);
  stream.reset();
  EXPECT_EQ(num_runs, 5);
}

// One stream adds, another copies what is there then.
float copied_by_another_stream(uint64_t seed, bool is_ordered) {
  const auto device = emulator::make_emulated_device(0, seed);
  const auto adds = device->make_stream(), copies = device->make_stream();
  const auto added = device->make_event();
  const Buffer memory(*device, 4);
  const HostBuffer out(*device, 4);
  device->fill_zero(memory.data(), 4, *adds);
  adds->synchronize();
  launch(add_kernel, 1, 1, 0, *adds, memory.as<float>(), 1, 10.0f);
  added->record(*adds);
  if (is_ordered) added->wait_on(*copies);
  device->copy(out.as<float>(), memory.data(), 4, *copies);
  copies->synchronize();
  return *out.as<float>();
}

TEST(StreamOrder, WhatNoEventOrdersComesInEveryOrder) {
  const auto found = [](bool is_ordered) {
    return outcomes([is_ordered](uint64_t seed) {
      return copied_by_another_stream(seed, is_ordered);
    });
  };
  EXPECT_EQ(found(false), (std::set<float>{0, 10}));
  EXPECT_EQ(found(true), (std::set<float>{10}));
}

TEST(StreamOrder, ALaterStreamMayRunFarAhead) {
  const auto furthest = [](bool is_ordered) {
    return outcomes([is_ordered](uint64_t seed) {
      const auto device = emulator::make_emulated_device(0, seed);
      const auto slow = device->make_stream(), fast = device->make_stream();
      const auto done = device->make_event();
      bool is_slow_done = false;
      int num_ahead = 0;
      emulator::run_on(*slow, [&] { is_slow_done = true; });
      done->record(*slow);
      if (is_ordered) done->wait_on(*fast);
      for (int i = 0; i < 50; ++i)
        emulator::run_on(*fast, [&] { num_ahead += !is_slow_done; });
      device->synchronize();
      return static_cast<float>(num_ahead);
    });
  };
  EXPECT_TRUE(furthest(false).contains(0));
  EXPECT_TRUE(furthest(false).contains(50));
  EXPECT_EQ(furthest(true), (std::set<float>{0}));
}

TEST(StreamOrder, StagingUsedAgainTooEarlyIsSeen) {
  const auto sent = [](bool waits) {
    return outcomes([waits](uint64_t seed) {
      const auto device = emulator::make_emulated_device(0, seed);
      const auto stream = device->make_stream();
      const auto copied = device->make_event();
      const Buffer memory(*device, 4);
      const HostBuffer staging(*device, 4);
      *staging.as<float>() = 1;
      device->copy(memory.data(), staging.as<float>(), 4, *stream);
      copied->record(*stream);
      if (waits) copied->synchronize();
      *staging.as<float>() = 2;
      float arrived = 0;
      device->copy(&arrived, memory.data(), 4, *stream);
      return arrived;
    });
  };
  EXPECT_EQ(sent(false), (std::set<float>{1, 2}));
  EXPECT_EQ(sent(true), (std::set<float>{1}));
}

TEST_P(StreamTest, PollingAnEventEnds) {
  const auto memory = array(std::vector<float>{0});
  const auto event = device->make_event();
  for (int i = 0; i < 300; ++i)
    launch(add_kernel, 1, 1, 0, *stream, memory.data(), 1, 1);
  event->record(*stream);
  int num_polls = 1;
  while (!event->is_done() && num_polls < 10000) ++num_polls;
  EXPECT_EQ(num_polls > 1, runs_late());
  EXPECT_EQ(values(memory)[0], 300.0f);
}

TEST_P(StreamTest, AWaitIsForTheRecordingBeforeIt) {
  const auto memory = array(std::vector<float>{0});
  HostBuffer out(*device, 4);
  const auto other = device->make_stream();
  const auto event = device->make_event();
  launch(add_kernel, 1, 1, 0, *stream, memory.data(), 1, 5);
  event->record(*stream);
  event->wait_on(*other);
  // Recorded after the wait, which would never end if it waited for this one.
  event->record(*other);
  device->copy(out.as<float>(), memory.data(), 4, *other);
  other->synchronize();
  EXPECT_EQ(*out.as<float>(), 5.0f);
  event->synchronize();
}

TEST_P(StreamTest, ACircleOfWaitsIsADeadlock) {
  if (!runs_late()) return;  // nothing is ever pending
  const auto event = device->make_event(), behind = device->make_event();
  emulator::run_on(*stream, [&] { event->synchronize(); });
  event->record(*stream);
  behind->record(*stream);
  EXPECT_TRUE(has(error_of([&] { behind->synchronize(); }), "deadlock"));
  emulator::run_on(*stream, [&] { stream->synchronize(); });
  EXPECT_TRUE(has(error_of([&] { device->synchronize(); }), "deadlock"));
  EXPECT_TRUE(event->is_done());  // the device is not stuck
  EXPECT_EQ(values(array(std::vector<float>{3})), (std::vector<float>{3}));
}

__global__ void lonely_barrier_kernel() {
  if (threadIdx.x == 0) __syncthreads();
}

TEST_P(StreamTest, AnErrorEndsTheCallThatRanTheWork) {
  const auto other = device->make_stream();
  const auto event = device->make_event();
  bool has_run = false;
  const std::string line = error_of([&] {
    launch(lonely_barrier_kernel, 1, 64, 0, *other);
    event->record(*other);
    event->wait_on(*stream);
    emulator::run_on(*stream, [&] { has_run = true; });
    stream->synchronize();
  });
  EXPECT_TRUE(has(line, "lonely_barrier_kernel"));
  EXPECT_FALSE(has_run) << "what was given before an error does not run";
  device->synchronize();
  EXPECT_TRUE(event->is_done());
  emulator::run_on(*stream, [&] { has_run = true; });
  stream->synchronize();
  EXPECT_TRUE(has_run);
}

TEST_P(StreamTest, AnErrorOfLateWorkIsReportedAtARelease) {
  if (!runs_late()) return;
  EXPECT_EXIT(
      {
        const Buffer memory(*device, 4);
        launch(lonely_barrier_kernel, 1, 64, 0, *stream);
      },
      ::testing::ExitedWithCode(70), "at release: .*lonely_barrier_kernel");
  // It does not hide another error.
  EXPECT_THROW(
      {
        const Buffer memory(*device, 4);
        launch(lonely_barrier_kernel, 1, 64, 0, *stream);
        throw std::runtime_error("first");
      },
      std::runtime_error);
}

TEST_P(StreamTest, OfAnotherDeviceAnEventIsWaitedForAtOnce) {
  const auto second = emulator::make_emulated_device(0, GetParam());
  const auto other = second->make_stream();
  const auto event = device->make_event();
  const auto memory = array(std::vector<float>{0});
  HostBuffer out(*second, 4);
  launch(add_kernel, 1, 1, 0, *stream, memory.data(), 1, 5);
  event->record(*stream);
  event->wait_on(*other);
  second->copy(out.as<float>(), memory.data(), 4, *other);
  other->synchronize();
  EXPECT_EQ(*out.as<float>(), 5.0f);
}

TEST_P(StreamTest, ACaptureWaitsForNothingOutsideAndTimesAreOfWhatIsDone) {
  const auto event = device->make_event(), never = device->make_event();
  event->record(*stream);
  stream->begin_capture();
  never->wait_on(*stream);
  EXPECT_TRUE(has(error_of([&] { event->wait_on(*stream); }), "outside"));
  stream->end_capture();
  EXPECT_TRUE(has(error_of([&] { event->seconds_since(*never); }), "not done"));
}

// A worker submits work while a second thread polls, fetches and sends back.
TEST_P(StreamTest, AThreadBesideTheWorker) {
  const auto memory = array(std::vector<float>(64));
  HostBuffer host(*device, 64 * 4);
  const auto pulls = device->make_stream(), pushes = device->make_stream();
  const auto ready = device->make_event(), pushed = device->make_event();
  const auto other = array(std::vector<float>(64));
  for (int round = 0; round < 20; ++round) {
    launch(add_kernel, 1, 64, 0, *stream, memory.data(), 64, 1);
    ready->record(*stream);
    std::thread beside([&] {
      const auto arrived = device->make_event();
      ready->wait_on(*pulls);
      device->copy(host.as<float>(), memory.data(), 64 * 4, *pulls);
      arrived->record(*pulls);
      while (!arrived->is_done()) std::this_thread::yield();
      for (int at = 0; at < 64; ++at) host.as<float>()[at] *= 2;
      device->copy(memory.data(), host.as<float>(), 64 * 4, *pushes);
      pushed->record(*pushes);
    });
    for (int i = 0; i < 10; ++i)
      launch(add_kernel, 1, 64, 0, *stream, other.data(), 64, 1);
    beside.join();
    pushed->wait_on(*stream);
  }
  // x -> 2 (x + 1), from 0.
  EXPECT_EQ(values(memory), std::vector<float>(64, 2097150));
  EXPECT_EQ(values(other), std::vector<float>(64, 200));
}

}  // namespace
}  // namespace syncopate::test
