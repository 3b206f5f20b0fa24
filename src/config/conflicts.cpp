#include "config/conflicts.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <initializer_list>

#include "base/check.h"
#include "base/text.h"
#include "config/episodes.h"
#include "config/value.h"
#include "data/images/dataset.h"
#include "data/kinds.h"

namespace syncopate {
namespace {

class ConflictChecker {
 public:
  using IsSound = std::function<bool(const std::string&)>;
  using Complain = std::function<void(const std::string&, const std::string&)>;

  ConflictChecker(const Options& options,
                  const IsSound& is_sound,
                  const Complain& complain)
      : options_(options), is_sound_(is_sound), complain_(complain) {}

  void run() const {
    if (all_sound({"run.epochs", "run.steps", "run.virtual_limit_s"}) &&
        options_.run.epochs == 0 && options_.run.steps == 0 &&
        options_.run.virtual_limit_s == 0)
      complain_("run.epochs",
                "is missing: give run.epochs or run.steps, greater than 0");
    virtual_limit();
    by_worker("compute.speed", options_.compute.speed.size());
    if (all_sound({"compute.law", "compute.trace"}) &&
        options_.compute.law == StepLaw::kTrace &&
        options_.compute.trace.empty())
      complain_("compute.trace", "is missing: a CSV file of seconds per step");
    network();
    const std::string& resume = options_.checkpoint.resume;
    std::error_code ignored;
    if (all_sound({"checkpoint.resume"}) && resume != "auto" &&
        resume != "none" && !std::filesystem::exists(resume, ignored))
      complain_("checkpoint.resume",
                fmt::format("there is no {}, expected auto, none or the path "
                            "of a checkpoint",
                            in_quotes(resume)));
  }

  // What else decides a run's length. run.steps is compared with the number
  // that the limit resolves to (train/virtual_limit.h).
  void virtual_limit() const {
    const char* key = "run.virtual_limit_s";
    if (!all_sound({key}) || options_.run.virtual_limit_s == 0) return;
    if (all_sound({"run.epochs"}) && options_.run.epochs > 0)
      complain_(key, fmt::format("stands beside run.epochs = {}, expected one "
                                 "of the two (run.epochs = 0)",
                                 options_.run.epochs));
    if (all_sound({"sync_switch.train_steps"}) &&
        !options_.sync.sync_switch.train_steps.empty())
      complain_(key,
                "stands beside sync_switch.train_steps, which fixes the run's "
                "length, expected sync_switch.fractions");
    if (all_sound({"asp.replay"}) && !options_.sync.asp.replay.empty())
      complain_(key,
                "stands beside asp.replay, which fixes the run's length, "
                "expected one of the two");
  }

  // Expects a number for each worker or, if the key allows it, one for all.
  void by_worker(const char* key,
                 size_t numbers,
                 const char* or_one = " or one for all") const {
    const int64_t workers = options_.run.workers;
    if (all_sound({"run.workers", key}) && workers > 0 && numbers > 1 &&
        static_cast<int64_t>(numbers) != workers)
      complain_(
          key, fmt::format("has {} numbers for run.workers = {}, expected {}{}",
                           numbers, workers, workers, or_one));
  }

  bool is_bandwidth_limited() const {
    const NetworkOptions& network = options_.network;
    return std::ranges::any_of(network.mbit_s,
                               [](double m) { return m > 0; }) ||
           network.group_mbit_s > 0;
  }

  void network() const {
    const NetworkOptions& network = options_.network;
    by_worker("network.latency_us", network.latency_us.size());
    by_worker("network.mbit_s", network.mbit_s.size());
    const int64_t workers = std::max<int64_t>(1, options_.run.workers);
    if (all_sound({"run.workers", "network.group"}) && network.group > 0 &&
        workers % network.group != 0)
      complain_("network.group",
                fmt::format("is {} and does not divide run.workers = {}",
                            network.group, workers));
    if (all_sound({"network.efficiency"}) && network.efficiency < 1 &&
        !is_bandwidth_limited() && network.uplink_mbit_s == 0 &&
        network.device_mbit_s == 0)
      complain_("network.efficiency",
                "is a share of a bandwidth, but none is limited; expected "
                "network.mbit_s > 0");
  }

