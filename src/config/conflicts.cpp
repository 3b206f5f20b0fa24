#include "config/conflicts.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <initializer_list>
#include <utility>

#include "base/check.h"
#include "config/episodes.h"
#include "config/goal.h"
#include "data/images/dataset.h"
#include "data/kinds.h"
#include "keys/value.h"

namespace syncopate {
namespace {

constexpr double kSlowest_mbit_s = 1e-6;

struct ConflictChecker {
  const Options& options;
  const IsSound& is_sound;
  const Complain& complain;

  bool all_sound(std::initializer_list<const char*> keys) const {
    return std::ranges::all_of(keys,
                               [&](const char* key) { return is_sound(key); });
  }

  // Complains about the first of `keys` if `is_wrong` and all of them are
  // sound.
  template <typename... Args>
  void refuse_if(bool is_wrong,
                 std::initializer_list<const char*> keys,
                 fmt::format_string<Args...> what,
                 Args&&... args) const {
    if (is_wrong && all_sound(keys))
      complain(*keys.begin(), fmt::format(what, std::forward<Args>(args)...));
  }

  // --- run, checkpoint -------------------------------------------------------

  void run() const {
    const RunOptions& run = options.run;
    refuse_if(run.epochs == 0 && run.steps == 0 && run.virtual_limit_s == 0,
              {"run.epochs", "run.steps", "run.virtual_limit_s"},
              "is missing: give run.epochs, run.steps or "
              "run.virtual_limit_s, greater than 0");
    if (run.virtual_limit_s > 0) virtual_limit();
    by_worker("compute.speed", options.compute.speed.size());
    refuse_if(
        options.compute.law == StepLaw::kTrace && options.compute.trace.empty(),
        {"compute.trace", "compute.law"},
        "is missing: a CSV file of seconds per step");
    network();
    const std::string& resume = options.checkpoint.resume;
    std::error_code ignored;
    refuse_if(resume != "auto" && resume != "none" &&
                  !std::filesystem::exists(resume, ignored),
              {"checkpoint.resume"},
              "there is no {}, expected auto, none or the path of a checkpoint",
              in_quotes(resume));
  }

  // What else decides a run's length. run.steps is compared with the number
  // that the limit resolves to (train/virtual_limit.h).
  void virtual_limit() const {
    const char* key = "run.virtual_limit_s";
    refuse_if(options.run.epochs > 0, {key, "run.epochs"},
              "cannot be combined with run.epochs = {}, expected one of the "
              "two (run.epochs = 0)",
              options.run.epochs);
    refuse_if(!options.sync.sync_switch.train_steps.empty(),
              {key, "sync_switch.train_steps"},
              "cannot be combined with sync_switch.train_steps, which fixes "
              "the run's length, expected sync_switch.fractions");
    refuse_if(!options.sync.asp.replay.empty(), {key, "asp.replay"},
              "cannot be combined with asp.replay, which fixes the run's "
              "length, expected one of the two");
  }

  // Expects a number for each worker or, if the key allows it, one for all.
  void by_worker(const char* key,
                 size_t numbers,
                 const char* or_one = " or one for all") const {
    const int64_t workers = options.run.workers;
    refuse_if(
        workers > 0 && numbers > 1 && static_cast<int64_t>(numbers) != workers,
        {key, "run.workers"},
        "has {} numbers for run.workers = {}, expected {}{}", numbers, workers,
        workers, or_one);
  }

  // Of any worker.
  bool is_bandwidth_limited() const {
    const NetworkOptions& network = options.network;
    return std::ranges::any_of(network.mbit_s,
                               [](double m) { return m > 0; }) ||
           network.group_mbit_s > 0;
  }

  // Whether messages pass outgoing links of limited bandwidth, within a group
  // or to other groups: those of each of `ranks`; empty: of some worker.
  bool passes_limited_links(const std::vector<int>& ranks) const {
    const NetworkOptions& network = options.network;
    const bool is_limited_to_others = std::ranges::any_of(
        network.mbit_s, [](double mbit_s) { return mbit_s > 0; });
    if (network.group > 1 && network.group_mbit_s > 0) return true;
    if (network.group > 0 && network.group == options.run.workers) return false;
    if (ranks.empty() || network.mbit_s.size() <= 1)
      return is_limited_to_others;
    return std::ranges::all_of(ranks, [&](int rank) {
      return rank >= std::ssize(network.mbit_s) ||
             of_worker(network.mbit_s, rank, 0) > 0;
    });
  }

