// syncopate advise INPUT.ini: what every scheme would take, on the cluster that
// the input describes or, under MPI, on the one at hand; and which to use.
#include <algorithm>
#include <set>

#include "app/commands.h"
#include "app/network_notes.h"
#include "app/predict_variants.h"
#include "base/text.h"
#include "comm/modelled_sums.h"
#include "machine/probe.h"

namespace syncopate {
namespace {

struct AdviceRequest {
  // A scheme that changes the mathematics must be this much faster than bsp.
  double gain = 1.3;
  int64_t steps = 0;  // of each worker; 0: by the number of workers
};

AdviceRequest advice_request(const CommandLine& line) {
  AdviceRequest request;
  if (const auto given = line.options.find("gain");
      given != line.options.end()) {
    const auto gain = parse_double(given->second);
    if (!gain || !(*gain >= 1))
      fail(ExitCode::kUsage,
           "advise: --gain={}: expected a factor of at least 1", given->second);
    request.gain = *gain;
  }
  request.steps = line.whole_number("steps", 1, 1'000'000, request.steps);
  return request;
}

// Fewer steps among more workers, because a step takes longer to predict and
// averages over more step times.
int64_t simulated_steps(const AdviceRequest& request, int workers) {
  if (request.steps > 0) return request.steps;
  return std::clamp<int64_t>(8000 / workers, 8, 96);
}

std::string update_ms(const Prediction& one) {
  return one.update_from == UpdateFrom::kUnknown
             ? "unknown"
             : fmt::format("{:.4g}", 1e3 * one.update_s);
}

void print_table(Log& log,
                 const std::vector<Prediction>& predictions,
                 double bsp_samples_per_s) {
  log.line("{:>9} {:>11} {:>6} {:>10} {:>9} {:>10} {:>9}  {}", "ms/step",
           "samples/s", "ratio", "exposed ms", "update ms", "sent/step",
           "memory", "scheme (what limits it)");
  for (const Prediction& one : predictions) {
    if (!one.obstacle.empty()) continue;
    const auto steps = static_cast<double>(one.work.steps);
    log.line(
        "{:>9.4g} {:>11.5g} {:>6.3g} {:>10.4g} {:>9} {:>10} {:>9}  {} ({})",
        1e3 * one.step_s(), one.samples_per_s,
        one.samples_per_s / bsp_samples_per_s,
        1e3 * one.work.sync.exposed_s / steps, update_ms(one),
        human_bytes(static_cast<double>(one.work.bytes) / steps),
        human_bytes(static_cast<double>(one.work.state_bytes)),
        one.variant.text(), one.limit());
  }
}

void print_obstacles(Log& log, const std::vector<Prediction>& predictions) {
  constexpr std::string_view kPlace = "command line: ";  // not the user's
  for (const Prediction& one : predictions) {
    if (one.obstacle.empty()) continue;
    std::string why = one.obstacle.substr(0, one.obstacle.find('\n'));
    if (why.starts_with(kPlace)) why.erase(0, kPlace.size());
    log.line("left out   {}: {}", one.variant.text(), why);
  }
}

// Differences below that are noise.
constexpr double kAsFast = 0.98;

// Returns the variant with the fewest keys to set among those that are about as
// fast as the fastest.
const Prediction& simplest_of_the_fastest(
    const std::vector<Prediction>& by_speed) {
  const Prediction* simplest = &by_speed.front();
  for (const Prediction& one : by_speed)
    if (one.can_be_advised() &&
        one.samples_per_s >= kAsFast * by_speed.front().samples_per_s &&
        one.variant.keys.size() < simplest->variant.keys.size())
      simplest = &one;
  return *simplest;
}

// Returns which scheme to recommend of those with at least
// `least_samples_per_s`: the fastest that is not fragile, if there is one; of
// those about as fast, the one that the table of schemes has first.
const Prediction& recommended(const std::vector<Prediction>& by_speed,
                              double least_samples_per_s) {
  const std::vector<SchemeInfo>& table = scheme_table();
  const auto info = [&](const Prediction& one) {
    return std::ranges::find(table, one.variant.scheme, &SchemeInfo::keyword);
  };
  const auto is_fast_enough = [&](const Prediction& one) {
    return one.can_be_advised() && one.samples_per_s >= least_samples_per_s;
  };
  const auto robust =
      std::ranges::find_if(by_speed, [&](const Prediction& one) {
        return is_fast_enough(one) && !info(one)->is_fragile;
      });
  const Prediction& fastest =
      robust == by_speed.end() ? by_speed.front() : *robust;
  const Prediction* first = &fastest;
  for (const Prediction& one : by_speed)
    if (is_fast_enough(one) &&
        info(one)->is_fragile == info(fastest)->is_fragile &&
        one.samples_per_s >= kAsFast * fastest.samples_per_s &&
        info(one) < info(*first))
      first = &one;
  return *first;
}

// Which variant to use, and what it is compared with. Gains are relative to the
// fastest variant of `bsp`.
struct Advice {
  Advice(const AdviceRequest& request,
         const std::vector<Prediction>& bsp,
         const std::vector<Prediction>& others)
      : fastest_bsp(bsp.front()) {
    if (!others.empty() && others.front().can_be_advised())
      fastest_other = &others.front();
    if (!fastest_bsp.can_be_advised()) return;
    is_bsp = fastest_other == nullptr || gain_of(*fastest_other) < request.gain;
    advised =
        is_bsp ? &simplest_of_the_fastest(bsp)
               : &recommended(others, request.gain * fastest_bsp.samples_per_s);
  }
  double gain_of(const Prediction& other) const {
    return other.samples_per_s / fastest_bsp.samples_per_s;
  }

