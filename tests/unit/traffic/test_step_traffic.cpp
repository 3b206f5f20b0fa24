#include <cstdio>

#include <gtest/gtest.h>

#include "emulator/traffic.h"
#include "gradient/bert_bench.h"
#include "gradient/deepfm_bench.h"
#include "gradient/model_bench.h"

namespace syncopate {
namespace {

using emulator::Traffic;
using emulator::TrafficMeter;

// Of a step's forward and backward pass after a first one, which makes plans.
template <typename Bench>
void measure(const char* name, Bench& bench) {
  const Batch batch = bench.batch();
  const ReplicaView view = bench.view();
  StepSettings settings;
  settings.loss_samples = 8;
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
  std::printf("%s\n%s", name, meter.table().c_str());
}

TEST(StepTraffic, Bert) {
  const std::vector<int64_t> lengths = {128, 128};
  const QuestionSpec spec{.vocabulary = 512, .max_length = 128};
  BertBench bench({.family = "bert",
                   .layers = 2,
                   .hidden = 256,
                   .heads = 4,
                   .positions = 128},
                  spec, Questions::made(lengths, {3, 5, 7, 9}, 512),
                  DType::kBf16);
  measure("bert", bench);
}
TEST(StepTraffic, Resnet50) {
  ModelBench bench({.depth = 50,
                    .stem = StemForm::kImagenet,
                    .stages = {1, 1, 1, 1},
                    .widths = {32, 64, 64, 64}},
                   {3, 64, 64, 16}, 8, DType::kBf16);
  measure("resnet", bench);
}
TEST(StepTraffic, Wrn) {
  ModelBench bench(
      {.family = "wrn", .depth = 10, .width = 2, .form = BlockForm::kPre},
      {3, 32, 32, 10}, 16, DType::kBf16);
  measure("wrn", bench);
}
TEST(StepTraffic, DeepFm) {
  const ClickSpec spec{.rows = {3000, 500, 40, 7}};
  DeepFmBench bench(spec, {.embedding = 8, .mlp = {64, 32}}, 1024,
                    DType::kBf16);
  measure("deepfm", bench);
}

}  // namespace
}  // namespace syncopate
