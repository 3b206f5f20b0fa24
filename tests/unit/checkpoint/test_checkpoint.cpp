// Round trips, agreement and retention over worlds of one to four workers.
#include <set>

#include "checkpoint/folders.h"
#include "fixture.h"

namespace syncopate {
namespace {

std::set<std::string> names_in(const fs::path& directory) {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(directory))
    names.insert(entry.path().filename());
  return names;
}

class Worlds : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Workers, Worlds, testing::Values(1, 2, 3, 4));

TEST_P(Worlds, RestoresEveryTypeOnEveryWorker) {
  const int workers = GetParam();
  const ScratchFolder scratch;
  save(scratch.path(), 5, workers);
  in_world(workers, [&](Endpoint& endpoint) {
    const auto found =
        agree_on_checkpoint(endpoint, scratch.path(), std::nullopt);
    ASSERT_TRUE(found.has_value());
    EXPECT_EQ(found->folder.filename(), "step-00000005");
    EXPECT_TRUE(found->warnings.empty());
    const CheckpointFacts expected = facts_of(5, workers);
    EXPECT_EQ(found->facts.step, expected.step);
    EXPECT_EQ(found->facts.worker_steps, expected.worker_steps);
    EXPECT_EQ(found->facts.workers, workers);
    EXPECT_EQ(found->facts.scheme, expected.scheme);
    EXPECT_EQ(found->facts.input, expected.input);
    EXPECT_EQ(found->facts.extra, expected.extra);
    State state(99, 99);
    load_checkpoint(*found, endpoint.rank(),
                    [&](StateVisitor& visitor) { state.visit(visitor); });
    EXPECT_EQ(state, State(5, endpoint.rank()));
  });
  std::set<std::string> expected = {"manifest.json", "replica.h5"};
  for (int rank = 0; rank < workers; ++rank)
    expected.insert("worker-000" + std::to_string(rank) + ".h5");
  EXPECT_EQ(names_in(scratch.path() / "step-00000005"), expected);
}

TEST_P(Worlds, FallsBackTogetherWhenOneWorkersFileIsDamaged) {
  const int workers = GetParam();
  const ScratchFolder scratch;
  save(scratch.path(), 1, workers);
  save(scratch.path(), 2, workers);
  const fs::path file = scratch.path() / "step-00000002" /
                        ("worker-000" + std::to_string(workers - 1) + ".h5");
  std::string bytes = bytes_of(file);
  bytes[bytes.size() / 2] ^= 4;
  overwrite(file, bytes);
  in_world(workers, [&](Endpoint& endpoint) {
    const auto found =
        agree_on_checkpoint(endpoint, scratch.path(), std::nullopt);
    ASSERT_TRUE(found.has_value());
    EXPECT_EQ(found->facts.step, 1);
    ASSERT_EQ(found->warnings.size(), 1u);
    EXPECT_NE(found->warnings[0].find(file.string()), std::string::npos);
  });
  in_world(workers, [&](Endpoint& endpoint) {
    const std::string line = error_of(ExitCode::kBadInput, [&] {
      agree_on_checkpoint(endpoint, scratch.path(),
                          scratch.path() / "step-00000002");
    });
    EXPECT_NE(line.find(file.string()), std::string::npos) << line;
  });
}

TEST_P(Worlds, FailureOfAnyWorkerIsTheSameErrorOnAll) {
  const int workers = GetParam();
  const ScratchFolder scratch;
  save(scratch.path(), 1, workers);
  const auto before = bytes_of(scratch.path() / "step-00000001/manifest.json");
  int failures = 0;
  in_world(workers, [&](Endpoint& endpoint) {
    State state(2, endpoint.rank());
    const std::string line = error_of(ExitCode::kIoError, [&] {
      save_checkpoint(
          endpoint, scratch.path(), facts_of(2, workers),
          [&](StateVisitor& visitor) {
            state.visit(visitor);
            if (endpoint.rank() == endpoint.size() - 1)
              fail(ExitCode::kIoError, "FILE: write: the device is on fire");
          },
          2);
    });
    EXPECT_EQ(line, "FILE: write: the device is on fire");
    ++failures;
  });
  EXPECT_EQ(failures, workers);
  EXPECT_EQ(names_in(scratch.path()), std::set<std::string>{"step-00000001"});
  EXPECT_EQ(verify_checkpoint(scratch.path() / "step-00000001").facts.step, 1);
  EXPECT_EQ(bytes_of(scratch.path() / "step-00000001/manifest.json"), before);
}

TEST_P(Worlds, DirectoryThatCannotBeMadeIsTheSameErrorOnAll) {
  const ScratchFolder scratch;
  overwrite(scratch.path() / "file", "in the way");
  std::set<std::string> lines;
  in_world(GetParam(), [&](Endpoint& endpoint) {
    State state;
    lines.insert(error_of(ExitCode::kCannotCreate, [&] {
      save_checkpoint(
          endpoint, scratch.path() / "file/checkpoints",
          facts_of(2, endpoint.size()),
          [&](StateVisitor& visitor) { state.visit(visitor); }, 2);
    }));
  });
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_NE(lines.begin()->find("file/checkpoints"), std::string::npos);
}

TEST_P(Worlds, NoCheckpointIsNoError) {
  const ScratchFolder scratch;
  in_world(GetParam(), [&](Endpoint& endpoint) {
    EXPECT_FALSE(agree_on_checkpoint(endpoint, scratch.path(), std::nullopt));
    EXPECT_FALSE(
        agree_on_checkpoint(endpoint, scratch.path() / "none", std::nullopt));
    error_of(ExitCode::kInputMissing, [&] {
      agree_on_checkpoint(endpoint, scratch.path(), scratch.path() / "none");
      ADD_FAILURE();
    });
  });
}

