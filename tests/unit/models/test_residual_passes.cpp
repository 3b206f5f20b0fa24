// How often the residual networks' own ops pass over activations in a step: on
// a GPU they are bound by memory, so that one pass more is a slower step.
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "gradient/model_bench.h"
#include "ops/op_listener.h"

namespace syncopate {
namespace {

const ImageSpec kSpec{3, 16, 16, 10};
constexpr int64_t kBatch = 4;

// For each op of a step, the number of activations that each call declares to
// read or write, in the order of calls.
struct Passes : OpListener {
  std::map<std::string, std::vector<int64_t>> of;

  void op_begins(const OpCall& call) override {
    int64_t bytes = 4;  // of the largest operand, "4x16x16x16"
    for (size_t at = 0; at < call.shape.size();) {
      size_t length = 0;
      bytes *= std::stoll(call.shape.substr(at), &length);
      at += length + 1;
    }
    of[call.op].push_back(call.bytes / bytes);
  }
  void op_ends(std::string_view) override {}
};

// Listens to the ops on activations, whose shapes are lists of dimensions.
struct ActivationPasses : Passes {
  void op_begins(const OpCall& call) override {
    const std::string_view op = call.op;
    if (op.starts_with("batchnorm") || op == "add") Passes::op_begins(call);
  }
};

ActivationPasses passes_of(const ModelOptions& options) {
  ModelBench bench(options, kSpec, kBatch);
  ActivationPasses passes;
  bench.on().context.listen(&passes);
  bench.step();
  bench.on().context.listen(nullptr);
  return passes;
}

using Counts = std::vector<int64_t>;

// ResNet-8: a stem, then three blocks of two BatchNorms; the last two blocks
// project their shortcut, which has a BatchNorm too.
TEST(ResidualPasses, PostActivation) {
  ActivationPasses passes = passes_of({.depth = 8});
  // x and y; at the end of a block also z.
  EXPECT_EQ(passes.of["batchnorm_forward"],
            (Counts{2, 2, 3, 2, 2, 3, 2, 2, 3}));
  // dy, x and dx; at the end of a block also y and dz, and wherever a block
  // reads the output, dy2: nothing but BatchNorm adds two gradients.
  EXPECT_EQ(passes.of["batchnorm_backward"],
            (Counts{5, 3, 3, 6, 3, 3, 6, 3, 4}));
  EXPECT_EQ(passes.of["add"], Counts());
}

// WRN-10-1: three blocks of two BatchNorms and one after the last block; the
// last two blocks project their shortcut.
TEST(ResidualPasses, PreActivation) {
  ActivationPasses passes =
      passes_of({.family = "wrn", .depth = 10, .form = BlockForm::kPre});
  EXPECT_EQ(passes.of["batchnorm_forward"], Counts(7, 2));
  // dy2 comes from the projection.
  EXPECT_EQ(passes.of["batchnorm_backward"], (Counts{3, 3, 4, 3, 4, 3, 3}));
  // One per block forward, and one backward where the shortcut is x itself.
  EXPECT_EQ(passes.of["add"], Counts(4, 3));
}

}  // namespace
}  // namespace syncopate
