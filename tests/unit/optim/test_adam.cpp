// Adam and AdamW as optimizers of a model's range: against values recorded
// from PyTorch (tests/reference/make_optim_fixtures.py), exemptions, slices,
// and the count of steps as state.
#include <cmath>
#include <fstream>
#include <map>
#include <sstream>

#include <gtest/gtest.h>

#include "optim/optimizer.h"
#include "support/fixtures.h"

namespace syncopate {
namespace {

std::map<std::string, std::vector<double>> recorded_parameters() {
  std::ifstream file(fixture_path("optim.txt"));
  std::map<std::string, std::vector<double>> recorded;
  for (std::string text; std::getline(file, text);) {
    std::istringstream words(text);
    std::string name;
    words >> name;
    for (double value; words >> value;) recorded[name].push_back(value);
  }
  return recorded;
}

class AdamOptimizer : public testing::Test {
 protected:
  static constexpr int64_t kRows = 6, kRow = 3;

  AdamOptimizer()
      : device_(make_cpu_device()),
        stream_(device_->make_stream()),
        context_(*device_, *stream_, 2) {
    table_.add("weight", Shape{3, 4}, Role::kWeight);
    table_.add("bias", Shape{5}, Role::kBias);
    table_.add("norm", Shape{4}, Role::kLayerNorm);
    table_.add("table", Shape{kRows, kRow}, Role::kEmbedding);
    for (int64_t i = 0; i < elems(); ++i)
      x_.push_back(static_cast<float>(made_uniform(0, i)));
  }
  int64_t elems() const { return table_.num_elems(); }
  int64_t tables_begin() const { return table_[3].offset; }

  static OptimizerOptions options(const std::string& kind) {
    return {.kind = kind,
            .beta1 = 0.8,
            .beta2 = 0.95,
            .eps = 1e-7,
            .weight_decay = 0.05};
  }
  std::unique_ptr<Optimizer> make(const OptimizerOptions& options) {
    return make_optimizer(context_, options, table_, 0, elems());
  }
  std::vector<float> gradient_at(int step) const {
    std::vector<float> gradient;
    for (int64_t i = 0; i < elems(); ++i) {
      const int64_t row = (i - tables_begin()) / kRow;
      const bool is_touched = i < tables_begin() || (row + step) % 3 == 0;
      gradient.push_back(
          is_touched ? static_cast<float>(made_uniform(1 + step, i)) : 0.0f);
    }
    return gradient;
  }
  static ApplyParams params_at(int step) {
    return {.rate = 0.01 * (1 + step), .momentum = 0.7};
  }
  void train(Optimizer& optimizer, std::span<float> x, int from, int to) {
    for (int step = from; step < to; ++step)
      optimizer.apply(context_, 0, x, gradient_at(step), params_at(step));
  }
  void expect_recorded(const std::string& name,
                       const OptimizerOptions& options) {
    const std::vector<double> expected = recorded_parameters()[name];
    ASSERT_EQ(std::ssize(expected), elems());
    train(*make(options), x_, 0, 6);
    for (int64_t i = 0; i < elems(); ++i)
      // Six steps of at most 0.06, each of some ten roundings.
      EXPECT_NEAR(x_[i], expected[i], 1e-6) << name << " " << i;
  }

