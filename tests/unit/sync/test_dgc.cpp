// Deep gradient compression against the formulas in double.
#include <algorithm>

#include "compress/compressor.h"
#include "unit/sync/compressed_reference.h"

namespace syncopate {
namespace {

using test::CompressedReference;
using test::ToyRun;

ToyRun dgc_run(double ratio = 0.75) {
  ToyRun run = test::run_of("dgc");
  run.sync.compress = {.kind = "top_k", .ratio = ratio, .biased = true};
  run.optimizer.momentum = 0.9;
  // Magnitudes differ by more than rounding errors, so that both choices agree.
  run.start = [](int, int64_t i) {
    return 0.5f + 0.3f * std::sin(static_cast<float>(1 + i * i));
  };
  return run;
}

// Compares with the reference, given the ratio of each step.
void expect_follows(int N,
                    const ToyRun& run,
                    const std::function<double(int64_t step)>& ratio,
                    double clip_tensors = 0) {
  CompressedReference expected(N, run);
  expected.compress = [=](int64_t step, std::span<const double> p,
                          std::span<double> q) {
    test::keep_largest(ratio(step), p, q);
  };
  expected.clip_tensors = clip_tensors;
  expected.masks_momentum = run.sync.dgc.mask_momentum;
  test::expect_follows(N, run, expected, /*has_momentum=*/true);
}

double same_ratio(int64_t) {
  return 0.75;
}

TEST(Dgc, FollowsItsFormula) {
  for (const int N : {1, 2, 3, 4, 6, 8, 9})
    for (const bool masks : {false, true}) {
      ToyRun run = dgc_run();
      run.steps = 5;
      run.optimizer.weight_decay = 0.01;
      run.sync.dgc.mask_momentum = masks;
      expect_follows(N, run, same_ratio);
    }
}

// Weight decay is added first, then each tensor is clipped separately. Some of
// the three are clipped and some are not.
TEST(Dgc, ClipsTensorsWithWeightDecayByTheShareOfAWorker) {
  ToyRun run = dgc_run();
  run.steps = 5;
  run.optimizer.weight_decay = 0.4;
  run.sync.dgc.clip = 0.8;
  expect_follows(4, run, same_ratio, 0.8 / std::sqrt(4));
}

TEST(Dgc, DropsMoreFromEpochToEpoch) {
  ToyRun run = dgc_run(0.9);
  run.steps = 6;
  run.steps_per_epoch = 2;
  run.sync.dgc.warmup_ratios = {0.25, 0.5};
  expect_follows(3, run, [](int64_t step) {
    return step < 2 ? 0.25 : step < 4 ? 0.5 : 0.9;
  });
  // Values and positions for 7, 1 and 40 elements to each of the two others.
  const int64_t kept = 2 * (5 + 1 + 30) + 2 * (3 + 1 + 20) + 2 * (1 + 1 + 3);
  EXPECT_EQ(test::train_toy(3, run).payload_bytes,
            std::vector<int64_t>(3, 2 * 8 * kept));
}

TEST(Dgc, WarmsUpWithinALengthOfItsOwn) {
  ToyRun run = dgc_run(0.9);
  run.steps = 6;
  run.steps_per_epoch = 2;
  run.sync.dgc.warmup_ratios = {0.25, 0.5};
  run.sync.dgc.warmup = {2, true};  // epochs: four steps
  const auto two_each = test::train_toy(3, run);
  run.sync.dgc.warmup = {};
  EXPECT_EQ(test::train_toy(3, run).parameters, two_each.parameters);
  run.sync.dgc.warmup = {5, false};  // 0, 1 and 2; 3 and 4
  expect_follows(3, run, [](int64_t step) {
    return step < 3 ? 0.25 : step < 5 ? 0.5 : 0.9;
  });
}

// As published: q = Q(momentum), summed in rank order, without a residual of
// the quantisation.
TEST(Dgc, QuantisesWithoutAMemory) {
  constexpr int N = 3;
  ToyRun run = dgc_run();
  run.sync.compress = {.kind = "qsgd", .bits = 2};
  run.num_buffers = 0;
  run.at_boundary = [&](int, int64_t, Scheme& scheme, Replica&) {
    EXPECT_TRUE(test::CapturedState(scheme)["residual"].empty());
  };
  test::TestContext host;
  const test::ToyModel model(run.tensors, 0);
  const auto quantise =
      make_compressor(host.context, run.sync.compress, model.parameters());
  DeviceVector<float> values(host.context.device(), host.context.stream(), 48);
  DeviceVector<uint32_t> message(host.context.device(), host.context.stream(),
                                 quantise->message_words());
  test::Vector x = test::start_of(run, 1)[0];
  std::vector<std::vector<float>> m(N, std::vector<float>(48, 0.0f));
  for (uint64_t step = 0; step < static_cast<uint64_t>(run.steps); ++step) {
    const test::Matrix gradients =
        test::gradients_at(run, static_cast<int64_t>(step), test::Matrix(N, x));
    for (int rank = 0; rank < N; ++rank) {
      for (int i = 0; i < 48; ++i)
        m[rank][i] = 0.9f * m[rank][i] + static_cast<float>(gradients[rank][i]);
      values.assign(m[rank]);
      quantise->encode(host.context, message, values,
                       {run.seed, static_cast<uint64_t>(rank), step});
      quantise->decode(host.context, values, message);
      OnHost q(values);
      for (int i = 0; i < 48; ++i) x[i] -= 0.1 / N * double{q.values()[i]};
    }
  }
  test::expect_near(test::train_toy(N, run).parameters, test::Matrix(N, x),
                    1e-5);
}

TEST(Dgc, LosesNothing) {
  for (const char* kind : {"top_k", "random_k"})
    for (const int N : {1, 3, 4}) {
      ToyRun run = dgc_run();
      run.optimizer.momentum = 0;
      run.sync.compress.kind = kind;
      EXPECT_GT(test::expect_feedback(N, run), 0.001);
    }
}

// The residual is exactly zero where values were sent and exactly the unsent
// value elsewhere; the same holds for the masked momentum.
TEST(Dgc, KeepsExactlyWhatIsNotSent) {
  for (const char* kind : {"top_k", "random_k"}) {
    ToyRun run = dgc_run();
    run.steps = 1;
    run.sync.compress.kind = kind;
    run.at_boundary = [&](int rank, int64_t, Scheme& scheme, Replica&) {
      std::vector<float> x(48), gradient(48);
      for (int i = 0; i < 48; ++i) x[i] = run.start(rank, i);
      test::quadratic_gradient(rank, 0, x, gradient);
      const test::CapturedState state(scheme);
      const auto residual = state["residual"], momentum = state["momentum"];
      int sent = 0;
      for (int i = 0; i < 48; ++i) {
        EXPECT_EQ(residual[i], momentum[i]);
        if (residual[i] != 0)
          EXPECT_EQ(residual[i], gradient[i]);
        else
          ++sent;
      }
      EXPECT_EQ(sent, 1 + 1 + 10);
    };
    test::train_toy(3, run);
  }
}

TEST(Dgc, GoesOnToTheBit) {
  for (const char* kind : {"top_k", "random_k"}) {
    ToyRun run = dgc_run();
    run.sync.compress.kind = kind;
    run.sync.dgc.warmup_ratios = {0.5};
    run.boundary_every = 3;
    const auto straight =
        test::expect_boundaries_change_nothing(3, run, {3, 9});
    test::expect_equal_replicas(straight);
    run.seed = 2;
    EXPECT_EQ(test::train_toy(3, run).parameters == straight.parameters,
              run.sync.compress.kind == "top_k");
  }
}

TEST(Dgc, RefusesWhatDoesNotFit) {
  ToyRun run = dgc_run();
  run.tensors = {4};
  const auto obstacle = [&] { return test::obstacle_of(run, 2); };
  EXPECT_EQ(obstacle(), "");
  run.sync.compress.kind = "sign";
  EXPECT_TRUE(obstacle().starts_with("compress.kind: sign"));
  run.sync.compress.kind = "random_k";
  run.sync.compress.biased = false;
  EXPECT_TRUE(obstacle().starts_with("compress.biased: "));
  run.sync.compress.biased = true;
  EXPECT_EQ(obstacle(), "");
  run.sync.compress.ratio = 1;
  EXPECT_TRUE(obstacle().starts_with("compress.ratio"));
  run.sync.compress.ratio = 0.9;
  run.sync.dgc.warmup_ratios = {0.5, 1};
  EXPECT_TRUE(obstacle().starts_with("dgc.warmup_ratios: 1"));
  run.sync.dgc.warmup_ratios = {};
  run.sync.dgc.clip = run.optimizer.clip_norm = 1;
  EXPECT_TRUE(obstacle().starts_with("dgc.clip: "));
  run.optimizer.clip_norm = 0;
  EXPECT_EQ(obstacle(), "");
  run.sync.dgc.mask_momentum = false;
  run.optimizer.kind = "adam";
  EXPECT_EQ(obstacle(), "");
  run.optimizer.embedding = RowUpdates::kLazy;
  EXPECT_TRUE(obstacle().starts_with("dgc.clip: "));
  run.sync.dgc.clip = 0;
  run.sync.compress = {.kind = "qsgd"};
  EXPECT_EQ(obstacle(), "");
  run.sync.compress.bits = 99;
  EXPECT_TRUE(obstacle().starts_with("compress.bits"));
}

}  // namespace
}  // namespace syncopate
