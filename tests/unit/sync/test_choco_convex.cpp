// Logistic regression as in the code of "Decentralized Stochastic Optimization
// and Gossip Algorithms with Compressed Communication" (Koloskova et al. 2019),
// on a small scale: 9 workers on a ring, samples sorted by label or shuffled,
// lambda = 1 / samples, rates .1 / (lambda (t + delay)), one sample per step,
// and its compressors with their gammas. CHOCO converges as well as a naive
// recursion of the formulas; DCD and ECD with the same compressors do not.
#include <random>

#include "data/sampler.h"
#include "unit/sync/gossip_toy.h"

namespace syncopate {
namespace {

using test::Matrix;
using test::ToyRun;
using test::Vector;

constexpr int kWorkers = 9;
constexpr int64_t kDims = 100, kSamples = 1800, kSteps = 4000;
constexpr int64_t kShare = kSamples / kWorkers;
constexpr double kLambda = 1.0 / kSamples;
// 4000 steps then see large and small rates (published: 2000, of 444,000).
constexpr double kDelay = 5;

enum class Split { kRandom, kSorted };

// Sparse samples of norm 1, with labels that a model explains up to some noise.
class Logistic {
 public:
  explicit Logistic(Split split) {
    Rng rng(11, Purpose::kTest);
    Vector truth(kDims);
    for (double& value : truth) value = 8 * rng.normal();
    for (int64_t n = 0; n < kSamples; ++n) {
      Vector a(kDims, 0.0);
      for (int64_t k = 0; k < kDims / 10; ++k)
        a[rng.below(kDims)] = rng.normal();
      const double norm = std::sqrt(dot(a, a));
      for (double& value : a) value /= norm;
      labels_.push_back(dot(a, truth) + 0.5 * rng.normal() > 0 ? 1 : -1);
      samples_.push_back(a);
      order_.push_back(n);
    }
    if (split == Split::kSorted)
      std::stable_sort(order_.begin(), order_.end(), [&](int64_t a, int64_t b) {
        return labels_[a] < labels_[b];
      });
  }

  double loss(const Vector& x) const {
    double sum = 0;
    for (int64_t n = 0; n < kSamples; ++n)
      sum += std::log1p(std::exp(-labels_[n] * dot(samples_[n], x)));
    return sum / kSamples + kLambda / 2 * dot(x, x);
  }

  // Found by gradient descent with momentum. The loss is 1/4-smooth and
  // lambda-strongly convex, so the error is below 1e-9.
  double optimum() const {
    Vector x(kDims, 0.0), before = x;
    const double root = std::sqrt(kLambda / (0.25 + kLambda));
    for (int step = 0; step < 600; ++step) {
      Vector y(kDims), g(kDims);
      for (int64_t e = 0; e < kDims; ++e) {
        y[e] = x[e] + (1 - root) / (1 + root) * (x[e] - before[e]);
        g[e] = kLambda * y[e];
      }
      for (int64_t n = 0; n < kSamples; ++n)
        add_gradient(g, n, y, 1.0 / kSamples);
      before = x;
      for (int64_t e = 0; e < kDims; ++e) x[e] = y[e] - g[e] / (0.25 + kLambda);
    }
    return loss(x);
  }

  // The gradient of a worker's step: that of one sample of its share.
  void gradient(int rank,
                int64_t step,
                std::span<const float> at,
                std::span<float> gradient) const {
    Rng rng(12, Purpose::kTest, rank, step);
    const int64_t n =
        order_[rank * kShare + static_cast<int64_t>(rng.below(kShare))];
    const Vector x(at.begin(), at.end());
    Vector g(kDims);
    for (int64_t e = 0; e < kDims; ++e) g[e] = kLambda * x[e];
    add_gradient(g, n, x, 1);
    for (int64_t e = 0; e < kDims; ++e) gradient[e] = static_cast<float>(g[e]);
  }

 private:
  static double dot(const Vector& a, const Vector& b) {
    return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
  }
  void add_gradient(Vector& g, int64_t n, const Vector& x, double a) const {
    const double slope =
        -labels_[n] / (1 + std::exp(labels_[n] * dot(samples_[n], x)));
    for (int64_t e = 0; e < kDims; ++e) g[e] += a * slope * samples_[n][e];
  }