  std::unique_ptr<Device> device_;
  std::unique_ptr<Stream> stream_;
  Context context_;
  ParameterTable table_;
  std::vector<float> x_;
};

TEST_F(AdamOptimizer, IsPyTorchsAdam) {
  expect_recorded("adam", options("adam"));
}

TEST_F(AdamOptimizer, IsPyTorchsAdamWWithExemptions) {
  OptimizerOptions adamw = options("adamw");
  adamw.weight_decay = 0.1;
  adamw.decay_batchnorm = false;
  adamw.decay_bias = false;
  expect_recorded("adamw", adamw);
}

TEST_F(AdamOptimizer, LazyIsPyTorchsSparseAdam) {
  OptimizerOptions lazy = options("adam");
  lazy.weight_decay = 0;
  lazy.embedding = RowUpdates::kLazy;
  expect_recorded("sparse", lazy);
}

// After one step, the direction of every element is its sign: m / (1 - beta1) =
// g, v / (1 - beta2) = g^2. Of 0.99999999 a float is 1.
TEST_F(AdamOptimizer, KeepsBetasNearOne) {
  for (const double beta : {0.9, 0.999, 0.999999, 0.9999999, 0.99999999}) {
    OptimizerOptions close = options("adam");
    close.weight_decay = 0;
    close.beta1 = close.beta2 = beta;
    close.eps = 1e-12;
    std::vector<float> x = x_;
    const std::vector<float> gradient = gradient_at(0);
    const double rate = 0.01;
    make(close)->apply(context_, 0, x, gradient,
                       {.rate = rate, .momentum = 0.7});
    for (int64_t i = 0; i < elems(); ++i)
      if (gradient[i] != 0) {
        EXPECT_NEAR((x_[i] - x[i]) / rate, gradient[i] > 0 ? 1 : -1, 1e-4)
            << beta << " " << i;
      }
  }
}

// The recorded values do not cover this, because they are of three optimizers.
TEST_F(AdamOptimizer, DenseMovesRowsThatLazyLeaves) {
  std::vector<float> dense = x_, lazy = x_;
  OptimizerOptions as = options("adam");
  as.weight_decay = 0;
  train(*make(as), dense, 0, 2);
  as.embedding = RowUpdates::kLazy;
  train(*make(as), lazy, 0, 2);
  for (int64_t i = 0; i < elems(); ++i) {
    const int64_t row = (i - tables_begin()) / kRow;
    // Touched in step 0 only, and in none.
    const bool differs = i >= tables_begin() && row % 3 == 0;
    EXPECT_EQ(dense[i] == lazy[i], !differs) << i;
    if (i >= tables_begin() && row % 3 == 1) {
      EXPECT_EQ(lazy[i], x_[i]);
    }
  }
}

// A server's shard, which may begin within a row.
TEST_F(AdamOptimizer, SlicesEqualTheWhole) {
  for (const RowUpdates embedding : {RowUpdates::kDense, RowUpdates::kLazy})
    for (const int64_t cut :
         {int64_t{1}, tables_begin(), tables_begin() + 1, elems() - 1}) {
      OptimizerOptions as = options("adamw");
      as.embedding = embedding;
      as.decay_bias = false;
      const auto whole = make(as);
      const auto left = make_optimizer(context_, as, table_, 0, cut);
      const auto right =
          make_optimizer(context_, as, table_, cut, elems() - cut);
      std::vector<float> x = x_, y = x_;
      for (int step = 0; step < 4; ++step) {
        const std::vector<float> g = gradient_at(step);
        const ApplyParams params = params_at(step);
        whole->apply(context_, 0, x, g, params);
        left->apply(context_, 0, std::span(y).first(cut),
                    std::span(g).first(cut), params);
        right->apply(context_, cut, std::span(y).subspan(cut),
                     std::span(g).subspan(cut), params);
      }
      EXPECT_EQ(x, y) << name_of(embedding) << " " << cut;
      EXPECT_EQ(left->state_elems() + right->state_elems(), 2 * elems());
    }
}

TEST_F(AdamOptimizer, DirectionTimesTheRateIsTheStep) {
  for (const char* kind : {"adam", "adamw"}) {
    const auto stepping = make(options(kind)), directing = make(options(kind));
    std::vector<float> x = x_, y = x_, d(x_.size());
    for (int step = 0; step < 3; ++step) {
      const std::vector<float> g = gradient_at(step);
      stepping->apply(context_, 0, x, g, params_at(step));
      directing->direction(context_, 0, d, y, g, params_at(step));
      for (size_t i = 0; i < y.size(); ++i)
        y[i] -= static_cast<float>(params_at(step).rate) * d[i];
    }
    // Roundings of the products, and what they do to gradients' decay.
    for (size_t i = 0; i < y.size(); ++i) EXPECT_NEAR(y[i], x[i], 1e-6) << i;
    EXPECT_EQ(directing->steps(), 3);
  }
}

// State and count, handed over as schemes do it or as a checkpoint does.
class Copied final : public StateVisitor {
 public:
  void visit(Owner, std::string_view name, Values values) override {
    if (const auto* floats = std::get_if<std::span<float>>(&values))
      take(floats_[std::string(name)], *floats);
    else
      take(integers_[std::string(name)], std::get<std::span<int64_t>>(values));
  }
  bool is_loading = false;

 private:
  template <typename T>
  void take(std::vector<T>& kept, std::span<T> values) const {
    if (!is_loading) kept.assign(values.begin(), values.end());
    ASSERT_EQ(kept.size(), values.size());
    std::copy(kept.begin(), kept.end(), values.begin());
  }
  std::map<std::string, std::vector<float>> floats_;
  std::map<std::string, std::vector<int64_t>> integers_;
};

TEST_F(AdamOptimizer, GoesOnToTheBitFromItsState) {
  std::vector<float> whole = x_;
  train(*make(options("adam")), whole, 0, 7);

  std::vector<float> x = x_;
  const auto first = make(options("adam"));
  train(*first, x, 0, 4);
  EXPECT_EQ(first->steps(), 4);
  const std::vector<float> at_4 = x;

  Copied checkpoint;
  first->visit_state(checkpoint, Owner::kShared);
  checkpoint.is_loading = true;
  const auto loaded = make(options("adam"));
  loaded->visit_state(checkpoint, Owner::kShared);
  train(*loaded, x, 4, 7);
  EXPECT_EQ(x, whole);

  x = at_4;
  const auto handed = make(options("adam"));
  for (size_t i = 0; i < 2; ++i)
    std::copy_n(first->state()[i].begin(), elems(), handed->state()[i].begin());
  handed->set_steps(first->steps());
  train(*handed, x, 4, 7);
  EXPECT_EQ(x, whole);

  // Without the count the bias correction is another one.
  x = at_4;
  handed->set_steps(0);
  train(*handed, x, 4, 7);
  EXPECT_NE(x, whole);
}

// A step in two calls would count twice.
TEST_F(AdamOptimizer, TakesItsWholeSliceAtOnce) {
  const auto optimizer = make(options("adam"));
  EXPECT_THROW(
      optimizer->apply(context_, 0, std::span(x_).first(12),
                       std::span<const float>(x_).first(12), params_at(0)),
      Error);
}

TEST_F(AdamOptimizer, SgdExemptsTheSame) {
  OptimizerOptions sgd{.momentum = 0, .weight_decay = 0.5};
  sgd.decay_batchnorm = false;
  sgd.decay_bias = false;
  const std::vector<float> before = x_, nothing(x_.size(), 0.0f);
  make(sgd)->apply(context_, 0, x_, nothing, {.rate = 1, .momentum = 0});
  for (int64_t i = 0; i < elems(); ++i) {
    const bool is_exempt = i >= table_[1].offset && i < tables_begin();
    EXPECT_EQ(x_[i], is_exempt ? before[i] : before[i] / 2) << i;
  }
}

}  // namespace
}  // namespace syncopate