  void stragglers() const {
    const StragglerOptions& stragglers = options_.stragglers;
    by_worker("stragglers.factor", stragglers.factor.size());
    if (all_sound({"stragglers.delay_workers"}) && stragglers.delay_ms > 0 &&
        stragglers.delay_workers.empty())
      complain_("stragglers.delay_workers",
                "is missing: name the ranks that stragglers.delay_ms delays");
    if (all_sound({"stragglers.delay_workers"}))
      for (const double rank : stragglers.delay_workers)
        if (rank != std::floor(rank) ||
            (options_.run.workers > 0 &&
             rank >= static_cast<double>(options_.run.workers)))
          complain_("stragglers.delay_workers",
                    fmt::format("{} is no rank of {} workers, which are "
                                "counted from 0",
                                rank, options_.run.workers));
    if (all_sound({"stragglers.delay_until", "stragglers.delay_from"}) &&
        stragglers.delay_until > 0 &&
        stragglers.delay_until <= stragglers.delay_from)
      complain_("stragglers.delay_until",
                fmt::format("is {}, expected more than "
                            "stragglers.delay_from = {}, or 0",
                            stragglers.delay_until, stragglers.delay_from));
    episodes();
  }

  void episodes() const {
    const std::vector<std::string>& texts = options_.stragglers.episodes;
    if (!all_sound({"stragglers.episodes"})) return;
    const std::string mistake = episodes_mistake(texts, options_.run.workers);
    if (!mistake.empty()) {
      complain_("stragglers.episodes", mistake);
      return;
    }
    for (const std::string& text : texts) {
      Episode episode;
      parse_episode(text, episode);
      if (episode.kind == Episode::Kind::kLink && episode.times > 1 &&
          !is_bandwidth_limited())
        complain_("stragglers.episodes",
                  text +
                      ": divides a bandwidth that has no limit, expected "
                      "network.mbit_s > 0 or an added latency, as +30ms");
    }
  }

  void target() const {
    if (all_sound({"run.target", "eval.every"}) &&
        !options_.run.target.empty() && options_.eval.every.value == 0)
      complain_("run.target",
                "is judged at evaluations, expected eval.every > 0");
  }

  void plateau() const {
    if (all_sound({"sync_switch.plateau", "eval.every"}) &&
        options_.sync.sync_switch.plateau != Plateau::kNone &&
        options_.eval.every.value == 0)
      complain_("sync_switch.plateau",
                "needs evaluations during the run, expected eval.every > 0");
  }

  void sync() const {
    const SyncOptions& sync = options_.sync;
    if (all_sound({"sync.wire", "sync.collective"}) &&
        sync.wire == Wire::kBf16 &&
        sync.collective == CollectiveAlgorithm::kNative)
      complain_("sync.wire",
                "is bf16, which sync.collective = native cannot send; "
                "expected fp32 or another collective");
    if (!all_sound({"sync_switch.order"})) return;
    const std::vector<std::string> phases = phase_schemes(sync.sync_switch);
    if (phases.empty())
      complain_("sync_switch.order",
                "is missing: expected schemes such as bsp, asp, or 10");
    for (const std::string& phase : phases) {
      const auto& all = scheme_table();
      const bool can_be =
          std::any_of(all.begin(), all.end(), [&](const SchemeInfo& info) {
            return info.keyword == phase && !info.is_composite;
          });
      if (!can_be)
        complain_("sync_switch.order",
                  fmt::format("{}: expected schemes other than sync_switch, "
                              "1 (bsp) or 0 (asp)",
                              in_quotes(phase)));
    }
  }

