#include "train/worker_step.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/world.h"
#include "run/session.h"
#include "support/page_watch.h"
#include "support/scratch_folder.h"

namespace syncopate {
namespace {

constexpr const char* kInput = R"(
[run]
steps = 4
threads = 1
device = cpu
workers = 3
[model]
family = logistic
[data]
kind = synthetic_images
samples = 48
test_samples = 4
classes = 2
height = 4
width = 4
batch = 4
accumulate = 2
[eval]
batch = 4
[compute]
step_s = 0.25
)";

constexpr const char* kClicks = R"(
[run]
steps = 6
threads = 2
device = cpu
workers = 1
[model]
family = deepfm
embedding = 10
mlp = 8
[data]
kind = synthetic_criteo
samples = 480
test_samples = 10
field_rows = 900
batch = 4
accumulate = 2
[optimizer]
kind = adam
embedding = lazy
lr = 0.01
[eval]
batch = 10
[compute]
step_s = 0.25
)";

// A worker's record of its steps.
struct Seen {
  std::vector<float> parameters;  // after the last one
  std::vector<double> begins, ends;
  std::vector<StepCost> costs;
  std::vector<std::string> heard;  // the calls of its listener
  WorkerStep::Found found;         // in all steps
  std::optional<Divergence> diverged;
};

class Ear : public StepListener {
 public:
  explicit Ear(std::vector<std::string>& heard) : heard_(heard) {}
  void step_begins() override { heard_.push_back("begins"); }
  void batch_arrives() override { heard_.push_back("batch"); }
  void backward_ends(const PendingSums&) override {
    heard_.push_back("backward");
    if (unmarked == nullptr) return;
    const std::span<const float> values = unmarked->gradients;
    unmarked->gradients.assign(std::vector(values.begin(), values.end()));
  }
  void step_ends() override { heard_.push_back("ends"); }

  Replica* unmarked = nullptr;  // the marks of its gradients are not to count

 private:
  std::vector<std::string>& heard_;
};

class WorkerStepTest : public testing::Test {
 protected:
  // Up to a boundary after `steps` steps; `spoil` is called before each.
  std::vector<Seen> run(
      const std::vector<std::string>& overrides = {},
      const std::function<void(int rank, int64_t step, Replica&)>& spoil = {},
      int64_t steps = 4) {
    const std::string input = folder_ / "in.ini";
    std::ofstream(input) << input_;
    engine_ = build_engine(session_, input, overrides);
    const int workers = engine_->workers;
    std::vector<Seen> all(static_cast<size_t>(workers));
    make_inproc_world(workers, {})->run([&](Endpoint& endpoint) {
      const int rank = endpoint.rank();
      Seen& seen = all[static_cast<size_t>(rank)];
      Ear ear(seen.heard);
      WorkerStep step(*engine_, endpoint, nullptr, "", &ear);
      Replica& replica = step.replica();
      if (!uses_marks_) ear.unmarked = &replica;
      engine_->model->initialise(replica.parameters.write().span(),
                                 replica.buffers.span(), 1);
      step.scheme().enter();
      step.open_feed();
      step.meet_at(0);
      step.begin({0, steps * workers, 0});
      for (;;) {
        const StepPlan plan = step.scheme().next(step.step_request(0));
        if (plan.stop) break;
        if (plan.is_idle) {
          step.follow(plan);
          continue;
        }
        if (spoil) spoil(rank, plan.step, replica);
        seen.begins.push_back(endpoint.now());
        seen.costs.push_back(step.take(plan));
        seen.ends.push_back(step.ended_at());
      }
      step.end();
      seen.found = step.take_found();
      seen.diverged = step.diverged();
      const auto parameters = replica.parameters.write().span();
      seen.parameters.assign(parameters.begin(), parameters.end());
    });
    return all;
  }

  const char* input_ = kInput;
  bool uses_marks_ = true;
  ScratchFolder folder_;
  char name_[8] = "test";
  char* argv_[1] = {name_};
  Session session_{1, argv_};
  std::unique_ptr<Engine> engine_;
};