TEST(Checkpoint, EqualContentGivesEqualBytes) {
  const ScratchFolder a, b;
  save(a.path(), 3, 2);
  usleep(1'100'000);  // a second later, so that a time inside would differ
  save(b.path(), 3, 2);
  for (const char* name :
       {"manifest.json", "replica.h5", "worker-0000.h5", "worker-0001.h5"})
    EXPECT_EQ(bytes_of(a.path() / "step-00000003" / name),
              bytes_of(b.path() / "step-00000003" / name))
        << name;
}

TEST(Checkpoint, WorkerWithoutOwnStateHasNoFile) {
  const ScratchFolder scratch;
  in_world(2, [&](Endpoint& endpoint) {
    State state(1);
    save_checkpoint(
        endpoint, scratch.path(), facts_of(1, 2),
        [&](StateVisitor& visitor) { state.visit_shared(visitor); }, 2);
  });
  EXPECT_EQ(names_in(scratch.path() / "step-00000001"),
            (std::set<std::string>{"manifest.json", "replica.h5"}));
  State state;
  const FoundCheckpoint found =
      verify_checkpoint(scratch.path() / "step-00000001/");
  load_checkpoint(found, 1, [&](StateVisitor& v) { state.visit_shared(v); });
  EXPECT_EQ(state.weights, State(1).weights);
  const std::string line = error_of(ExitCode::kBadInput, [&] {
    load_checkpoint(found, 1, [&](StateVisitor& v) { state.visit(v); });
  });
  EXPECT_NE(line.find("worker-0001.h5"), std::string::npos) << line;
}

TEST(Checkpoint, KeepsTheNewestButNeverNone) {
  const ScratchFolder scratch;
  for (int step = 1; step <= 5; ++step) save(scratch.path(), step, 1, 3);
  EXPECT_EQ(names_in(scratch.path()),
            (std::set<std::string>{"step-00000003", "step-00000004",
                                   "step-00000005"}));
  save(scratch.path(), 6, 1, 0);
  EXPECT_EQ(names_in(scratch.path()), (std::set<std::string>{"step-00000006"}));
}

TEST(Checkpoint, StaleTemporariesAndLaterStepsGo) {
  const ScratchFolder scratch;
  save(scratch.path(), 2);
  save(scratch.path(), 9);
  fs::create_directory(scratch.path() / "step-00000004.tmp");
  overwrite(scratch.path() / "step-00000004.tmp/replica.h5", "half");
  fs::create_directory(scratch.path() / "step-00000007.tmp");
  fs::create_directory(scratch.path() / "mine");
  save(scratch.path(), 4);
  EXPECT_EQ(names_in(scratch.path()),
            (std::set<std::string>{"step-00000002", "step-00000004", "mine"}));
}

TEST(Checkpoint, SameStepIsReplacedAsOneAct) {
  const ScratchFolder scratch;
  save(scratch.path(), 1);
  save(scratch.path(), 2);
  in_world(1, [&](Endpoint& endpoint) {
    State state(7);
    save_checkpoint(
        endpoint, scratch.path(), facts_of(2, 1),
        [&](StateVisitor& visitor) { state.visit(visitor); }, 2);
  });
  EXPECT_EQ(names_in(scratch.path()),
            (std::set<std::string>{"step-00000001", "step-00000002"}));
  State state;
  load_checkpoint(*find_newest_checkpoint(scratch.path()), 0,
                  [&](StateVisitor& visitor) { state.visit(visitor); });
  EXPECT_EQ(state, State(7));
  // A kill between the two renames leaves this.
  fs::rename(scratch.path() / "step-00000002",
             scratch.path() / "step-00000002.replaced");
  EXPECT_EQ(find_newest_checkpoint(scratch.path())->facts.step, 2);
  // As a resume does.
  const int64_t newest =
      find_newest_checkpoint(scratch.path())->facts.worker_steps;
  prune_folders(scratch.path(), newest, 2);
  EXPECT_EQ(names_in(scratch.path()),
            (std::set<std::string>{"step-00000001", "step-00000002"}));
  fs::rename(scratch.path() / "step-00000002",
             scratch.path() / "step-00000002.replaced");
  save(scratch.path(), 2);
  EXPECT_EQ(names_in(scratch.path()),
            (std::set<std::string>{"step-00000001", "step-00000002"}));
}

TEST(Checkpoint, SomeStateLoadsWithoutTheRest) {
  const ScratchFolder scratch;
  save(scratch.path(), 3, 2);
  const FoundCheckpoint found = *find_newest_checkpoint(scratch.path());
  for (int worker = 0; worker < 2; ++worker) {
    State state(50, 50);
    const State before = state;
    const auto visit = [&](StateVisitor& visitor) {
      visitor.visit(Owner::kShared, "model/weights",
                    std::span<float>(state.weights));
      visitor.visit(Owner::kWorker, "residual",
                    std::span<float>(state.residual));
    };
    load_checkpoint(found, worker, visit, LeftOver::kIgnored);
    EXPECT_EQ(state.weights, State(3).weights);
    EXPECT_EQ(state.residual, State(3, worker).residual);
    EXPECT_EQ(state.counters, before.counters);
    EXPECT_EQ(state.position, before.position);
  }
  State state;
  const std::string line = error_of(ExitCode::kBadInput, [&] {
    const auto visit = [&](StateVisitor& visitor) {
      visitor.visit(Owner::kWorker, "residual",
                    std::span<float>(state.residual));
    };
    load_checkpoint(found, 2, visit, LeftOver::kIgnored);
  });
  EXPECT_NE(line.find("no worker-0002.h5"), std::string::npos) << line;
}

}  // namespace
}  // namespace syncopate