  void data() const {
    const DataOptions& data = options_.data;
    const auto& batches = data.batch_by_worker;
    if (all_sound({"data.batch_by_worker"}) && batches.size() == 1)
      complain_("data.batch_by_worker",
                "has 1 number, expected one for each worker; for all alike "
                "there is data.batch");
    by_worker("data.batch_by_worker", batches.size(), "");
    for (const double batch : batches)
      if (batch != std::floor(batch))
        complain_("data.batch_by_worker",
                  fmt::format("expected whole numbers, found {}", batch));
    if (all_sound({"data.kind", "data.path"}) && data.path.empty())
      complain_(
          "data.path",
          fmt::format("is missing: data.kind = {} reads files, expected "
                      "the path of {}",
                      data.kind, kind().is_one_file ? "a file" : "a folder"));
    if (all_sound({"data.kind", "data.vocabulary"}) && data.vocabulary.empty())
      complain_("data.vocabulary",
                "is missing: expected the path of a WordPiece vocabulary such "
                "as bert-base-uncased's vocab.txt");
    if (all_sound({"data.max_length", "data.max_question", "data.stride"}) &&
        is_question() && data.max_length < data.max_question + 3 + 1)
      complain_(
          "data.max_question",
          fmt::format("is {}, which leaves no room for a context in "
                      "data.max_length = {}, expected at most {}",
                      data.max_question, data.max_length, data.max_length - 4));
    const ModelOptions& model = options_.model;
    if (all_sound({"model.hidden", "model.heads"}) &&
        model.hidden % model.heads != 0)
      complain_("model.heads",
                fmt::format("is {}, which does not divide model.hidden = {}",
                            model.heads, model.hidden));
    if (all_sound({"model.positions", "data.max_length"}) && is_question() &&
        model.positions < data.max_length)
      complain_("model.positions",
                fmt::format("is {}, expected at least data.max_length = {}",
                            model.positions, data.max_length));
    if (data.validation >= 1 && data.validation != std::floor(data.validation))
      complain_("data.validation",
                fmt::format("expected a fraction below 1 or a whole number of "
                            "samples, found {}",
                            data.validation));
    if (all_sound({"data.validation", "eval.on"}) && data.validation == 0 &&
        options_.eval.on == SetPart::kValidation)
      complain_("eval.on",
                "is validation, but data.validation = 0 holds out no samples; "
                "expected eval.on = test or data.validation > 0");
    crop();
    resizing();
  }

  void optimizer() const {
    const OptimizerOptions& optimizer = options_.optimizer;
    if (all_sound({"optimizer.nesterov", "optimizer.momentum"}) &&
        optimizer.nesterov && optimizer.momentum == 0)
      complain_("optimizer.nesterov",
                "is yes, but optimizer.momentum = 0; expected nesterov = no "
                "or momentum > 0");
  }

  void schedule() const {
    const ScheduleOptions& schedule = options_.schedule;
    const bool has_fields = all_sound({"schedule.fields"});
    if (all_sound({"schedule.milestones"}))
      milestones(schedule.milestones, !has_fields);
    if (has_fields) fields();
    if (!all_sound(
            {"schedule.horizon", "schedule.warmup", "run.epochs", "run.steps"}))
      return;
    not_longer("schedule.warmup", schedule.warmup, horizon());
    if (!all_sound({"schedule.cycle"})) return;
    not_longer("schedule.cycle", schedule.cycle, horizon());
  }

 private:
  struct NamedLength {
    std::string name;
    Length length;
  };

  const DataKind& kind() const {
    const DataKind* found = find_data_kind(options_.data.kind);
    CHECK_MSG(found != nullptr, "data.kind: {}", options_.data.kind);
    return *found;
  }

  bool is_question() const { return kind().samples == Samples::kQuestions; }

  bool all_sound(std::initializer_list<const char*> keys) const {
    return std::all_of(keys.begin(), keys.end(),
                       [&](const char* key) { return is_sound_(key); });
  }

  // Returns the bounds of the schedule that are known from the input alone.
  // Lengths in steps and in epochs are comparable only once the data are read.
  std::vector<NamedLength> horizon() const {
    const Length& given = options_.schedule.horizon;
    if (given.value > 0) return {{"schedule.horizon", given}};
    std::vector<NamedLength> bounds;
    const RunOptions& run = options_.run;
    if (run.epochs > 0) bounds.push_back({"run.epochs", {run.epochs, true}});
    if (run.steps > 0)
      bounds.push_back({"run.steps", {static_cast<double>(run.steps), false}});
    return bounds;
  }