  std::vector<Vector> samples_;
  std::vector<double> labels_;
  std::vector<int64_t> order_;  // worker 0's share first
};

struct Case {
  CompressOptions compress;
  double gamma;
};
// 1% of the elements; 4 levels of 100 elements lose what 16 of 2000 do.
const Case kCases[] = {
    {{.kind = "top_k", .ratio = 0.99}, 0.04},
    {{.kind = "random_k", .ratio = 0.99, .biased = true}, 0.01},
    {{.kind = "qsgd", .levels = 4, .biased = true}, 0.34},
};

ToyRun convex_run(const Logistic& problem, const Case& which) {
  ToyRun run = test::gossip_run("choco");
  run.sync.compress = which.compress;
  run.sync.choco.gamma = which.gamma;
  run.tensors = {kDims};
  run.num_buffers = 0;
  run.steps = kSteps;
  run.bucket_elems = kDims;
  run.optimizer.lr = 0.1 / (kLambda * kDelay);
  run.schedule = {.kind = ScheduleKind::kInverseTime, .decay_rate = 1 / kDelay};
  run.steps_per_epoch = 1;
  run.start = [](int, int64_t) { return 0.0f; };
  run.gradient = [&](int rank, int64_t step, std::span<const float> x,
                     std::span<float> g) {
    problem.gradient(rank, step, x, g);
  };
  return run;
}

// Uses different random draws, so only the rate of convergence is comparable.
Vector naive_compress(const Case& which, const Vector& x, std::mt19937& draw) {
  const auto kept =
      static_cast<int64_t>(kDims * (1 - which.compress.ratio) + 1e-9);
  std::vector<int64_t> order(kDims);
  std::iota(order.begin(), order.end(), 0);
  Vector q(kDims, 0.0);
  if (which.compress.kind == "top_k")
    std::sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
      return std::abs(x[a]) > std::abs(x[b]);
    });
  else
    std::shuffle(order.begin(), order.end(), draw);
  if (which.compress.kind != "qsgd") {
    for (int64_t k = 0; k < kept; ++k) q[order[k]] = x[order[k]];
    return q;
  }
  const auto s = static_cast<double>(which.compress.levels);
  const double d = kDims;
  const double norm =
      std::sqrt(std::inner_product(x.begin(), x.end(), x.begin(), 0.0));
  if (norm == 0) return q;
  const double c = 1 / (1 + std::min(d / (s * s), std::sqrt(d) / s));
  std::uniform_real_distribution<double> uniform;
  for (int64_t e = 0; e < kDims; ++e) {
    const double level = std::floor(s * std::abs(x[e]) / norm + uniform(draw));
    q[e] = c * std::copysign(norm * level / s, x[e]);
  }
  return q;
}

Vector naive_mean(const ToyRun& run, const Case& which) {
  std::mt19937 draw(1);
  const Matrix w = test::mixing_matrix(run.sync.topology, kWorkers);
  Matrix x = test::start_of(run, kWorkers), xhat = x;
  for (int64_t step = 0; step < run.steps; ++step) {
    const double rate = 0.1 / (kLambda * (static_cast<double>(step) + kDelay));
    x = test::sum(x, -rate, test::gradients_at(run, step, x));
    x = test::sum(x, which.gamma, test::sum(test::multiply(w, xhat), -1, xhat));
    Matrix q = test::sum(x, -1, xhat);
    for (Vector& row : q) row = naive_compress(which, row, draw);
    xhat = test::sum(xhat, 1, q);
  }
  return test::mean_of(x);
}

// The distance of the mean model's loss from the optimum; infinite if it is no
// longer finite.
double above(const Logistic& problem, double optimum, const Vector& mean) {
  const double loss = problem.loss(mean);
  return std::isfinite(loss) ? loss - optimum
                             : std::numeric_limits<double>::infinity();
}

class ChocoConvex : public ::testing::TestWithParam<Split> {};

TEST_P(ChocoConvex, GetsAsFarAsTheNaiveRecursion) {
  const Logistic problem(GetParam());
  const double optimum = problem.optimum();
  const double start = std::log(2.0) - optimum;
  for (const Case& which : kCases) {
    SCOPED_TRACE(which.compress.kind);
    ToyRun run = convex_run(problem, which);
    const auto choco = test::train_toy(kWorkers, run);
    const double naive = above(problem, optimum, naive_mean(run, which));
    const double ours =
        above(problem, optimum, test::mean_of(choco.parameters));
    EXPECT_LT(ours, start / 30);
    EXPECT_LT(ours, 1.25 * naive);
    EXPECT_GT(ours, 0.8 * naive);
    run.sync.scheme = "dcd_psgd";
    EXPECT_GT(above(problem, optimum,
                    test::mean_of(test::train_toy(kWorkers, run).parameters)),
              8 * ours);
    run.sync.scheme = "ecd_psgd";
    EXPECT_GT(above(problem, optimum,
                    test::mean_of(test::train_toy(kWorkers, run).parameters)),
              30 * ours);
  }
}

INSTANTIATE_TEST_SUITE_P(Splits,
                         ChocoConvex,
                         ::testing::Values(Split::kRandom, Split::kSorted));

}  // namespace
}  // namespace syncopate
