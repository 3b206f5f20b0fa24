// syncopate simulate INPUT.ini: what a run would take on the cluster that its
// input describes ([compute], [network], [stragglers]). Schemes, messages and
// clocks are those of a run; nothing is trained.
#include <algorithm>

#include "app/commands.h"
#include "app/network_notes.h"
#include "app/output_file.h"
#include "app/provenance.h"
#include "base/clock.h"
#include "base/memory_left.h"
#include "base/text.h"
#include "comm/modelled_sums.h"
#include "run/run_directory.h"
#include "train/run_target.h"
#include "train/run_trace.h"
#include "train/simulation.h"

namespace syncopate {
namespace {

SimulatedWork sum_of(const std::vector<SimulatedWork>& workers) {
  SimulatedWork all;
  for (const SimulatedWork& mine : workers) all.add(mine);
  return all;
}

// How accurate the time of a run of many steps is where sums are computed.
std::string accuracy_of(const Engine& engine, double sums_error) {
  // Messages between members of one group and those of the next meet on links
  // that the sum of a group does not know.
  if (any_scheme(engine.options.sync,
                 [](const auto& info) { return info.sums_in_groups; }))
    return "about 15%";
  return fmt::format("{:.2g}%", 100 * sums_error);
}

void report(Log& log,
            const Engine& engine,
            const std::vector<SimulatedWork>& workers,
            double wall_s) {
  const SimulatedWork all = sum_of(workers);
  const auto steps = static_cast<double>(all.steps);
  log.line("steps      {} of {}, under {}", all.steps,
           counted(std::ssize(workers), "worker"), engine.options.sync.scheme);
  log.line("time       {:.9g} s, when the last worker ends", all.ended_at);
  log.line("throughput {:.6g} samples/s", all.samples / all.ended_at);
  const ComputeOptions& compute = engine.options.compute;
  const auto is_one = [](double value) { return value == 1; };
  const bool are_alike =
      std::ranges::all_of(compute.speed, is_one) &&
      std::ranges::all_of(engine.options.stragglers.factor, is_one);
  log.line("compute    {:.6g} s per step of a worker{}", all.compute_s / steps,
           compute.update_s > 0
               ? fmt::format(", then {:.6g} s for the update{}",
                             compute.update_s, are_alike ? "" : " at speed 1")
               : "");
  log.line(
      "exposed    {:.6g} s per step blocked on communication, of which {:.6g} "
      "s waiting for peers",
      all.sync.exposed_s / steps,
      // Sums of times differ in their last digits.
      all.sync.wait_s < 1e-12 * all.ended_at ? 0.0 : all.sync.wait_s / steps);
  log.line("overlapped {:.6g} s of communication per step",
           all.sync.overlapped_s / steps);
  log.line("sent       {} per step in {:.1f} messages",
           human_bytes(static_cast<double>(all.bytes) / steps),
           static_cast<double>(all.messages) / steps);
  if (all.sums_error > 0 && all.bytes > 0)
    log.line(
        "sums       computed, not sent, as all links are alike: within {} over "
        "many steps (--sums=sent: exact)",
        accuracy_of(engine, all.sums_error));
  log.line(
      "not known  accuracy, divergence and skipped non-finite steps, because "
      "no gradients are computed");
  log.line(
      "simulated  in {:.2f} s: {:.4g} steps of a worker per second, with {} of "
      "memory",
      wall_s, steps / wall_s,
      human_bytes(static_cast<double>(peak_memory_bytes())));
}

void write_results(const Session& session,
                   const Engine& engine,
                   const std::vector<SimulatedWork>& workers,
                   const std::string& path) {
  Results results(path);
  state_engine(results, session, engine);
  results.provenance("world", "simulation");
  Table& table = results.table("workers");
  table.declare({"rank", "1", "worker", 0, true});
  table.declare({"steps", "1", "steps taken", 0, true});
  table.declare({"ended_s", "s", "virtual time at the end"});
  table.declare({"samples", "1", "samples seen", 0, true});
  table.declare({"compute_s", "s", "forward and backward passes, in all"});
  table.declare({"update_s", "s", "computations after them, in all"});
  table.declare({"exposed_s", "s", "blocked on communication, in all"});
  table.declare({"wait_s", "s", "of which waiting for peers"});
  table.declare({"overlapped_s", "s",
                 "communication that overlapped computation, in all"});
  table.declare({"bytes_sent", "byte", "sent by the scheme", 0, true});
  table.declare({"messages_sent", "1", "messages of the scheme", 0, true});
  for (size_t rank = 0; rank < workers.size(); ++rank) {
    const SimulatedWork& mine = workers[rank];
    table.append({static_cast<double>(rank), static_cast<double>(mine.steps),
                  mine.ended_at, mine.samples, mine.compute_s, mine.update_s,
                  mine.sync.exposed_s, mine.sync.wait_s, mine.sync.overlapped_s,
                  static_cast<double>(mine.bytes),
                  static_cast<double>(mine.messages)});
  }
  const SimulatedWork all = sum_of(workers);
  results.summary("virtual_s", all.ended_at, "s",
                  "virtual time of the whole run");
  results.summary("samples", all.samples, "1", "samples seen in all");
  results.summary("samples_per_s", all.samples / all.ended_at, "s-1",
                  "samples per virtual second");
  results.summary("bytes_sent", static_cast<double>(all.bytes), "byte",
                  "sent by the scheme, all workers");
  results.summary("messages_sent", static_cast<double>(all.messages), "1",
                  "messages of the scheme, all workers");
  results.commit();
}

// The trace is written where a run of this name would be.
void make_folder(const RunDirectory& run) {
  if (run.holds_a_run())
    fail(ExitCode::kCannotCreate,
         "{}: holds a run, whose trace a simulation must not replace: give "
         "another run.name",
         run.path().string());
  syncopate::create_directories(run.path());
}

// At the start, because a simulation may take long.
fs::path checked_output(const std::string& name, const std::string& input) {
  const fs::path path = name;
  if (path.extension() != ".h5")
    fail(ExitCode::kUsage, "--output={}: expected a name ending in .h5", name);
  const fs::path folder = path.parent_path();
  if (!folder.empty() && !fs::is_directory(folder))
    fail(ExitCode::kCannotCreate, "{}: no such folder", folder.string());
  return output_file(name, {input});
}

// Whether to send every message of a sum (--sums=sent).
bool sends_sums(const CommandLine& line) {
  const auto sums = line.options.find("sums");
  if (sums == line.options.end() || sums->second == "computed") return false;
  if (sums->second != "sent")
    fail(ExitCode::kUsage, "simulate: --sums={}: expected computed or sent",
         sums->second);
  return true;
}

}  // namespace

ExitCode command_simulate(Session& session, const CommandLine& line) {
  std::unique_ptr<Engine> engine;
  bool is_exact = false;
  fs::path output;  // empty: none
  session.agree_on([&] {
    line.allow_only({"output", "sums"}, CommandLine::Keys::kTaken);
    is_exact = sends_sums(line);
    if (session.is_mpi())
      fail(ExitCode::kUsage,
           "simulate: all workers are in one process; start it without a "
           "launcher");
    engine = build_engine(session, line.only_argument("INPUT.ini"),
                          line.overrides, EngineUse::kSimulate);
    check_simulation(*engine);
    if (const auto named = line.options.find("output");
        named != line.options.end())
      output = checked_output(named->second, line.only_argument("INPUT.ini"));
    if (engine->options.output.trace == Tracing::kOn)
      make_folder(RunDirectory(engine->options, engine->workers));
  });
  if (engine->workers > ModelledSums::kExactWorld && engine->sends_rows())
    session.log().warning(
        "sync.tables = rows: all workers exchange the numbers of their rows, "
        "and each of these messages is simulated; sync.tables = dense is "
        "faster to simulate");
  const double N = engine->workers;
  if (N > ModelledSums::kExactWorld && follows_rings(*engine))
    session.log().warning(fmt::format(
        "the links differ, so each of a ring's {:.2g} messages is "
        "simulated; sync.collective = butterfly or hierarchical has fewer",
        2 * N * (N - 1)));
  const double begin_s = monotonic_s();
  const std::string& limit = engine->plan.limit;
  if (!limit.empty()) session.log().line("limit      {}", limit);
  RunTrace trace(session, *engine,
                 RunDirectory(engine->options, engine->workers).path(),
                 RunTrace::Start::kNew);
  // A limit was resolved to steps by sending all messages, and the time has to
  // agree with it.
  is_exact = is_exact || !limit.empty();
  const std::vector<SimulatedWork> workers =
      simulate(*engine, is_exact ? Fidelity::kExact : Fidelity::kRun, &trace);
  report(session.log(), *engine, workers, monotonic_s() - begin_s);
  print_assumptions(session.log(), *engine);
  note_unused_links(session.log(), *engine);
  if (const RunTarget target(*engine); target)
    session.log().line(
        "note       run.target is not judged: the figures are for the run's "
        "whole length");
  if (const std::string text = trace.description(); !text.empty())
    session.log().line("trace      {}", text);
  if (!output.empty()) write_results(session, *engine, workers, output);
  return ExitCode::kDone;
}

}  // namespace syncopate
