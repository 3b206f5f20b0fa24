#include "train/evaluator.h"

#include <gtest/gtest.h>

#include <fstream>
#include <limits>

#include "run/session.h"
#include "support/scratch_folder.h"

namespace syncopate {
namespace {

constexpr const char* kInput = R"(
[run]
steps = 1
threads = 1
device = cpu
[model]
family = resnet
depth = 8
[data]
kind = synthetic_images
samples = 32
test_samples = 4
classes = 2
height = 8
width = 8
batch = 4
[eval]
batch = 4
batchnorm = recomputed
recompute_batches = 3
)";

TEST(EvaluatedModel, RecomputedStatisticsAreThoseOfTheBatchesAlone) {
  ScratchFolder folder;
  const std::string input = folder / "in.ini";
  std::ofstream(input) << kInput;
  char name[] = "test";
  char* argv[] = {name};
  Session session(1, argv);
  const auto engine = build_engine(session, input, {});
  std::vector<float> parameters(engine->model->parameters().num_elems());
  std::vector<float> buffers(engine->model->buffers().num_elems());
  engine->model->initialise(parameters, buffers, 1);
  const auto recomputed_from = [&](float before) {
    EvaluatedModel model(*engine);
    model.parameters.assign(parameters);
    model.buffers.assign(std::vector<float>(buffers.size(), before));
    model.prepare(*engine);
    const std::span<float> after = model.buffers.span();  // of the CPU
    return std::vector<float>(after.begin(), after.end());
  };
  const std::vector<float> expected = recomputed_from(0);
  EXPECT_NE(expected, std::vector<float>(buffers.size()));
  for (const float before :
       {1.0f, 1e30f, std::numeric_limits<float>::infinity(),
        std::numeric_limits<float>::quiet_NaN()})
    EXPECT_EQ(recomputed_from(before), expected) << before;
}

}  // namespace
}  // namespace syncopate