  void not_longer(const std::string& key,
                  const Length& length,
                  const std::vector<NamedLength>& bounds) const {
    for (const NamedLength& bound : bounds)
      if (bound.length.in_epochs == length.in_epochs &&
          length.value > bound.length.value)
        complain_(key, fmt::format("is {}, longer than {} = {}",
                                   format_length(length), bound.name,
                                   format_length(bound.length)));
  }

  // Expects two rates per field, and one field more than milestones.
  void fields() const {
    const ScheduleOptions& schedule = options_.schedule;
    if (!all_sound({"schedule.milestones"})) return;
    const size_t fields = schedule.milestones.size() + 1;
    if (schedule.fields.size() != 2 * fields)
      complain_("schedule.fields",
                fmt::format("has {} rates, expected {}: two for each of {} "
                            "fields, which schedule.milestones divide",
                            schedule.fields.size(), 2 * fields, fields));
    if (all_sound({"schedule.shapes"}) && !schedule.shapes.empty() &&
        schedule.shapes.size() != fields)
      complain_("schedule.shapes",
                fmt::format("has {} shapes, expected {}, one a field",
                            schedule.shapes.size(), fields));
    for (const std::string& shape : schedule.shapes)
      if (!value_named<FieldShape>(shape))
        complain_("schedule.shapes",
                  fmt::format("{}: expected linear, polynomial or inverse_time",
                              in_quotes(shape)));
  }

  void milestones(const std::vector<Length>& milestones,
                  bool must_be_given) const {
    if (milestones.empty() && must_be_given)
      complain_("schedule.milestones",
                "is missing: schedule.kind = multistep needs at least one, "
                "such as 60, 120, 160 epochs");
    for (size_t i = 1; i < milestones.size(); ++i) {
      const Length &before = milestones[i - 1], &here = milestones[i];
      if (before.in_epochs == here.in_epochs && before.value >= here.value)
        complain_("schedule.milestones",
                  fmt::format("expected increasing lengths, found {} after {}",
                              format_length(here), format_length(before)));
    }
  }

  // The size of images is known here for some kinds; for others, the loader
  // checks.
  void crop() const {
    const DataOptions& data = options_.data;
    if (!all_sound({"data.kind", "data.crop_pad"})) return;
    int64_t side = kind().side;
    if (all_sound({"data.height", "data.width"}))
      side = std::min(image_size(data).H, image_size(data).W);
    if (side > 0 && data.crop_pad >= side)
      complain_("data.crop_pad",
                fmt::format("is {}, expected less than the {} pixels of the "
                            "images",
                            data.crop_pad, side));
  }

  void resizing() const {
    const DataOptions& data = options_.data;
    const auto has = [&](const char* word) {
      return std::find(data.augment.begin(), data.augment.end(), word) !=
             data.augment.end();
    };
    if (all_sound({"data.augment"}) && has("crop") && has("resized_crop"))
      complain_("data.augment",
                "has crop and resized_crop, expected one of them");
    const int64_t longer = std::max(image_size(data).H, image_size(data).W);
    if (all_sound({"data.eval_resize", "data.height", "data.width"}) &&
        data.eval_resize > 0 && data.eval_resize < longer)
      complain_("data.eval_resize",
                fmt::format("is {}, expected at least the {} pixels of the "
                            "images",
                            data.eval_resize, longer));
  }

  const Options& options_;
  const IsSound& is_sound_;
  const Complain& complain_;
};

}  // namespace

void find_conflicts(
    const Options& options,
    const std::function<bool(const std::string& key)>& is_sound,
    const std::function<void(const std::string& key, const std::string& what)>&
        complain) {
  const ConflictChecker checker(options, is_sound, complain);
  checker.run();
  checker.data();
  checker.optimizer();
  checker.schedule();
  checker.sync();
  checker.stragglers();
  checker.plateau();
  checker.target();
}

}  // namespace syncopate
