// Saves, verifies and damages checkpoints and results of a known content, for
// the fault tests:
//
//   save DIR WORKERS CYCLES    per cycle one row in DIR/results.h5, committed,
//                              then DIR/checkpoints/step-N; "committed N"
//   verify DIR WORKERS LEAST   the newest whole one loads, is right, and is
//                              step LEAST or later; results.h5 has its rows
//   flip DIR STRIDE            a flipped bit in the newest is found and the one
//                              before is taken: every bit of the manifest, one
//                              bit in every STRIDE-th byte of the other files
//   rows DIR SECONDS           commits results.h5 as fast as it can
//
// SPDX-License-Identifier: Apache-2.0
#include <sys/uio.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/text.h"
#include "checkpoint/checkpoint.h"
#include "comm/world.h"
#include "results/results.h"

namespace syncopate {
namespace {

// By writev, so that a test can inject errors into every write() of files.
void say(const std::string& line) {
  std::string text = line + "\n";
  const iovec part{text.data(), text.size()};
  if (::writev(STDOUT_FILENO, &part, 1) < 0)
    fail(ExitCode::kIoError, "standard output: write");
}

// Every value is a function of (step, rank).
struct State {
  std::vector<float> weights = std::vector<float>(4000);
  std::vector<double> clocks = std::vector<double>(7);
  std::vector<int64_t> position = std::vector<int64_t>(3);
  std::vector<float> residual = std::vector<float>(2000);

  void fill(int64_t step, int rank) {
    for (size_t i = 0; i < weights.size(); ++i)
      weights[i] = static_cast<float>(step * 5000 + static_cast<int64_t>(i));
    for (size_t i = 0; i < clocks.size(); ++i)
      clocks[i] = 1.0 / static_cast<double>(step + static_cast<int64_t>(i));
    for (size_t i = 0; i < position.size(); ++i)
      position[i] = step * 100 + rank * 10 + static_cast<int64_t>(i);
    for (size_t i = 0; i < residual.size(); ++i)
      residual[i] = static_cast<float>(step) / static_cast<float>(rank + i + 1);
  }
  bool operator==(const State&) const = default;