  // Virtual times must stay far from the largest number.
  void bandwidth(const char* key, double mbit_s) const {
    const double efficiency = options.network.efficiency;
    refuse_if(
        mbit_s > 0 && mbit_s * efficiency < kSlowest_mbit_s,
        {key, "network.efficiency"},
        "{} with network.efficiency = {}, expected at least {} Mbit/s, or "
        "0 for no limit",
        mbit_s, efficiency, kSlowest_mbit_s);
  }

  void network() const {
    const NetworkOptions& network = options.network;
    by_worker("network.latency_us", network.latency_us.size());
    by_worker("network.mbit_s", network.mbit_s.size());
    for (const double mbit_s : network.mbit_s)
      bandwidth("network.mbit_s", mbit_s);
    bandwidth("network.group_mbit_s", network.group_mbit_s);
    bandwidth("network.uplink_mbit_s", network.uplink_mbit_s);
    bandwidth("network.server_mbit_s", network.server_mbit_s);
    bandwidth("network.device_mbit_s", network.device_mbit_s);
    const int64_t workers = options.run.workers;
    refuse_if(workers > 0 && network.group > 0 && workers % network.group != 0,
              {"network.group", "run.workers"},
              "is {} and does not divide run.workers = {}", network.group,
              workers);
    refuse_if(network.efficiency < 1 && !is_bandwidth_limited() &&
                  network.uplink_mbit_s == 0 && network.device_mbit_s == 0 &&
                  network.server_mbit_s == 0,
              {"network.efficiency"},
              "is a share of a bandwidth, but none is limited; expected "
              "network.mbit_s > 0");
  }

  // --- stragglers, evaluations -----------------------------------------------

  std::string not_a_rank(double rank) const {
    const int64_t workers = options.run.workers;
    if (workers == 0)  // auto
      return fmt::format("{} is not a rank, expected whole numbers", rank);
    if (workers == 1)
      return fmt::format("{} is not a rank: 1 worker has rank 0", rank);
    return fmt::format("{} is not a rank: {} workers have ranks 0 to {}", rank,
                       workers, workers - 1);
  }

  void stragglers() const {
    const StragglerOptions& stragglers = options.stragglers;
    const char* delayed = "stragglers.delay_workers";
    by_worker("stragglers.factor", stragglers.factor.size());
    refuse_if(stragglers.delay_ms > 0 && stragglers.delay_workers.empty(),
              {delayed},
              "is missing: name the ranks that stragglers.delay_ms delays");
    for (const double rank : stragglers.delay_workers)
      refuse_if(rank != std::floor(rank) ||
                    (options.run.workers > 0 &&
                     rank >= static_cast<double>(options.run.workers)),
                {delayed}, "{}", not_a_rank(rank));
    refuse_if(options.faults.kind != FaultKind::kNone &&
                  options.run.workers > 0 &&
                  options.faults.rank >= options.run.workers,
              {"faults.rank", "faults.kind", "run.workers"}, "{}",
              not_a_rank(static_cast<double>(options.faults.rank)));
    refuse_if(stragglers.delay_until > 0 &&
                  stragglers.delay_until <= stragglers.delay_from,
              {"stragglers.delay_until", "stragglers.delay_from"},
              "is {}, expected more than stragglers.delay_from = {}, or 0",
              stragglers.delay_until, stragglers.delay_from);
    episodes();
  }

  void episodes() const {
    const char* key = "stragglers.episodes";
    const std::vector<std::string>& texts = options.stragglers.episodes;
    const std::string mistake = episodes_mistake(texts, options.run.workers);
    refuse_if(!mistake.empty(), {key}, "{}", mistake);
    if (!mistake.empty()) return;
    for (const std::string& text : texts) {
      Episode episode;
      parse_episode(text, episode);
      refuse_if(episode.kind == Episode::Kind::kLink && episode.times > 1 &&
                    !passes_limited_links(episode.workers),
                {key},
                "{}: divides a bandwidth that has no limit, expected "
                "network.mbit_s > 0 or an added latency, as +30ms",
                text);
    }
  }

  // What evaluations during the run decide.
  void evaluations() const {
    const auto goal = parse_goal(options.run.target);
    refuse_if(goal && goal->metric.starts_with("accuracy") &&
                  (goal->value < 0 || goal->value > 1),
              {"run.target"},
              "{}: accuracies are shares, expected a value from 0 to 1",
              options.run.target);
    if (options.eval.every.value > 0) return;
    refuse_if(options.sync.sync_switch.plateau != Plateau::kNone,
              {"sync_switch.plateau", "eval.every"},
              "needs evaluations during the run, expected eval.every > 0");
    refuse_if(!options.run.target.empty(), {"run.target", "eval.every"},
              "is judged at evaluations, expected eval.every > 0");
  }

