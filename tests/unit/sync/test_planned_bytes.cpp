// What `validate` says a step sends is what the counters count.
#include "sync/planned_bytes.h"
#include "unit/sync/toy_run.h"

namespace syncopate {
namespace {

using test::ToyRun;

// Keys that a scheme needs beside its defaults.
ToyRun run_of(const std::string& scheme) {
  ToyRun run;
  run.sync.scheme = scheme;
  run.shapes = {Shape{8, 12}, Shape{12}, Shape{5, 3, 3}};
  run.num_buffers = 0;
  run.steps = 24;  // whole rounds of every period
  run.steps_per_epoch = 24;
  if (scheme == "dgc") run.sync.compress.kind = "top_k";
  return run;
}

TEST(PlannedBytes, AreThoseThatAreCounted) {
  for (const SchemeInfo& info : scheme_table())
    for (const int workers : {1, 3, 4, 6, 9}) {
      if (info.keyword == "sync_switch") continue;  // has no figure
      const ToyRun run = run_of(info.keyword);
      const test::ToyModel model(run.shapes);
      const auto planned = planned_bytes(
          {run.sync, run.optimizer, model.parameters(), workers, run.steps}, 0);
      EXPECT_EQ(planned.has_value(), info.keyword != "esync" || workers == 1);
      if (!planned) continue;
      const auto result = test::train_toy(workers, run);
      // A shard of the server has a whole number of elements, a bucket's
      // chunks too: some elements a message.
      EXPECT_NEAR(*planned,
                  static_cast<double>(result.payload_bytes[0]) / run.steps,
                  0.02 * *planned + 40)
          << info.keyword << ", " << workers << " workers";
    }
}

}  // namespace
}  // namespace syncopate
