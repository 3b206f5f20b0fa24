// The parts of a BERT and the whole of it against values recorded from PyTorch
// in double precision (tests/reference/make_bert_fixtures.py).
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <map>

#include <gtest/gtest.h>

#include "data/safetensors.h"
#include "gradient/bert_bench.h"
#include "support/fixtures.h"

namespace syncopate {
namespace {

// fp32 against double, by the norm of a tensor; 4e-7 is seen.
constexpr double kTolerance = 1e-5;

constexpr int64_t kHidden = 32, kHeads = 4, kIntermediate = 48;
const QuestionSpec kSpec{50, 18};
const ModelOptions kOptions{.family = "bert",
                            .layers = 2,
                            .hidden = kHidden,
                            .heads = kHeads,
                            .intermediate = kIntermediate,
                            .positions = 20,
                            .hidden_dropout = 0,
                            .attention_dropout = 0};

Questions questions() {
  return Questions::made({9, 17, 1, 6}, {3, 5, 16, 16, 0, 0, 0, 0},
                         kSpec.vocabulary);
}

std::vector<float> made(uint64_t tensor, int64_t elems) {
  std::vector<float> values(elems);
  for (int64_t i = 0; i < elems; ++i)
    values[i] = static_cast<float>(2 * made_uniform(tensor, i));
  return values;
}

// Every parameter of the network by its name, as the script fills them.
std::map<std::string, std::vector<float>> made_parameters() {
  const Bert bert(kOptions, kSpec, DType::kF32);
  std::map<std::string, std::vector<float>> all;
  std::map<std::string, Shape> shapes;
  for (const ParameterEntry& entry : bert.parameters().entries())
    shapes[entry.name] = entry.shape;
  uint64_t number = 0;
  for (const auto& [name, shape] : shapes) {
    double scale = 0.5;
    if (name.ends_with("_embeddings.weight"))
      scale = 2;
    else if (shape.rank() == 2)
      scale = 3 / std::sqrt(double(shape[1]));
    const double shift = name.ends_with("LayerNorm.weight") ? 1 : 0;
    ++number;
    for (int64_t i = 0; i < shape.elems(); ++i)
      all[name].push_back(
          static_cast<float>(shift + scale * made_uniform(number, i)));
  }
  return all;
}

std::vector<float> parameters_for(const ParameterTable& table) {
  const auto all = made_parameters();
  std::vector<float> values(table.num_elems());
  for (const ParameterEntry& entry : table.entries())
    std::ranges::copy(all.at(entry.name), values.begin() + entry.offset);
  return values;
}

std::vector<float> recorded(const std::string& name) {
  static const SafeTensors fixtures(fixture_path("bert.safetensors"));
  std::vector<float> values(fixtures.tensor(name).elems);
  fixtures.read(name, values);
  return values;
}

// `floor`: the norm of gradients that vanish by nature counts as this.
void expect_recorded(std::span<const float> got,
                     const std::string& name,
                     double floor = 0) {
  const std::vector<float> want = recorded(name);
  ASSERT_EQ(got.size(), want.size()) << name;
  double error = 0, square = 0, largest = floor / std::sqrt(want.size());
  for (size_t i = 0; i < want.size(); ++i) {
    error += std::pow(double{got[i]} - want[i], 2);
    square += std::pow(double{want[i]}, 2);
    largest = std::max(largest, double{std::abs(want[i])});
  }
  EXPECT_LT(std::sqrt(error), kTolerance * std::max(std::sqrt(square), floor))
      << name << ", norm " << std::sqrt(square);
  for (size_t i = 0; i < want.size(); ++i)
    ASSERT_NEAR(got[i], want[i], kTolerance * largest) << name << " " << i;
}

// A part alone, with a given gradient of its result.
class PartBench {
 public:
  using Forward = std::function<Slot(Walk&, const Slot& x, const Batch&)>;
  // dx, or nothing. Gives back dy and what forward took.
  using Backward =
      std::function<Slot(Walk&, const Slot& dy, const Slot& x, const Batch&)>;

  Registrar registrar() { return {table_, buffers_}; }