  const Prediction& fastest_bsp;
  const Prediction* fastest_other = nullptr;  // null: none can be advised
  const Prediction* advised = nullptr;  // null: the times of bsp are unknown
  bool is_bsp = true;
};

// Prints the keys to copy, the keys to remove from the input because a run with
// these would refuse them, and what makes a simulation agree with the table.
void print_variant(Log& log, const Prediction& advised) {
  log.line("advice     {}", advised.variant.text());
  if (!advised.unused.empty())
    log.line(
        "           after removing what it does not use from the input: {}",
        join(advised.unused, ", "));
  if (advised.has_measured_update())
    log.line("           To simulate it, add --compute.update_s={:.4g}",
             advised.update_s);
}

void print_reasons_for_other(Log& log, const Advice& advice) {
  log.line(
      "           {:.3g} times as many samples per second as the fastest bsp "
      "({}),",
      advice.gain_of(*advice.advised), advice.fastest_bsp.variant.text());
  log.line(
      "           which spends {:.0f}% of a step blocked on communication or "
      "on slower workers.",
      100 * advice.fastest_bsp.exposed_share());
  log.line(
      "           Accuracy per sample may differ from bsp's and is not "
      "predicted. Tune optimizer.lr");
  log.line(
      "           and the scheme's own keys: the best rates of schemes differ "
      "by a factor of");
  log.line("           up to 125 in inputs/studies.");
}

void print_reasons_for_bsp(Log& log, const Advice& advice, double least_gain) {
  log.line(
      "           No scheme that differs mathematically from bsp is {:.3g} "
      "times",
      least_gain);
  if (advice.fastest_other == nullptr) {
    log.line("           as fast (--gain).");
    return;
  }
  const std::string name = advice.fastest_other->variant.text();
  const double gain = advice.gain_of(*advice.fastest_other);
  log.line("           as fast (--gain); the fastest, {}, is {}", name,
           gain < 1.005 ? "hardly faster than bsp, if at all."
                        : fmt::format("{:.3g} times as fast.", gain));
}

void print_advice(Log& log,
                  const AdviceRequest& request,
                  const Advice& advice) {
  if (advice.advised == nullptr) {
    log.line(
        "advice     none, because bsp's own computations were not measured: "
        "give compute.update_s");
    return;
  }
  print_variant(log, *advice.advised);
  if (advice.is_bsp)
    print_reasons_for_bsp(log, advice, request.gain);
  else
    print_reasons_for_other(log, advice);
}

// A recommendation is based on a few steps only.
void print_episodes(Log& log, const ParsedInput& input) {
  const StragglerOptions& stragglers = input.options.stragglers;
  if (!stragglers.episodes.empty() || stragglers.delay_from > 0 ||
      stragglers.delay_until > 0)
    log.line(
        "note       [stragglers] has episodes or delays that come and go: only "
        "those within the simulated steps count; simulate covers a whole run");
}

// Predictor::predict leaves out what comes first under some schemes.
void print_starts(Log& log, const SyncOptions& sync) {
  const auto note = [&](const char* scheme, const char* key) {
    log.line(
        "note       {}: only its steps after {} count; simulate covers a whole "
        "run",
        scheme, key);
  };
  if (sync.local_sgd.start.value > 0) note("local_sgd", "local_sgd.start");
  if (!sync.dgc.warmup_ratios.empty()) note("dgc", "dgc.warmup_ratios");
}

// "96 steps of each worker", "16 to 2500 steps of each worker".
std::string steps_text(const std::vector<Prediction>& bsp,
                       const std::vector<Prediction>& others) {
  int64_t least = INT64_MAX, most = 0;
  for (const auto* predictions : {&bsp, &others})
    for (const Prediction& one : *predictions) {
      if (!one.obstacle.empty()) continue;
      const int64_t steps = one.work.steps / one.workers;
      least = std::min(least, steps);
      most = std::max(most, steps);
    }
  return least < most
             ? fmt::format("{} to {} steps of each worker", least, most)
             : counted(most, "step") + " of each worker";
}

// The schemes whose update_s is from there, each once: "dgc, ef_sign_sgd".
std::string schemes_from(UpdateFrom from,
                         const std::vector<Prediction>& bsp,
                         const std::vector<Prediction>& others) {
  std::set<std::string> names;
  for (const auto* predictions : {&bsp, &others})
    for (const Prediction& one : *predictions)
      if (one.obstacle.empty() && one.update_from == from)
        names.insert(one.variant.scheme);
  return join(std::vector<std::string>(names.begin(), names.end()), ", ");
}

// What was simulated, and where the schemes' own computations are from.
void print_simulated(Log& log,
                     const std::vector<Prediction>& bsp,
                     const std::vector<Prediction>& others) {
  const auto schemes = [&](UpdateFrom from) {
    return schemes_from(from, bsp, others);
  };
  log.line("simulated  {}; the schemes' own computations {}",
           steps_text(bsp, others),
           schemes(UpdateFrom::kInput).empty() ? "were measured on this machine"
                                               : "take compute.update_s");
  const std::string extrapolated = schemes(UpdateFrom::kExtrapolated);
  if (!extrapolated.empty())
    log.line(
        "note       the own computations of {} grow with the number of "
        "workers: "
        "measured with fewer workers and extrapolated",
        extrapolated);
  const std::string unknown = schemes(UpdateFrom::kUnknown);
  if (!unknown.empty())
    log.line(
        "note       not measured, because the workers that this takes do not "
        "fit into memory: the own computations of {}; they are missing in the "
        "times below, so none of these is advised. With compute.update_s, all "
        "are compared",
        unknown);
  if (bsp.front().variant.has_whole_tables())
    log.line(
        "note       with more than {} workers, schemes that send only the rows "
        "that a batch touches are predicted with sync.tables = dense; rows are "
        "faster if all batches together touch a small part of the tables",
        ModelledSums::kExactWorld);
}

void print_left_out(Log& log,
                    const std::vector<Prediction>& bsp,
                    const std::vector<Prediction>& others) {
  print_obstacles(log, bsp);
  print_obstacles(log, others);
  for (const SchemeInfo& info : scheme_table())
    if (info.is_composite)
      log.line(
          "left out   --sync.scheme={}: each of its phases is as fast as "
          "that scheme",
          info.keyword);
}

void print_cluster(Log& log, Cluster cluster, const Prediction* advised) {
  if (advised != nullptr) cluster.compute.update_s = advised->update_s;
  log.line("");
  log.line("The cluster as it was measured, for the input of a simulation{}:",
           advised == nullptr ? "" : " of what is advised");
  for (const std::string& text : cluster.input()) log.line("{}", text);
}

void advise(Session& session,
            const Engine& engine,
            const AdviceRequest& request,
            const Cluster* measured) {
  PredictionSettings settings;
  settings.steps = simulated_steps(request, engine.workers);
  settings.is_adjustable = request.steps == 0;
  Log& log = session.log();
  log.line("cluster    {} workers, {}", engine.workers,
           measured ? "measured"
                    : "as [compute], [network] and [stragglers] describe it");
  if (measured != nullptr) {
    settings.compute = measured->compute;
    settings.network = measured->network;
    for (const std::string& text : measured->lines) log.line("{}", text);
  } else {
    print_assumptions(log, engine);
    print_episodes(log, engine.input);
  }
  print_starts(log, engine.options.sync);
  Predictor predictor(session, engine, settings);
  const std::vector<Prediction> bsp = predictor.predict_bsp();
  if (!bsp.front().obstacle.empty())
    fail(ExitCode::kBadInput, "{}", bsp.front().obstacle);
  const std::vector<Prediction> others =
      predictor.predict_others(simplest_of_the_fastest(bsp).variant);
  print_simulated(log, bsp, others);
  const double base = bsp.front().samples_per_s;
  log.line("");
  log.line(
      "Bulk-synchronous training (the same mathematics; bf16 rounds "
      "messages):");
  print_table(log, bsp, base);
  log.line("");
  log.line("Other schemes (their accuracy per sample is not predicted):");
  print_table(log, others, base);
  log.line("");
  print_left_out(log, bsp, others);
  const Advice advice(request, bsp, others);
  print_advice(log, request, advice);
  if (measured != nullptr) print_cluster(log, *measured, advice.advised);
}

}  // namespace

ExitCode command_advise(Session& session, const CommandLine& line) {
  std::unique_ptr<Engine> engine, timed;
  AdviceRequest request;
  session.agree_on([&] {
    line.allow_only({"gain", "steps"}, CommandLine::Keys::kTaken);
    request = advice_request(line);
    engine = build_engine(session, line.only_argument("INPUT.ini"),
                          line.overrides, EngineUse::kSimulate);
    if (engine->workers < 2)
      fail(ExitCode::kUsage,
           "advise: needs at least two workers: run.workers = N, or "
           "mpiexec -n N");
    if (session.size() > 1) {
      // A scheme whose passes overlap no communication.
      const Variant local = {"local_sgd", {"--local_sgd.steps=4"}};
      timed = build_variant(session, *engine,
                            without_centre(local, *engine).overrides(),
                            EngineUse::kTrain);
    }
  });
  std::optional<Cluster> measured;
  if (timed) measured = probe_cluster(session, *timed);
  timed.reset();
  session.agree_on([&] {
    if (session.rank() == 0)
      advise(session, *engine, request, measured ? &*measured : nullptr);
  });
  return ExitCode::kDone;
}

}  // namespace syncopate