TEST_F(WorkerStepTest, TellsItsListenerInOrder) {
  for (const Seen& seen : run({}, {}, 2)) {
    const std::vector<std::string> step = {"begins", "batch",    "backward",
                                           "batch",  "backward", "ends"};
    std::vector<std::string> wanted = step;
    wanted.insert(wanted.end(), step.begin(), step.end());
    EXPECT_EQ(seen.heard, wanted);
  }
}

TEST_F(WorkerStepTest, TakesTheVirtualTimeOfItsInput) {
  for (const Seen& seen : run()) {
    ASSERT_EQ(seen.ends.size(), 4);
    for (size_t i = 0; i < 4; ++i) {
      EXPECT_DOUBLE_EQ(seen.costs[i].compute_s, 0.25);
      EXPECT_DOUBLE_EQ(seen.ends[i], 0.25 * static_cast<double>(i + 1));
    }
  }
}

// Under bsp the others wait for a slow worker; under local_sgd none does within
// a period.
TEST_F(WorkerStepTest, OthersWaitForAStragglerIfTheSchemeDoes) {
  const std::string slow = "--stragglers.factor=1,2,1";
  const std::vector<Seen> bsp = run({slow});
  for (const Seen& seen : bsp) EXPECT_DOUBLE_EQ(seen.ends.back(), 2.0);
  EXPECT_DOUBLE_EQ(bsp[0].costs[1].compute_s, 0.25);
  EXPECT_DOUBLE_EQ(bsp[0].costs[1].sync.exposed_s, 0.25);
  EXPECT_DOUBLE_EQ(bsp[1].costs[1].compute_s, 0.5);
  EXPECT_DOUBLE_EQ(bsp[1].costs[1].sync.exposed_s, 0);

  const std::vector<Seen> local =
      run({slow, "--sync.scheme=local_sgd", "--local_sgd.steps=8"});
  EXPECT_DOUBLE_EQ(local[0].ends.back(), 1.0);
  EXPECT_DOUBLE_EQ(local[1].ends.back(), 2.0);
}

// With weights of 0 two classes are equally likely.
TEST_F(WorkerStepTest, CountsItsSamplesAndLosses) {
  const auto clear = [](int, int64_t, Replica& replica) {
    std::ranges::fill(replica.parameters.write().span(), 0.0f);
  };
  for (const Seen& seen : run({}, clear)) {
    EXPECT_EQ(seen.found.sums.samples, 4 * 2 * 4);
    EXPECT_EQ(seen.found.skipped_steps, 0);
    EXPECT_NEAR(seen.found.sums.values[0] / seen.found.sums.samples,
                std::log(2.0), 1e-6);
    EXPECT_FALSE(seen.diverged);
  }
}

TEST_F(WorkerStepTest, LeavesReplicasEqualUnderBsp) {
  const std::vector<Seen> all = run();
  EXPECT_EQ(all[1].parameters, all[0].parameters);
  EXPECT_EQ(all[2].parameters, all[0].parameters);
}

// The rate is so small that a value can be spoilt for one step and put back.
TEST_F(WorkerStepTest, NamesTheFirstStepThatIsNotFinite) {
  const auto spoil = [](int rank, int64_t step, Replica& replica) {
    if (rank == 1 && step == 2)
      replica.parameters.write().span()[0] =
          std::numeric_limits<float>::quiet_NaN();
  };
  const std::vector<Seen> all = run({"--optimizer.lr=1e-9"}, spoil);
  EXPECT_FALSE(all[0].diverged);
  ASSERT_TRUE(all[1].diverged);
  EXPECT_EQ(all[1].diverged->rank, 1);
  EXPECT_EQ(all[1].diverged->step, 3);
}