  StateVisit visit() {
    return [this](StateVisitor& visitor) {
      visitor.visit(Owner::kShared, "model/weights", std::span(weights));
      visitor.visit(Owner::kShared, "clocks", std::span(clocks));
      visitor.visit(Owner::kWorker, "sampler/position", std::span(position));
      visitor.visit(Owner::kWorker, "residual", std::span(residual));
    };
  }
};

void declare(Results& results) {
  Table& train = results.table("train");
  train.declare({.name = "worker_steps",
                 .unit = "1",
                 .description = "Steps of all workers.",
                 .is_integer = true});
  train.declare({.name = "loss", .unit = "1", .description = "A loss."});
}

void append(Results& results, int64_t step, int workers) {
  results.table("train").append(
      {static_cast<double>(step * workers), 1.0 / static_cast<double>(step)});
}

fs::path results_in(const fs::path& directory) {
  return directory / "results.h5";
}

void save(const fs::path& directory, int workers, int64_t cycles) {
  Results results(results_in(directory));
  declare(results);
  make_inproc_world(workers, NetworkCost{})->run([&](Endpoint& endpoint) {
    State state;
    for (int64_t step = 1; step <= cycles; ++step) {
      if (endpoint.rank() == 0) {
        append(results, step, workers);
        results.commit();
      }
      state.fill(step, endpoint.rank());
      CheckpointFacts facts;
      facts.step = step;
      facts.worker_steps = step * workers;
      facts.workers = workers;
      facts.scheme = "bsp";
      facts.input = {{"run.seed", "1"}};
      save_checkpoint(endpoint, directory / "checkpoints", facts, state.visit(),
                      2);
      if (endpoint.rank() == 0) say(fmt::format("committed {}", step));
    }
  });
}

void verify(const fs::path& directory, int workers, int64_t least) {
  int64_t step = 0;
  make_inproc_world(workers, NetworkCost{})->run([&](Endpoint& endpoint) {
    const auto found =
        agree_on_checkpoint(endpoint, directory / "checkpoints", std::nullopt);
    if (!found) return;
    State state, expected;
    load_checkpoint(*found, endpoint.rank(), state.visit());
    expected.fill(found->facts.step, endpoint.rank());
    CHECK_MSG(state == expected, "{}: other values than were saved",
              found->folder.string());
    step = found->facts.step;
    if (endpoint.rank() == 0)
      for (const std::string& warning : found->warnings) say(warning);
  });
  CHECK_MSG(step >= least, "step {} is lost, {} is the newest", least, step);
  if (step > 0) {
    Results results(results_in(directory));
    declare(results);
    results.resume(step * workers);
    Results expected(results_in(directory));
    declare(expected);
    for (int64_t i = 1; i <= step; ++i) append(expected, i, workers);
    for (const Column& column : expected.table("train").columns())
      CHECK_MSG(
          results.table("train").column(column.name).values == column.values,
          "results.h5: {} is not what was written", column.name);
  }
  say(fmt::format("step {}", step));
}

void overwrite_byte(const fs::path& path, int64_t position, char value) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(position);
  file.put(value);
  file.close();
  CHECK(!file.fail());
}

void flip(const fs::path& directory, int64_t stride) {
  const fs::path checkpoints = directory / "checkpoints";
  const auto newest = find_newest_checkpoint(checkpoints);
  CHECK(newest && newest->warnings.empty());
  int64_t flips = 0;
  std::vector<std::string> names = {"manifest.json"};
  for (const CheckpointFile& file : newest->files) names.push_back(file.name);
  for (const std::string& name : names) {
    const fs::path path = newest->folder / name;
    const std::string bytes = read_file(path);
    const bool is_manifest = name == "manifest.json";
    const int64_t step = is_manifest ? 1 : stride;
    for (int64_t i = 0; i < std::ssize(bytes); i += step)
      for (int bit = 0; bit < 8; ++bit) {
        if (!is_manifest && bit != i % 8) continue;
        overwrite_byte(path, i, static_cast<char>(bytes[i] ^ (1 << bit)));
        const auto found = find_newest_checkpoint(checkpoints);
        CHECK_MSG(found && found->warnings.size() == 1 &&
                      found->facts.step == newest->facts.step - 1,
                  "{}: bit {} of byte {} went unseen", name, bit, i);
        ++flips;
      }
    overwrite_byte(path, 0, bytes[0]);
    for (int64_t i = 0; i < std::ssize(bytes); i += step)
      overwrite_byte(path, i, bytes[i]);
    CHECK(find_newest_checkpoint(checkpoints)->warnings.empty());
  }
  say(fmt::format("{} flipped bits, all found", flips));
}

void commit_rows(const fs::path& directory, int64_t seconds) {
  Results results(results_in(directory));
  declare(results);
  const double end_s = monotonic_s() + static_cast<double>(seconds);
  for (int64_t step = 1; monotonic_s() < end_s; ++step) {
    append(results, step, 1);
    results.commit();
  }
}

int run(const std::vector<std::string>& words) {
  const auto number = [&](size_t i) {
    const std::optional<int64_t> value = parse_int(words.at(i));
    CHECK(value);
    return *value;
  };
  const auto small = [&](size_t i) { return static_cast<int>(number(i)); };
  const std::string command = words.empty() ? "" : words[0];
  if (command == "save" && words.size() == 4)
    save(words[1], small(2), number(3));
  else if (command == "verify" && words.size() == 4)
    verify(words[1], small(2), number(3));
  else if (command == "flip" && words.size() == 3)
    flip(words[1], number(2));
  else if (command == "rows" && words.size() == 3)
    commit_rows(words[1], number(2));
  else
    fail(ExitCode::kUsage, "save | verify | flip | rows, see the source");
  return 0;
}

}  // namespace
}  // namespace syncopate

int main(int argc, char** argv) {
  int code = 0;
  try {
    code = syncopate::run({argv + 1, argv + argc});
  } catch (const syncopate::Error& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    code = static_cast<int>(error.code());
  }
  _exit(code);  // as the program does: HDF5 must not tidy up after a failure
}
