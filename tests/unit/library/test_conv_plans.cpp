// cuDNN makes plans for a device that is only described, so that what it would
// choose on a GPU can be tested where there is none.
#include "library/conv_plan.h"

#include <algorithm>
#include <set>
#include <tuple>

#include <gtest/gtest.h>

namespace syncopate::cuda {
namespace {

struct Gpu {
  const char* name;
  int architecture, processors, shared_bytes;
};
constexpr Gpu kH200 = {"H200", 900, 132, 232448};
constexpr Gpu kA100 = {"A100", 800, 108, 166912};

Descriptor describe(const Gpu& gpu) {
  const std::string json = fmt::format(
      R"({{"cudaDeviceId": 0, "deviceName": "{}", "deviceVer": {},
      "driverVer": 13000, "multiProcessorCount": {},
      "maxSharedMemoryPerBlockOptin": {}, "maxSharedMemoryPerBlock": 49152,
      "reservedSharedMemoryPerBlock": 1024, "maxGridSize": [2147483647, 65535,
      65535], "maxBlockSize": [1024, 1024, 64], "regsPerBlock": 65536,
      "maxRegistersPerSM": 65536, "warpSize": 32, "maxCtasPerSM": 32,
      "maxThreadsPerBlock": 1024, "maxThreadsPerSM": 2048,
      "smClockRateKHz": 1500000, "memClockRateKHz": 2500000,
      "l2CacheSize": 41943040, "totalGlobalMem": 80000000000,
      "pciDeviceId": 0, "isTccDriver": 0, "supportCoopLaunch": 1}})",
      gpu.name, gpu.architecture, gpu.processors, gpu.shared_bytes);
  Descriptor device(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
  device.set(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
             std::ssize(json) + 1, json.c_str());
  device.finalize();
  return device;
}

// One stage of a residual network: its first block changes channels, and size
// by `stride`; the others keep both.
void add_stage(std::vector<ConvSize>& sizes,
               int64_t N,
               int64_t C,
               int64_t H,
               int64_t K,
               int64_t stride) {
  const int64_t P = H / stride;
  sizes.push_back({N, C, H, H, K, 3, 3, stride, 1});
  sizes.push_back({N, K, P, P, K, 3, 3, 1, 1});
  sizes.push_back({N, C, H, H, K, 1, 1, stride, 0});
}

void add_bottleneck(std::vector<ConvSize>& sizes,
                    int64_t N,
                    int64_t C,
                    int64_t H,
                    int64_t inner,
                    int64_t K,
                    int64_t stride) {
  const int64_t P = H / stride;
  sizes.push_back({N, C, H, H, inner, 1, 1, 1, 0});
  sizes.push_back({N, inner, H, H, inner, 3, 3, stride, 1});
  sizes.push_back({N, inner, P, P, K, 1, 1, 1, 0});
  sizes.push_back({N, C, H, H, K, 1, 1, stride, 0});
  sizes.push_back({N, K, P, P, inner, 1, 1, 1, 0});
  sizes.push_back({N, inner, P, P, inner, 3, 3, 1, 1});
}

// The sizes in ResNet-20, WRN-26-10, ResNet-50 and WRN-50-2 with batches of N,
// and some odd ones.
std::vector<ConvSize> all_sizes(int64_t N) {
  std::vector<ConvSize> sizes;
  for (const int64_t width : {1, 10}) {
    sizes.push_back({N, 3, 32, 32, 16, 3, 3, 1, 1});
    add_stage(sizes, N, 16, 32, 16 * width, 1);
    add_stage(sizes, N, 16 * width, 32, 32 * width, 2);
    add_stage(sizes, N, 32 * width, 16, 64 * width, 2);
  }
  for (const int64_t width : {1, 2}) {
    sizes.push_back({N, 3, 224, 224, 64, 7, 7, 2, 3});
    add_bottleneck(sizes, N, 64, 56, 64 * width, 256, 1);
    add_bottleneck(sizes, N, 256, 56, 128 * width, 512, 2);
    add_bottleneck(sizes, N, 512, 28, 256 * width, 1024, 2);
    add_bottleneck(sizes, N, 1024, 14, 512 * width, 2048, 2);
  }
  sizes.push_back({1, 1, 5, 5, 16, 3, 3, 1, 1});
  sizes.push_back({3, 17, 7, 5, 5, 3, 3, 1, 1});
  sizes.push_back({1, 3, 12, 12, 17, 5, 5, 3, 2});
  sizes.push_back({2, 5, 6, 6, 3, 2, 2, 2, 0});
  sizes.push_back({2, 16, 7, 1, 32, 7, 7, 2, 3});
  return sizes;
}

bool has(const ConvPlan& plan, cudnnBackendNumericalNote_t note) {
  const auto notes = plan.notes();
  return std::find(notes.begin(), notes.end(), note) != notes.end();
}

class ConvPlanTest : public testing::TestWithParam<std::tuple<Gpu, int64_t>> {
 protected:
  const Descriptor device = describe(std::get<Gpu>(GetParam()));