  // --- sync ------------------------------------------------------------------

  void sync() const {
    const SyncOptions& sync = options.sync;
    refuse_if(sync.wire == Wire::kBf16 &&
                  sync.collective == CollectiveAlgorithm::kNative,
              {"sync.wire", "sync.collective"},
              "is bf16, which sync.collective = native cannot send; expected "
              "fp32 or another collective");
    refuse_if(sync.compress.bits != CompressOptions().bits &&
                  sync.compress.levels > 0,
              {"compress.bits", "compress.levels"},
              "is {}, but compress.levels = {} determines the levels, expected "
              "one of the two",
              sync.compress.bits, sync.compress.levels);
    const std::vector<std::string> phases = phase_schemes(sync.sync_switch);
    refuse_if(phases.empty(), {"sync_switch.order"},
              "is missing: expected schemes such as bsp, asp, or 10");
    for (const std::string& phase : phases) {
      const bool can_be =
          std::ranges::any_of(scheme_table(), [&](const SchemeInfo& info) {
            return info.keyword == phase && !info.is_composite;
          });
      refuse_if(!can_be, {"sync_switch.order"},
                "{}: expected schemes other than sync_switch, 1 (bsp) or 0 "
                "(asp)",
                in_quotes(phase));
    }
  }

  // --- data, model -----------------------------------------------------------

  const DataKind& kind() const {
    const DataKind* found = find_data_kind(options.data.kind);
    CHECK_MSG(found != nullptr, "data.kind: {}", options.data.kind);
    return *found;
  }

  void data() const {
    const DataOptions& data = options.data;
    const auto& batches = data.batch_by_worker;
    refuse_if(batches.size() == 1, {"data.batch_by_worker"},
              "has 1 number, expected one per worker; use data.batch if all "
              "are equal");
    by_worker("data.batch_by_worker", batches.size(), "");
    for (const double batch : batches)
      refuse_if(batch != std::floor(batch), {"data.batch_by_worker"},
                "expected whole numbers, found {}", batch);
    refuse_if(data.path.empty(), {"data.path", "data.kind"},
              "is missing: data.kind = {} reads files, expected the path of {}",
              data.kind, kind().is_one_file ? "a file" : "a folder");
    refuse_if(data.vocabulary.empty(), {"data.vocabulary", "data.kind"},
              "is missing: expected the path of a WordPiece vocabulary such as "
              "bert-base-uncased's vocab.txt");
    if (kind().samples == Samples::kQuestions) questions();
    refuse_if(options.model.hidden % options.model.heads != 0,
              {"model.heads", "model.hidden"},
              "is {}, which does not divide model.hidden = {}",
              options.model.heads, options.model.hidden);
    refuse_if(
        data.validation >= 1 && data.validation != std::floor(data.validation),
        {"data.validation"},
        "expected a fraction below 1 or a whole number of samples, found "
        "{}",
        data.validation);
    refuse_if(data.validation == 0 && options.eval.on == SetPart::kValidation,
              {"eval.on", "data.validation"},
              "is validation, but data.validation = 0 holds out no samples; "
              "expected eval.on = test or data.validation > 0");
    crop();
    resizing();
  }

  void questions() const {
    const DataOptions& data = options.data;
    refuse_if(data.max_length < data.max_question + 3 + 1,
              {"data.max_question", "data.max_length", "data.stride"},
              "is {}, which leaves no room for a context in data.max_length = "
              "{}, expected at most {}",
              data.max_question, data.max_length, data.max_length - 4);
    refuse_if(options.model.positions < data.max_length,
              {"model.positions", "data.max_length"},
              "is {}, expected at least data.max_length = {}",
              options.model.positions, data.max_length);
  }

  // The size of images is known here for some kinds; for others, the loader
  // checks.
  void crop() const {
    const DataOptions& data = options.data;
    int64_t side = kind().side;
    if (all_sound({"data.height", "data.width"}))
      side = std::min(image_size(data).H, image_size(data).W);
    refuse_if(side > 0 && data.crop_pad >= side, {"data.crop_pad", "data.kind"},
              "is {}, expected less than the {} pixels of the images",
              data.crop_pad, side);
  }