// Where only the blocks that a step touched are cleared, checked and looked
// through, the result has the bits of passes over everything, whatever the
// scheme writes into the gradient.
TEST_F(WorkerStepTest, MarksOfTouchedBlocksDoNotChangeTheBits) {
  input_ = kClicks;
  const std::vector<std::vector<std::string>> runs = {
      {},
      {"--optimizer.clip_norm=0.01"},
      {"--optimizer.embedding=dense", "--optimizer.clip_norm=0.01"},
      {"--optimizer.kind=adamw"},
      {"--run.workers=3", "--optimizer.clip_norm=0.01"},
      {"--run.workers=3", "--sync.tables=dense"},
      {"--run.workers=2", "--sync.wire=bf16"},
      {"--run.workers=2", "--data.field_rows=2"},  // whole tables, by the ring
      {"--run.workers=2", "--optimizer.clip_norm=0.01", "--bsp.clip=local"},
      {"--run.workers=2", "--sync.scheme=sync_switch",
       "--sync_switch.order=bsp,local_sgd", "--sync_switch.fractions=0.5,0.5"},
      {"--run.workers=2", "--sync.scheme=ef_sign_sgd"},
      {"--run.workers=2", "--sync.scheme=local_sgd", "--local_sgd.steps=2",
       "--local_sgd.outer=momentum", "--optimizer.clip_norm=0.01"},
      {"--run.workers=2", "--sync.scheme=asp", "--optimizer.clip_norm=0.01"},
      {"--run.on_nonfinite=skip"}};
  for (const std::vector<std::string>& overrides : runs) {
    // Whatever someone writes outside the marks is cleared.
    const auto write = [](int rank, int64_t step, Replica& replica) {
      if (rank == 0 && step == 2)
        std::ranges::fill(replica.gradients.span(), 1);
    };
    uses_marks_ = false;
    const std::vector<Seen> wanted = run(overrides, write, 6);
    uses_marks_ = true;
    const std::vector<Seen> seen = run(overrides, write, 6);
    for (size_t rank = 0; rank < seen.size(); ++rank)
      EXPECT_EQ(seen[rank].parameters, wanted[rank].parameters)
          << (overrides.empty() ? "bsp" : overrides.back());
  }
}

// Two workers exchange rows under lazy Adam with clipping: a step reads and
// writes the gradients of the rows of both, but never looks for rows in the
// whole table.
TEST_F(WorkerStepTest, ExchangeOfRowsDoesNotGrowWithTheTable) {
  input_ = kClicks;
  constexpr int64_t kRowsOfStep = 2 * 2 * 39;  // workers, samples, fields
  for (const char* field_rows : {"2000", "10000"}) {
    std::unique_ptr<test::PageWatch> watches[2];
    std::vector<int64_t> touched;
    int64_t pages = 0;
    const auto watch = [&](int rank, int64_t step, Replica& replica) {
      std::unique_ptr<test::PageWatch>& own = watches[rank];
      if (own) touched.push_back(own->touched());
      own.reset();
      if (step < 1 || step > 4) return;  // first steps make plans
      own = std::make_unique<test::PageWatch>(replica.gradients.marked());
      pages = own->pages();
    };
    run({"--run.workers=2", "--run.threads=1", "--data.batch=2",
         "--data.accumulate=1", "--optimizer.clip_norm=0.01",
         std::string("--data.field_rows=") + field_rows},
        watch, 6);
    ASSERT_EQ(touched.size(), 8u);
    for (const int64_t count : touched) {
      // A row's embedding and its weight: each in one page or two.
      EXPECT_LE(count, 4 * kRowsOfStep);
      EXPECT_GE(count, kRowsOfStep / 4);
    }
    RecordProperty(field_rows, std::to_string(touched[0]) + " of " +
                                   std::to_string(pages) + " pages");
  }
}

TEST_F(WorkerStepTest, LeavesOutStepsIfItIsToSkipThem) {
  float kept = 0;
  const auto spoil = [&kept](int rank, int64_t step, Replica& replica) {
    float& value = replica.parameters.write().span()[0];
    if (rank != 1) return;
    if (step == 2) {
      kept = value;
      value = std::numeric_limits<float>::quiet_NaN();
    } else if (step == 3) {
      value = kept;
    }
  };
  const std::vector<Seen> all =
      run({"--run.on_nonfinite=skip", "--optimizer.lr=1e-9"}, spoil);
  for (const Seen& seen : all) EXPECT_FALSE(seen.diverged);
  EXPECT_EQ(all[0].found.skipped_steps, 0);
  EXPECT_EQ(all[1].found.skipped_steps, 1);
  EXPECT_EQ(all[1].found.sums.samples, 3 * 2 * 4);
}

}  // namespace
}  // namespace syncopate