  // body(plan) for every pass and size.
  template <typename Body>
  void for_plans(DType dtype, Determinism determinism, const Body& body) {
    for (const ConvSize& s : all_sizes(std::get<int64_t>(GetParam())))
      for (const ConvPass pass : {ConvPass::kForward, ConvPass::kBackwardData,
                                  ConvPass::kBackwardWeights}) {
        SCOPED_TRACE(fmt::format("{} n{}c{}h{}w{}k{}r{}stride{}", name_of(pass),
                                 s.N, s.C, s.H, s.W, s.K, s.R, s.stride));
        body(ConvPlan({nullptr, &device}, {pass, s, dtype, determinism}));
      }
  }
};

// In fp32 some plans copy x and y into another layout: their workspace grows
// with the batch.
TEST_P(ConvPlanTest, EverySizeHasADeterministicOne) {
  const int64_t most_bytes = std::get<int64_t>(GetParam()) << 23;
  for (const DType dtype : {DType::kF32, DType::kBf16})
    for_plans(dtype, Determinism::kRequired, [&](const ConvPlan& plan) {
      EXPECT_FALSE(has(plan, CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC));
      EXPECT_FALSE(has(plan, CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION));
      EXPECT_LT(plan.workspace_bytes(), most_bytes);
    });
}

TEST_P(ConvPlanTest, Fp32StaysFp32) {
  for_plans(DType::kF32, Determinism::kOff, [](const ConvPlan& plan) {
    EXPECT_FALSE(has(plan, CUDNN_NUMERICAL_NOTE_TENSOR_CORE));
    EXPECT_FALSE(has(plan, CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS));
  });
}

TEST_P(ConvPlanTest, Bf16RunsOnTensorCores) {
  int plans = 0, on_tensor_cores = 0;
  for_plans(DType::kBf16, Determinism::kRequired, [&](const ConvPlan& plan) {
    ++plans;
    if (has(plan, CUDNN_NUMERICAL_NOTE_TENSOR_CORE)) ++on_tensor_cores;
  });
  // All but first layers of three channels and the odd ones.
  EXPECT_GT(on_tensor_cores, plans * 9 / 10);
}

// Images with channels of zeros up to eight: what three channels do not get.
TEST_P(ConvPlanTest, FirstLayersRunOnTensorCores) {
  const int64_t N = std::get<int64_t>(GetParam());
  for (const ConvSize& s : {ConvSize{N, 8, 32, 32, 16, 3, 3, 1, 1},
                            ConvSize{N, 8, 224, 224, 64, 7, 7, 2, 3}})
    for (const ConvPass pass :
         {ConvPass::kForward, ConvPass::kBackwardWeights}) {
      SCOPED_TRACE(fmt::format("{} of {}", name_of(pass), s.H));
      const ConvPlan plan({nullptr, &device},
                          {pass, s, DType::kBf16, Determinism::kRequired});
      EXPECT_TRUE(has(plan, CUDNN_NUMERICAL_NOTE_TENSOR_CORE));
      EXPECT_FALSE(has(plan, CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC));
    }
}

// What is measured, and found again by its name.
TEST_P(ConvPlanTest, ListedPlansDifferInTheirNames) {
  const ConvSize size{
      std::get<int64_t>(GetParam()), 64, 56, 56, 64, 3, 3, 1, 1};
  for (const ConvPass pass : {ConvPass::kForward, ConvPass::kBackwardData,
                              ConvPass::kBackwardWeights}) {
    SCOPED_TRACE(name_of(pass));
    const ConvProblem problem{pass, size, DType::kBf16, Determinism::kRequired};
    const PlanTarget target{nullptr, &device};
    const auto plans = ConvPlan::list(target, problem, 16);
    EXPECT_GE(plans.size(), 2u);
    EXPECT_LE(plans.size(), 16u);
    std::set<std::string> names;
    for (const ConvPlan& plan : plans) {
      names.insert(plan.name());
      EXPECT_FALSE(has(plan, CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC));
    }
    EXPECT_EQ(names.size(), plans.size());
    EXPECT_EQ(plans.front().name(), ConvPlan(target, problem).name());
  }
}

// The heuristics of mode A know one or two deterministic engines for these,
// slow ones.
TEST_P(ConvPlanTest, FilterGradientsInFp32HaveAChoice) {
  const int64_t N = std::get<int64_t>(GetParam());
  for (const ConvSize& size : {ConvSize{N, 16, 32, 32, 16, 3, 3, 1, 1},
                               ConvSize{N, 64, 8, 8, 64, 3, 3, 1, 1}}) {
    const ConvProblem problem{ConvPass::kBackwardWeights, size, DType::kF32,
                              Determinism::kRequired};
    EXPECT_GE(ConvPlan::list({nullptr, &device}, problem, 64).size(), 3u);
  }
}

INSTANTIATE_TEST_SUITE_P(GpusAndBatches,
                         ConvPlanTest,
                         testing::Combine(testing::Values(kH200, kA100),
                                          testing::Values(128, 256, 512)),
                         [](const auto& info) {
                           return fmt::format("{}Batch{}",
                                              std::get<Gpu>(info.param).name,
                                              std::get<int64_t>(info.param));
                         });

}  // namespace
}  // namespace syncopate::cuda