  void resizing() const {
    const DataOptions& data = options.data;
    const auto has = [&](const char* word) {
      return std::ranges::count(data.augment, word) > 0;
    };
    refuse_if(has("crop") && has("resized_crop"), {"data.augment"},
              "has crop and resized_crop, expected one of them");
    const int64_t longer = std::max(image_size(data).H, image_size(data).W);
    refuse_if(data.eval_resize > 0 && data.eval_resize < longer,
              {"data.eval_resize", "data.height", "data.width"},
              "is {}, expected at least the {} pixels of the images",
              data.eval_resize, longer);
  }

  // --- optimizer, schedule ---------------------------------------------------

  void optimizer() const {
    refuse_if(options.optimizer.nesterov && options.optimizer.momentum == 0,
              {"optimizer.nesterov", "optimizer.momentum"},
              "is yes, but optimizer.momentum = 0; expected nesterov = no or "
              "momentum > 0");
  }

  void schedule() const {
    const ScheduleOptions& schedule = options.schedule;
    milestones();
    if (all_sound({"schedule.fields", "schedule.milestones"})) fields();
    not_longer("schedule.warmup", schedule.warmup);
    not_longer("schedule.cycle", schedule.cycle);
    refuse_if(
        schedule.kind == ScheduleKind::kOneCycle && schedule.cycle.value == 0 &&
            schedule.final_lr != 0,
        {"schedule.final_lr", "schedule.kind", "schedule.cycle"},
        "is the rate after a cycle that ends before the horizon, expected "
        "schedule.cycle > 0");
  }

  void milestones() const {
    const std::vector<Length>& milestones = options.schedule.milestones;
    refuse_if(milestones.empty() && !is_sound("schedule.fields"),
              {"schedule.milestones"},
              "is missing: schedule.kind = multistep needs at least one, such "
              "as 60, 120, 160 epochs");
    for (size_t i = 1; i < milestones.size(); ++i) {
      const Length &before = milestones[i - 1], &here = milestones[i];
      refuse_if(
          before.in_epochs == here.in_epochs && before.value >= here.value,
          {"schedule.milestones"},
          "expected increasing lengths, found {} after {}", format_length(here),
          format_length(before));
    }
  }

  // Expects two rates per field, and one field more than milestones.
  void fields() const {
    const ScheduleOptions& schedule = options.schedule;
    const size_t fields = schedule.milestones.size() + 1;
    refuse_if(schedule.fields.size() != 2 * fields, {"schedule.fields"},
              "has {} rates, expected {}: two for each of {} fields, which "
              "schedule.milestones divide",
              schedule.fields.size(), 2 * fields, fields);
    refuse_if(!schedule.shapes.empty() && schedule.shapes.size() != fields,
              {"schedule.shapes"}, "has {} shapes, expected {}, one a field",
              schedule.shapes.size(), fields);
    for (const std::string& shape : schedule.shapes)
      refuse_if(!value_named<FieldShape>(shape), {"schedule.shapes"},
                "{}: expected linear, polynomial or inverse_time",
                in_quotes(shape));
    const auto unused = [&](const char* key, const char* shape) {
      refuse_if(std::ranges::count(schedule.shapes, shape) == 0,
                {key, "schedule.shapes"},
                "is only used by the shape {}, which is not in schedule.shapes",
                shape);
    };
    if (schedule.power != ScheduleOptions().power)
      unused("schedule.power", "polynomial");
    if (schedule.decay_rate != ScheduleOptions().decay_rate)
      unused("schedule.decay_rate", "inverse_time");
  }

  // Compares `length` with the bounds of the schedule that are known from the
  // input alone. Lengths in steps and in epochs are comparable only once the
  // data are read.
  void not_longer(const char* key, const Length& length) const {
    const Length& horizon = options.schedule.horizon;
    const Length epochs = {options.run.epochs, true};
    const Length steps = {static_cast<double>(options.run.steps), false};
    const auto compare = [&](const char* name, const Length& bound) {
      refuse_if(bound.value > 0 && bound.in_epochs == length.in_epochs &&
                    length.value > bound.value,
                {key, "schedule.horizon", "schedule.warmup", "run.epochs",
                 "run.steps"},
                "is {}, longer than {} = {}", format_length(length), name,
                format_length(bound));
    };
    compare("schedule.horizon", horizon);
    if (horizon.value > 0) return;
    compare("run.epochs", epochs);
    compare("run.steps", steps);
  }
};

}  // namespace

void find_conflicts(const Options& options,
                    const IsSound& is_sound,
                    const Complain& complain) {
  const ConflictChecker checker{options, is_sound, complain};
  checker.run();
  checker.data();
  checker.optimizer();
  checker.schedule();
  checker.sync();
  checker.stragglers();
  checker.evaluations();
}

}  // namespace syncopate
