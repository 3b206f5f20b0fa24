// How many kernels a training step launches and how much memory they read and
// write, derived here from the passes that a step needs: on a GPU most of a
// step is bound by that. Forward and backward in bf16, which read the copies of
// weights that an optimizer has written; and its update.
#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "emulator/traffic.h"
#include "gradient/bert_bench.h"
#include "gradient/deepfm_bench.h"
#include "gradient/model_bench.h"
#include "models/gradient_values.h"
#include "models/shadow_weights.h"
#include "ops/nonfinite.h"
#include "ops/optim_update.h"
#include "ops/reduce.h"
#include "optim/optimizer.h"
#include "sync/shared_sums.h"

namespace syncopate {
namespace {

using emulator::Traffic;
using emulator::TrafficMeter;

constexpr int64_t kHalf = 2, kSingle = 4;  // bytes of bf16 and of fp32

// "syncopate::cuda::add_kernel<float>" -> "add"
std::string stem_of(const std::string& name) {
  std::string stem = name.substr(0, name.find('<'));
  if (const size_t at = stem.rfind("::"); at != std::string::npos)
    stem.erase(0, at + 2);
  if (stem.ends_with("_kernel")) stem.resize(stem.size() - 7);
  return stem;
}

struct StepTraffic {
  std::map<std::string, Traffic> of;
  Traffic total;
  std::string table;
};

// Of a step after a first one, which makes plans and memory.
StepTraffic traffic_of(NetworkBench& bench) {
  const Batch batch = bench.batch();
  const ReplicaView view = bench.view();
  StepSettings settings;
  settings.loss_samples = static_cast<double>(batch.samples);
  settings.dropout_seed = 11;
  const auto step = [&] {
    bench.model()
        .forward_backward(bench.context(), view, batch, settings, {})
        .get();
    bench.context().stream().synchronize();
  };
  step();
  const TrafficMeter meter;
  step();
  StepTraffic step_traffic{{}, meter.total(), meter.table()};
  for (const auto& [name, part] : meter.by_name()) {
    Traffic& sum = step_traffic.of[stem_of(name)];
    sum.launches += part.launches;
    sum.bytes_read += part.bytes_read;
    sum.bytes_written += part.bytes_written;
  }
  return step_traffic;
}

// The kernels named have the launches and passes named; small vectors and
// pages used in part add 40 KiB a launch at most. All others together are
// `other_launches` and touch at most `other_bytes`.
void expect_traffic(const StepTraffic& step,
                    const std::map<std::string, Traffic>& expected,
                    int64_t other_launches,
                    int64_t other_bytes) {
  Traffic others;
  for (const auto& [name, part] : step.of) {
    if (expected.contains(name)) continue;
    others.launches += part.launches;
    others.bytes_read += part.bytes_read;
    others.bytes_written += part.bytes_written;
  }
  EXPECT_EQ(others.launches, other_launches);
  EXPECT_LE(others.bytes(), other_bytes);
  for (const auto& [name, wanted] : expected) {
    const auto found = step.of.find(name);
    const Traffic part = found == step.of.end() ? Traffic() : found->second;
    const int64_t slack = 40 * 1024 * wanted.launches;
    EXPECT_EQ(part.launches, wanted.launches) << name;
    EXPECT_GE(part.bytes_read, wanted.bytes_read) << name;
    EXPECT_LE(part.bytes_read, wanted.bytes_read + slack) << name;
    EXPECT_GE(part.bytes_written, wanted.bytes_written) << name;
    EXPECT_LE(part.bytes_written, wanted.bytes_written + slack) << name;
  }
  testing::Test::RecordProperty("launches",
                                std::to_string(step.total.launches));
  testing::Test::RecordProperty("bytes", std::to_string(step.total.bytes()));
  if (testing::Test::HasFailure()) std::fputs(step.table.c_str(), stdout);
}

// --- BERT --------------------------------------------------------------------

TEST(StepTraffic, Bert) {
  constexpr int64_t kLayers = 2, kH = 256, kT = 256, kHeads = 4;
  const QuestionSpec spec{.vocabulary = 512, .max_length = 128};
  BertBench bench({.family = "bert",
                   .layers = kLayers,
                   .hidden = kH,
                   .heads = kHeads,
                   .positions = 128},
                  spec, Questions::made({128, 128}, {3, 5, 7, 9}, 512),
                  DType::kBf16);
  constexpr int64_t u = kT * kH * kHalf;       // one (T, H)
  constexpr int64_t w = 12 * kH * kH * kHalf;  // a layer's matrices: 3, 1, 4, 4
  // Sums of LayerNorm for gamma, beta and a bias, of four rows each.
  constexpr int64_t kSums = kT / 4 * kH * kSingle;
  // A bit for each score of two sequences of 128 tokens.
  constexpr int64_t kKept = 2 * kHeads * 128 * 128 / 8;
  constexpr int64_t L = kLayers;
  const auto wide = [](int64_t launches, int64_t read, int64_t written) {
    return Traffic{launches, read, written};
  };
  expect_traffic(
      traffic_of(bench),
      {// y = x w^T four times: x 1, 1, 1, 4; y 3, 1, 4, 1. dx: dy 9, dx 7 and
       // two residual gradients. dw, added in fp32: dy 9, x 7.
       {"gemm", wide(12 * L, L * ((7 + 9 + 2 + 16) * u + 2 * w + 2 * w),
                     L * ((9 + 7) * u + 2 * w))},
       // q, k, v; out and the bits of dropout.
       {"attention_forward_mma", wide(L, L * 3 * u, L * (u + kKept))},
       // dout and out.
       {"attention_delta", wide(L, L * 2 * u, 0)},
       // q, k, v, dout, bits; parts of rows (dq, dk, dv), which share pages.
       {"attention_dkeys_mma", wide(L, L * (4 * u + kKept), L * 3 * u)},
       {"attention_dqueries_mma", wide(L, L * (4 * u + kKept), L * 3 * u)},
       // The bias of q, k and v; that of the scores.
       {"sum_columns", wide(L + 1, L * 3 * u, 0)},
       // Two a layer read x and the residual, and write z and y; that of the
       // embeddings has no residual.
       {"layernorm_forward",
        wide(2 * L + 1, L * 2 * 2 * u + u, L * 2 * 2 * u + 2 * u)},
       // dy, z; dx and the residual's gradient, but for the embeddings.
       {"layernorm_backward",
        wide(2 * L + 1, (2 * L + 1) * 2 * u,
             2 * L * (2 * u + 3 * kSums) + u + 2 * kSums)},
       {"layernorm_join", wide(2 * L + 1, 2 * L * 3 * kSums + 2 * kSums, 0)},
       // Once a layer: backward reads what forward kept.
       {"gelu_forward", wide(L, L * 4 * u, L * 4 * u)},
       // dy and x; dx. Its sums for the bias: four pieces of rows.
       {"gelu_backward_sums",
        wide(L, L * 8 * u, L * (4 * u + 4 * 4 * kH * kSingle))},
       // The network's input is dropped out, and its gradient.
       {"token_dropout", wide(2, 2 * u, 2 * u)}},
      // Sums of biases 2 L + 2, scores 3, to fp32 and back 2, loss 2, key of
      // dropout 1; embeddings: forward 1, backward of three tables 2 each,
      // and sorting, four passes of 3.
      2 * L + 2 + 3 + 2 + 2 + 1 + 1 + 3 * 2 + 4 * 3,
      // Embeddings of three tables in fp32, their gradients and scores.
      40 * u);
}

// --- residual networks -------------------------------------------------------

// Elements of a convolution's tensors. `packed_w`: of filters with channels of
// zeros, if there are any.
struct Conv {
  int64_t x, w, y, packed_w = w;
};
// A BatchNorm on x of this many elements: with a residual z, with two gradients
// of its result.
struct Norm {
  int64_t elems;
  bool has_z = false, has_sum = false;
};

// `convs`: the first has no gradient of its input.
std::map<std::string, Traffic> expected_of(const std::vector<Conv>& convs,
                                           const std::vector<Norm>& norms) {
  std::map<std::string, Traffic> all;
  const auto add = [&all](const char* name, int64_t read, int64_t written) {
    Traffic& sum = all[name];
    ++sum.launches;
    sum.bytes_read += read;
    sum.bytes_written += written;
  };
  for (const Conv& conv : convs) {
    const int64_t x = kHalf * conv.x, w = kHalf * conv.packed_w,
                  y = kHalf * conv.y;
    add("conv_forward", x + w, y);
    add("conv_backward_weights", x + y, w);
    add("accumulate_filters", w + kSingle * conv.w, kSingle * conv.w);
    if (&conv == &convs.front()) continue;
    add("conv_backward_data", y + w, x);
  }
  for (const Norm& norm : norms) {
    const int64_t x = kHalf * norm.elems, z = norm.has_z ? x : 0,
                  dy2 = norm.has_sum ? x : 0;
    add("batchnorm_statistics", x, 0);
    add("batchnorm_finish_statistics", 0, 0);
    add("batchnorm_apply", x + z, x + z / 16);
    // dy [and dy2], x, and bits of y where there was a residual, whose gradient
    // is written; then the next kernel reads that one.
    add("batchnorm_gradients", x + dy2 + x + z / 16, z);
    add("batchnorm_finish_gradients", 0, 0);
    add("batchnorm_input_gradient", x + (norm.has_z ? 0 : dy2) + x, x);
  }
  return all;
}

// WRN-10-2: at 32, 16 and 8 pixels a side 32, 64 and 128 channels.
TEST(StepTraffic, Wrn) {
  ModelBench bench(
      {.family = "wrn", .depth = 10, .width = 2, .form = BlockForm::kPre},
      {3, 32, 32, 10}, 16, DType::kBf16);
  constexpr int64_t P = 16 * 32 * 32, Q = P / 4, R = Q / 4;
  auto expected = expected_of({{8 * P, 16 * 3 * 9, 16 * P, 16 * 8 * 9},
                               {16 * P, 32 * 16 * 9, 32 * P},
                               {32 * P, 32 * 32 * 9, 32 * P},
                               {16 * P, 32 * 16, 32 * P},
                               {32 * P, 64 * 32 * 9, 64 * Q},
                               {64 * Q, 64 * 64 * 9, 64 * Q},
                               {32 * P, 64 * 32, 64 * Q},
                               {64 * Q, 128 * 64 * 9, 128 * R},
                               {128 * R, 128 * 128 * 9, 128 * R},
                               {64 * Q, 128 * 64, 128 * R}},
                              {{16 * P, false, true},
                               {32 * P},
                               {32 * P, false, true},
                               {64 * Q},
                               {64 * Q, false, true},
                               {128 * R},
                               {128 * R}});
  // The sum of a block, forward only: backward, BatchNorm adds.
  constexpr int64_t kSums = kHalf * (32 * P + 64 * Q + 128 * R);
  expected["add"] = {3, 2 * kSums, kSums};
  expected["pad_channels"] = {1, kSingle * 3 * P, kHalf * 8 * P};
  expect_traffic(traffic_of(bench), expected,
                 // Pool 2, product 3, bias 2, loss 2, key of dropout.
                 10, 3 * kHalf * 128 * R);
}

// A stem with a pool and three bottlenecks of ResNet-50's form: at 16 pixels a
// side with 32 inner channels, twice at 8 with 64.
TEST(StepTraffic, Resnet) {
  ModelBench bench({.depth = 50,
                    .stem = StemForm::kImagenet,
                    .block = ResNetBlock::kBottleneck,
                    .stages = {1, 2},
                    .widths = {32, 64}},
                   {3, 64, 64, 10}, 16, DType::kBf16);
  constexpr int64_t I = 16 * 64 * 64, S = I / 4, P = S / 4, Q = P / 4;
  auto expected = expected_of({{8 * I, 32 * 3 * 49, 32 * S, 32 * 8 * 49},
                               {32 * P, 32 * 32, 32 * P},
                               {32 * P, 32 * 32 * 9, 32 * P},
                               {32 * P, 128 * 32, 128 * P},
                               {32 * P, 128 * 32, 128 * P},
                               {128 * P, 64 * 128, 64 * P},
                               {64 * P, 64 * 64 * 9, 64 * Q},
                               {64 * Q, 256 * 64, 256 * Q},
                               {128 * P, 256 * 128, 256 * Q},
                               {256 * Q, 64 * 256, 64 * Q},
                               {64 * Q, 64 * 64 * 9, 64 * Q},
                               {64 * Q, 256 * 64, 256 * Q}},
                              {{32 * S},
                               {32 * P},
                               {32 * P},
                               {128 * P, true, true},
                               {128 * P},
                               {64 * P},
                               {64 * Q},
                               {256 * Q, true, true},
                               {256 * Q},
                               {64 * Q},
                               {64 * Q},
                               {256 * Q, true}});
  expected["pad_channels"] = {1, kSingle * 3 * I, kHalf * 8 * I};
  // Below the pool nothing adds two gradients.
  expected["add"] = {1, 2 * kHalf * 32 * P, kHalf * 32 * P};
  // The result and the place of its maximum.
  expected["max_pool"] = {1, kHalf * 32 * S, (kHalf + 1) * 32 * P};
  expected["max_pool_backward"] = {1, (kHalf + 1) * 32 * P, kHalf * 32 * S};
  expect_traffic(traffic_of(bench), expected, 10, 3 * kHalf * 256 * Q);
}

// --- DeepFM ------------------------------------------------------------------

TEST(StepTraffic, DeepFm) {
  constexpr int64_t N = 4096, kFields = 4, kE = 8, kWidth = kFields * kE;
  constexpr int64_t K = 128, M = 64;  // outputs of the hidden layers
  const ClickSpec spec{.rows = {3000, 500, 40, 7}};
  DeepFmBench bench(spec, {.embedding = kE, .mlp = {K, M}}, N, DType::kBf16);
  constexpr int64_t v = kHalf * N * kWidth, k = kHalf * N * K,
                    m = kHalf * N * M;
  const auto wide = [](int64_t launches, int64_t read, int64_t written) {
    return Traffic{launches, read, written};
  };
  expect_traffic(
      traffic_of(bench),
      {// Two layers; matrices are a few KiB. y = x w, dx = dy w, dw = dy x.
       {"gemm", wide(6, (v + k) + (m + k) + (k + v) + (m + k), k + m + k + v)},
       // x; x and y; dy and x; dy, x and dx.
       {"batchnorm_statistics", wide(2, k + m, 0)},
       {"batchnorm_apply", wide(2, k + m, k + m)},
       {"batchnorm_gradients", wide(2, 2 * (k + m), 0)},
       {"batchnorm_input_gradient", wide(2, 2 * (k + m), k + m)},
       // In place, forward and backward.
       {"dropout", wide(4, 2 * (k + m), 2 * (k + m))},
       // The two hidden layers' biases and the last one's.
       {"sum_columns", wide(3, k + m, 0)},
       // To bf16 and back: embeddings and scores.
       {"convert", wide(4, 2 * v + v, v + 2 * v)}},
      // Of the dense part: statistics 4, sums of biases 4, the last layer 3,
      // the scores' sum 1, loss 2, key of dropout
      // 1; of the interaction: forward 1, backward 4, sorting 6.
      4 + 4 + 3 + 1 + 2 + 1 + 1 + 4 + 6,
      // Embeddings and their gradients in fp32, by sample and by row.
      32 * v);
}

// The bytes of a step of DeepFM with lazy Adam and clipping, as a worker takes
// it: from clearing the gradient to the update.
int64_t bytes_of_lazy_step(int64_t rows) {
  constexpr int64_t N = 64;
  const ClickSpec spec{.rows = {rows, 40}};
  DeepFmBench bench(spec, {.embedding = 10, .mlp = {16}}, N);
  Context& context = bench.context();
  Stream& stream = context.stream();
  GradientValues gradients(context, bench.model());
  const auto optimizer =
      make_optimizer(context, {.kind = "adam", .embedding = RowUpdates::kLazy},
                     bench.model().parameters(), 0, gradients.size());
  const DeviceVector<float> x(context.device(), stream, gradients.size()),
      factor(context.device(), stream, 1);
  DeviceVector<int64_t> found(context.device(), stream, 1);
  found.assign(std::vector<int64_t>{-1});
  const Batch batch = bench.batch();
  ReplicaView view = bench.view();
  view.gradients = gradients.marked();
  view.touched = gradients.marks();
  const auto step = [&] {
    gradients.clear(context);
    bench.model()
        .forward_backward(context, view, batch, {.loss_samples = N}, {})
        .get();
    withhold_nonfinite(context, gradients.marked(), found.data(), 0,
                       gradients.touched());
    clip_factor(context, factor.data(), gradients, 1, 1, gradients.touched());
    optimizer->apply(context, 0, x, gradients,
                     {.rate = 0.1,
                      .momentum = 0,
                      .clip_factor = factor.data(),
                      .touched = gradients.touched()});
    stream.synchronize();
  };
  step();
  const TrafficMeter meter;
  step();
  const int64_t bytes = meter.total().bytes();
  testing::Test::RecordProperty(std::to_string(rows), std::to_string(bytes));
  return bytes;
}

// What grows are the marks, a byte for 512, which four passes read, and a
// chunk's part of the norm, 8 bytes for 32 KiB, written and read. (A pass over
// the table would be 44 bytes a row.)
TEST(StepTraffic, DeepFmWithLazyAdamDoesNotGrowWithItsTable) {
  constexpr int64_t kRows = 100'000, kRow = 11 * kSingle;
  const int64_t small = bytes_of_lazy_step(kRows);
  const int64_t large = bytes_of_lazy_step(5 * kRows);
  EXPECT_LE(large - small, 4 * kRows * kRow / 100);
}

// --- the optimizer -----------------------------------------------------------

// Reads x, m and the gradient, writes x, m and the copies. Then there is
// nothing to renew, until something else has written x.
TEST(StepTraffic, AnUpdateWritesTheCopies) {
  constexpr int64_t kMatrix = 1024 * 512, kFilters = 64 * 64 * 9;
  constexpr int64_t n = kMatrix + kFilters, kSlack = 40 * 1024;
  ShadowTable table;
  table.add(0, {1024, 512}, 512);
  table.add(kMatrix, {64, 64, 3, 3}, 64);
  test::TestContext on(1);
  ParameterValues x(on.context, n, &table);
  const DeviceVector<float> m(on.device, *on.stream, n),
      gradient(on.device, *on.stream, n);
  const auto expect = [&](const auto& act, int64_t launches, int64_t read,
                          int64_t written) {
    on.stream->synchronize();
    const TrafficMeter meter;
    act();
    on.stream->synchronize();
    const Traffic total = meter.total();
    EXPECT_EQ(total.launches, launches);
    EXPECT_GE(total.bytes_read, read);
    EXPECT_LE(total.bytes_read, read + kSlack * launches);
    EXPECT_GE(total.bytes_written, written);
    EXPECT_LE(total.bytes_written, written + kSlack * launches);
  };
  const auto renew = [&] { x.shadow().renew(on.context, x); };
  expect(
      [&] {
        const ParameterValues::Update update = x.update();
        sgd_update(on.context, update.values, m, gradient,
                   {.rate = 0.1f,
                    .momentum = 0.9f,
                    .weight_decay = 0,
                    .copies = update.copies});
      },
      1, 3 * kSingle * n, (2 * kSingle + kHalf) * n);
  expect(renew, 0, 0, 0);
  x.write();
  expect(renew, 1, kSingle * n, kHalf * n);
  expect(renew, 0, 0, 0);
}

// --- workers that share a GPU -----------------------------------------------

// A bucket's sum is one launch, which reads and writes each worker's values
// once.
TEST(StepTraffic, SumsOfWorkersThatShareAGpuAreOnePass) {
  constexpr int64_t n = 512 * 1024;
  for (const int workers : {2, 3, 8})
    for (const auto algorithm :
         {CollectiveAlgorithm::kRing, CollectiveAlgorithm::kParameterServer,
          CollectiveAlgorithm::kNative})
      for (const Wire wire : {Wire::kF32, Wire::kBf16}) {
        test::TestContext on(1);
        SharedSums sums;
        std::vector<DeviceVector<float>> values;
        for (int rank = 0; rank < workers; ++rank)
          values.emplace_back(on.device, *on.stream, n);
        Group group{Ranks::all(workers)};
        on.stream->synchronize();
        ASSERT_TRUE(SharedSums::forms(algorithm, workers));
        const TrafficMeter meter;
        for (group.position = 0; group.position < workers; ++group.position)
          sums.enter(on.context, group, 1, values[group.position], algorithm,
                     wire);
        on.stream->synchronize();
        const Traffic total = meter.total();
        EXPECT_EQ(total.launches, 1);
        EXPECT_EQ(total.bytes_read, workers * n * kSingle);
        EXPECT_EQ(total.bytes_written, workers * n * kSingle);
      }
}

}  // namespace
}  // namespace syncopate
