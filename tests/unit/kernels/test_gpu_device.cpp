// The contract of device.h for cuda devices, emulated and real.
#include <gtest/gtest.h>

#include <numeric>

#include "cuda/filters.h"
#include "support/test_device.h"

namespace syncopate {
namespace {

using namespace test;

std::vector<float> counted(int64_t count) {
  std::vector<float> values(static_cast<size_t>(count));
  std::iota(values.begin(), values.end(), 1.0f);
  return values;
}

constexpr cuda::FilterSize kOne{1, 256, 1, 1};  // packing it copies

TEST(GpuDevice, PageableMemoryIsReadBeforeCopyReturns) {
  TestContext test;
  Buffer memory(test.device, 4096);
  std::vector<float> values = counted(1024);
  test.device.copy(memory.data(), values.data(), 4096, *test.stream);
  std::fill(values.begin(), values.end(), 0.0f);
  test.device.copy(values.data(), memory.data(), 4096, *test.stream);
  EXPECT_EQ(values, counted(1024));
}

TEST(GpuDevice, PageLockedMemoryGoesThere) {
  TestContext test;
  HostBuffer host(test.device, 4096);
  Buffer memory(test.device, 4096);
  const std::vector<float> values = counted(1024);
  std::copy(values.begin(), values.end(), host.as<float>());
  test.device.copy(memory.data(), host.as<float>(), 4096, *test.stream);
  test.stream->synchronize();
  std::fill_n(host.as<float>(), 1024, 0.0f);
  test.device.copy(host.as<float>(), memory.data(), 4096, *test.stream);
  test.stream->synchronize();
  EXPECT_TRUE(std::equal(values.begin(), values.end(), host.as<float>()));
}

TEST(GpuDevice, FillsWithZero) {
  TestContext test;
  const DeviceValues<float> values(counted(1024));
  test.device.fill_zero(values.data() + 1, 1000, *test.stream);
  const std::vector<float> result = values.get(test.context);
  EXPECT_EQ(result.front(), 1.0f);
  EXPECT_EQ(std::count(result.begin(), result.end(), 0.0f), 250);
  EXPECT_EQ(result[251], 252.0f);
}

TEST(GpuDevice, MemoryHasAnAddressEvenOfNothing) {
  const Buffer nothing(test_device(), 0), some(test_device(), 1);
  EXPECT_NE(nothing.data(), nullptr);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(some.data()) % 256, 0u);
  EXPECT_GT(test_device().free_bytes(), 0);
  EXPECT_FALSE(test_device().identity().empty());
}

TEST(GpuDevice, EventsOrderStreams) {
  TestContext first, second;
  const std::unique_ptr<Event> event = test_device().make_event();
  EXPECT_TRUE(event->is_done());  // never recorded
  const DeviceValues<float> from(counted(256));
  const DeviceValues<float> middle(std::vector<float>(256));
  const DeviceValues<float> to(std::vector<float>(256));
  cuda::pack_filters(*first.stream, middle, from, kOne, DType::kF32);
  event->record(*first.stream);
  event->wait_on(*second.stream);
  cuda::pack_filters(*second.stream, to, middle, kOne, DType::kF32);
  EXPECT_EQ(to.get(second.context), counted(256));
  event->synchronize();
  EXPECT_TRUE(event->is_done());
}

TEST(GpuDevice, RecordedWorkRunsAtEachLaunchOnly) {
  TestContext test;
  const DeviceValues<float> added(counted(256));
  const DeviceValues<float> sum(std::vector<float>(256));
  test.stream->begin_capture();
  cuda::accumulate_filters(*test.stream, sum, added, kOne, DType::kF32);
  const std::unique_ptr<Graph> graph = test.stream->end_capture();
  EXPECT_EQ(sum.get(test.context), std::vector<float>(256));
  graph->launch(*test.stream);
  graph->launch(*test.stream);
  std::vector<float> twice = counted(256);
  for (float& value : twice) value *= 2;
  EXPECT_EQ(sum.get(test.context), twice);
}

TEST(GpuDevice, TooMuchMemoryIsOneLineWithBothFigures) {
  try {
    test_device().allocate(int64_t{1} << 50);
    FAIL() << "a petabyte was given";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kInternal);
    const std::string line = error.what();
    EXPECT_NE(line.find("out of memory: 1125.90 TB"), std::string::npos)
        << line;
  }
  // The failure is not reported again by what comes after it.
  const DeviceValues<float> values(counted(4));
  TestContext test;
  EXPECT_EQ(values.get(test.context), counted(4));
}

}  // namespace
}  // namespace syncopate