  void expect_as_recorded(const std::string& part,
                          const Forward& forward,
                          const Backward& backward) {
    const DeviceQuestions questions_batch(on_, questions());
    const Batch& batch = questions_batch.batch();
    const int64_t T = batch.tokens.shape[0];
    WalkPlan plan{DType::kF32, Layout::kRowMajor, T, {}};
    Arena arena;
    const auto walk_through = [&](Walk& walk) {
      const Slot x = walk.take(DType::kF32, {T, kHidden});
      if (walk.is_running()) put(walk.out(x), made(1001, x.shape.elems()));
      const Slot y = forward(walk, x, batch);
      if (walk.is_running()) expect_recorded(get(walk.in(y)), part + ".y");
      const Slot dy = walk.take(DType::kF32, y.shape);
      if (walk.is_running()) put(walk.out(dy), made(1002, dy.shape.elems()));
      const Slot dx = backward(walk, dy, x, batch);
      if (walk.is_running() && dx.offset_bytes >= 0)
        expect_recorded(get(walk.in(dx)), part + ".dx");
    };
    Walk planning(arena, plan, Pass::kTrain);
    walk_through(planning);
    arena.commit(on_.device);
    DeviceVector<float> parameters(on_.device, *on_.stream, table_.num_elems());
    DeviceVector<float> gradients(on_.device, *on_.stream, table_.num_elems());
    parameters.assign(parameters_for(table_));
    const WalkRun run{.context = on_.context,
                      .parameters = parameters,
                      .gradients = gradients,
                      .buffers = {},
                      .images = {},
                      .sequences = sequences_of(batch)};
    Walk walk(arena, plan, Pass::kTrain, T, run);
    walk_through(walk);
    OnHost host(gradients);
    for (const ParameterEntry& entry : table_.entries())
      expect_recorded(host.values().subspan(entry.offset, entry.elems()),
                      part + ".gradient." + entry.name, 1);
  }

 private:
  void put(const Tensor& to, const std::vector<float>& values) {
    on_.device.copy(to.data, values.data(), to.bytes(), *on_.stream);
    on_.stream->synchronize();
  }
  std::vector<float> get(const ConstTensor& from) {
    std::vector<float> values(from.elems());
    on_.device.copy(values.data(), from.data, from.bytes(), *on_.stream);
    on_.stream->synchronize();
    return values;
  }
  test::TestContext on_{1};
  ParameterTable table_, buffers_;
};

TEST(BertFixtures, Embeddings) {
  PartBench bench;
  Registrar registrar = bench.registrar();
  Embeddings part(registrar, "bert.embeddings",
                  {kHidden, kSpec.vocabulary, kOptions.positions, 0}, 0);
  const auto ids_of = [](const Batch& batch) {
    return TokenIds{batch.tokens, batch.segments, batch.positions};
  };
  bench.expect_as_recorded(
      "embeddings",
      [&](Walk& walk, const Slot&, const Batch& batch) {
        return part.forward(walk, ids_of(batch));
      },
      [&](Walk& walk, const Slot& dy, const Slot&, const Batch& batch) {
        part.backward(walk, dy, ids_of(batch));
        return Slot{};
      });
}

template <typename Part>
void expect_as_recorded(PartBench& bench, const std::string& name, Part& part) {
  bench.expect_as_recorded(
      name,
      [&](Walk& walk, const Slot& x, const Batch&) {
        return part.forward(walk, x);
      },
      [&](Walk& walk, const Slot& dy, const Slot& x, const Batch&) {
        return part.backward(walk, dy, x);
      });
}

TEST(BertFixtures, SelfAttention) {
  PartBench bench;
  Registrar registrar = bench.registrar();
  SelfAttention part(registrar, "bert.encoder.layer.0.attention",
                     {kHidden, kHeads, 0, 0, kSpec.max_length}, 0);
  expect_as_recorded(bench, "attention", part);
}

TEST(BertFixtures, FeedForward) {
  PartBench bench;
  Registrar registrar = bench.registrar();
  FeedForward part(registrar, "bert.encoder.layer.0",
                   {kHidden, kIntermediate, 0}, 0);
  expect_as_recorded(bench, "feed_forward", part);
}

TEST(BertFixtures, LossAndAllGradients) {
  BertBench bench(kOptions, kSpec, questions());
  bench.parameters_ = parameters_for(bench.model().parameters());
  EXPECT_NEAR(bench.step(), recorded("loss")[0],
              kTolerance * recorded("loss")[0]);
  for (const ParameterEntry& entry : bench.model().parameters().entries())
    expect_recorded(bench.gradient(entry), "gradient." + entry.name, 0.05);
  expect_recorded(bench.scores(bench.batch()), "logits");
}

}  // namespace
}  // namespace syncopate
