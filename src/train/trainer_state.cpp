// Starting, resuming and saving a run.
#include <algorithm>

#include "base/clock.h"
#include "base/text.h"
#include "checkpoint/agreement.h"
#include "checkpoint/folders.h"
#include "comm/collectives.h"
#include "comm/tags.h"
#include "comm/trace.h"
#include "train/checkpoint_model.h"
#include "train/export_model.h"
#include "train/recorder.h"
#include "train/trainer.h"

namespace syncopate {
namespace {

constexpr const char* kBytesModelled = "bytes_are_modelled";
constexpr const char* kNoCheckpoint =
    "results of a run that left no checkpoint";

}  // namespace

std::map<std::string, std::string> Trainer::facts() const {
  std::map<std::string, std::string> facts = engine_.problem->facts();
  facts["data"] = engine_.problem->digest();
  const SampleSpec spec = engine_.problem->spec();
  facts[kSampleFact] = sample_fact(spec);
  if (const auto* image = std::get_if<ImageSpec>(&spec))
    facts[kClassesFact] = std::to_string(image->classes);
  if (const auto names = engine_.problem->class_names(); !names.empty())
    facts[kClassNamesFact] = join(names, "\n");
  if (const auto digest = engine_.problem->vocabulary(); !digest.empty())
    facts[kVocabularyFact] = digest;
  facts["world"] = session_.size() > 1 ? "mpi" : "inproc";
  if (engine_.length_workers != endpoint_.size())
    facts[kLengthWorkers] = std::to_string(engine_.length_workers);
  if (const std::string reached = recorder_.target_reached(); !reached.empty())
    facts[kTargetReached] = reached;
  if (const std::string best = best_figure_.text(); !best.empty())
    facts[kBestFigure] = best;
  if (recorder_.bytes_are_modelled()) facts[kBytesModelled] = "yes";
  facts[kTrainingMs] = std::to_string(recorder_.training_ms());
  return facts;
}

void Trainer::visit_state(StateVisitor& visitor) {
  step_.visit_state(visitor);
  recorder_.visit_state(visitor);
  step_.visit_clock(visitor);
}

void Trainer::start_or_resume() {
  const std::optional<FoundCheckpoint> found = find_checkpoint();
  if (!found || starts_anew_from(*found))
    start_fresh(found);
  else
    resume(*found);
  step_.open_feed();
}

// A run resumes from its own newest checkpoint. A run without any resumes, or
// starts anew, from the one that checkpoint.resume names.
std::optional<FoundCheckpoint> Trainer::find_checkpoint() {
  const std::string& mode = engine_.options.checkpoint.resume;
  if (mode == "none") return std::nullopt;
  const fs::path own = directory_.checkpoints();
  try {
    auto found = agree_on_checkpoint(endpoint_, own, {});
    if (found || mode == "auto") return found;
    // Where a rank was started elsewhere, the path may mean something else.
    fs::path named;
    Outcome outcome;
    if (endpoint_.rank() == 0)
      outcome = attempt([&] { named = checkpoint_folder(mode); });
    tally_.uncounted([&] { outcome = share_outcome(endpoint_, outcome); });
    outcome.rethrow_if_failed();
    return agree_on_checkpoint(endpoint_, own, named);
  } catch (const Error& error) {
    throw AgreedError(error);  // found by all or by none
  }
}

// Returns whether a new run starts from the model alone ("warm start") because
// keys or data differ. All ranks get rank 0's answer.
bool Trainer::starts_anew_from(const FoundCheckpoint& found) {
  if (!engine_.saved || is_own(found)) return false;
  const auto data = found.facts.extra.find("data");
  const bool has_other_data = data != found.facts.extra.end() &&
                              data->second != engine_.problem->digest();
  const bool mine = engine_.saved->is_warm_start() || has_other_data;
  bool is_warm = false;
  tally_.uncounted(
      [&] { is_warm = !share_text(endpoint_, mine ? "warm" : "").empty(); });
  if (!is_warm || !results_) return is_warm;
  std::vector<std::string> differences = engine_.saved->differences;
  if (has_other_data) differences.emplace_back("other data");
  for (std::string& line : differences)
    line = line.substr(0, line.find(": not"));
  const std::string start = fmt::format(
      "warm start: a new run from the model of {} (scheme {}, step {})",
      found.folder.string(), found.facts.scheme, found.facts.step);
  session_.log().line("start     {}; not resumed, because {}", start,
                      join(differences, "; "));
  results_->provenance("start", start);
  return true;
}

// Generates or reads the initial values, on rank 0.
void Trainer::make_first_values(const std::optional<FoundCheckpoint>& from,
                                std::vector<float>& parameters,
                                std::vector<float>& buffers) {
  if (from) {
    refuse_other_network(engine_, *from);
    average_model(*from, *engine_.model, parameters, buffers);
    return;
  }
  engine_.model->initialise(parameters, buffers,
                            static_cast<uint64_t>(engine_.options.run.seed));
  const std::string start = engine_.model->describe_start();
  if (start.empty()) return;
  session_.log().line("start     {}", start);
  results_->provenance("start", start);
}

void Trainer::state_facts_of_data() {
  for (const auto& [name, value] : engine_.problem->facts()) {
    session_.log().line("{} {}", name, value);
    results_->provenance(name, value);
  }
}

void Trainer::start_fresh(const std::optional<FoundCheckpoint>& from) {
  if (results_) {
    directory_.set_results_aside(kNoCheckpoint, session_.log());
    results_->provenance("restarts", int64_t{0});
    state_facts_of_data();
  }
  Replica& replica = step_.replica();
  std::vector<float> parameters(replica.parameters.size());
  std::vector<float> buffers(replica.buffers.size());
  // One worker generates or reads the initial values and broadcasts them: this
  // saves time, and another node's mathematics library may round differently.
  Outcome made;
  if (results_)
    made = attempt([&] { make_first_values(from, parameters, buffers); });
  made = share_outcome(endpoint_, made);
  if (!made.ok()) throw AgreedError(made);
  for (std::vector<float>* range : {&parameters, &buffers})
    if (!range->empty())
      broadcast(endpoint_, endpoint_.world_group(),
                bytes_span(std::span(*range)), 0, tags::kCollective,
                Traffic::kBroadcast);
  replica.parameters.assign(parameters);
  replica.buffers.assign(buffers);
  if (MovingAverage* average = step_.average())
    average->start(replica.parameters, replica.buffers);
  scheme_.enter();
  tally_.forget_traffic();
}

// Returns the obstacles to resuming from a checkpoint, one line each. Rank 0
// compares keys; each rank compares its own data.
std::vector<std::string> Trainer::conflicts_with(
    const FoundCheckpoint& found) const {
  const CheckpointFacts& then = found.facts;
  std::vector<std::string> conflicts;
  const bool is_resized = then.workers != endpoint_.size();
  if (endpoint_.rank() == 0)
    conflicts =
        resume_conflicts(then.input, engine_.input.resolved,
                         is_resized ? Workers::kMayDiffer : Workers::kAlike);
  if (const std::string obstacle = resize_obstacle(engine_.options);
      is_resized && !obstacle.empty())
    conflicts.push_back(fmt::format(
        "run.workers: was {}, now {}: {}; expected {}, or another run.name, "
        "which with checkpoint.resume = {} starts a new run from this model",
        then.workers, endpoint_.size(), obstacle, then.workers,
        found.folder.string()));
  const auto data = then.extra.find("data");
  if (data != then.extra.end() && data->second != engine_.problem->digest())
    conflicts.push_back("data: not the data that the checkpoint was made on");
  return conflicts;
}

bool Trainer::is_own(const FoundCheckpoint& found) const {
  return found.folder.parent_path() == directory_.checkpoints();
}

bool Trainer::is_complete(const FoundCheckpoint& found) const {
  return is_own(found) &&
         (found.facts.worker_steps / endpoint_.size() >= engine_.plan.stop_at ||
          ended_at_target(found));
}

// Results that cannot be read, or are not those of this checkpoint, stay as
// they are.
bool Trainer::lacks_end(const FoundCheckpoint& found) const {
  if (!is_complete(found) || found.facts.workers != endpoint_.size() ||
      !(found.facts.step >= engine_.plan.total_steps || ended_at_target(found)))
    return false;
  RunOutcome outcome;
  if (!attempt([&] { outcome = read_outcome(directory_.results()); }).ok())
    return false;
  return outcome.ended == "none" && outcome.step == found.facts.step;
}

bool Trainer::ended_at_target(const FoundCheckpoint& found) const {
  const auto reached = found.facts.extra.find(kTargetReached);
  return reached != found.facts.extra.end() &&
         recorder_.is_target_of(reached->second);
}

// What to do if the input is not that of the run in this directory.
std::string Trainer::way_out(const FoundCheckpoint& found) const {
  if (!is_own(found)) return "";
  return fmt::format(
      "\nerror: another run is in {}: give this one another name, for example "
      "--run.name={}",
      directory_.path().string(),
      RunDirectory::free_name(engine_.options, engine_.workers));
}

void Trainer::load(const FoundCheckpoint& found) {
  const std::vector<std::string> conflicts = conflicts_with(found);
  if (!conflicts.empty())
    fail(ExitCode::kBadInput, "{}: cannot resume: {}{}", found.folder.string(),
         join(condensed(conflicts), "\nerror: "), way_out(found));
  engine_.problem->restore(*engine_.context, found.facts.extra);
  const bool is_resized = found.facts.workers != endpoint_.size();
  if (is_resized)
    load_resized(found);
  else
    load_checkpoint(found, endpoint_.rank(),
                    [this](StateVisitor& visitor) { visit_state(visitor); });
  lacks_end_ = results_ && lacks_end(found);
  if (!results_) return;
  if (!fs::exists(directory_.results())) {
    if (is_own(found))
      session_.log().warning(
          fmt::format("{} is missing: the rows up to step {} are lost",
                      directory_.results().string(), found.facts.step));
    if (!is_complete(found))
      directory_.set_results_aside("rows of lost results", session_.log());
    return;
  }
  if (is_complete(found) && !lacks_end_) return;
  // Rows of a run to which this checkpoint does not belong are not continued.
  if (!is_own(found)) {
    other_results_ = kNoCheckpoint;
  } else if (const int64_t width = results_->workers_in_file();
             width != endpoint_.size()) {
    // The width may differ from the checkpoint's: a start with another number
    // of workers may have ended before it saved anything.
    results_->take_provenance();
    results_->provenance("continues_from", found.facts.worker_steps);
    other_results_ = fmt::format("has rows of {}, and the run goes on with {}",
                                 counted(width, "worker"), endpoint_.size());
  } else {
    results_->resume(found.facts.worker_steps);
  }
}

// Rank 0 has the results. The others need to know only whether.
void Trainer::look_at_results(const FoundCheckpoint& found) {
  target_was_reached_ = recorder_.target_reached_before();
  // Of what an earlier row took to reach another target, too little is known.
  if (!target_was_reached_.empty() && !ended_at_target(found))
    lacks_end_ = false;
  double said[] = {target_was_reached_.empty() ? 0.0 : 1.0,
                   lacks_end_ ? 1.0 : 0.0};
  tally_.uncounted([&] {
    agree(endpoint_, endpoint_.world_group(), said, Combine::kMax,
          tags::kControl);
  });
  if (said[0] > 0 && target_was_reached_.empty())
    target_was_reached_ = "run.target was reached";
  lacks_end_ = said[1] > 0;
}

// If checkpoint.best had another value for a while, only the folder of the best
// checkpoint tells its figure. All ranks get rank 0's answer.
void Trainer::resume_best(const CheckpointFacts& facts) {
  best_figure_.resume(facts.extra);
  if (!best_figure_ || best_figure_.is_known()) return;
  std::string stated;
  if (results_)
    for (const fs::path& folder : checkpoint_folders(directory_.best())) {
      CheckpointFacts best;
      if (attempt([&] { best = read_checkpoint_facts(folder); }).ok() &&
          best.worker_steps <= facts.worker_steps &&
          best.extra.contains(kBestFigure))
        stated = best.extra.at(kBestFigure);
      if (!stated.empty()) break;
    }
  tally_.uncounted([&] { stated = share_text(endpoint_, stated); });
  if (!stated.empty())
    best_figure_.resume({{kBestFigure, stated}});
  else if (results_ && results_->table("eval").rows() > 0)
    best_since_ = facts.worker_steps / endpoint_.size();
}

// What a kill has left while older checkpoints were removed. Nothing is removed
// beside a damaged one.
void Trainer::prune(const FoundCheckpoint& found) const {
  attempt([&] {
    if (is_own(found) && found.warnings.empty())
      prune_folders(directory_.checkpoints(), found.facts.worker_steps,
                    engine_.options.checkpoint.keep);
    prune_folders(directory_.best(), INT64_MAX, 1);
  });
}

void Trainer::resume(const FoundCheckpoint& found) {
  Outcome may_resume;
  tally_.uncounted([&] {
    may_resume = agree_on_outcome(endpoint_, attempt([&] { load(found); }));
  });
  if (!may_resume.ok()) throw AgreedError(may_resume);
  endpoint_.set_clock(step_.ended_at());
  const bool is_resized = found.facts.workers != endpoint_.size();
  const int64_t worker_steps =
      found.facts.worker_steps -
      (is_resized ? found.facts.worker_steps % endpoint_.size() : 0);
  recorder_.forget_earlier_process(worker_steps);
  look_at_results(found);
  if (ended_at_target(found))
    target_was_reached_ = found.facts.extra.at(kTargetReached);
  resume_best(found.facts);
  if (found.facts.extra.contains(kBytesModelled))
    recorder_.note_modelled_bytes();
  if (!is_resized) saved_at_ = worker_steps;
  if (!results_) return;
  for (const std::string& warning : found.warnings)
    session_.log().warning(warning);
  const Options& options = engine_.options;
  if (found.format_version == 1 && found.facts.scheme == "dgc" &&
      options.sync.dgc.clip > 0)
    session_.log().warning(
        "dgc.clip: until this checkpoint the gradient was clipped as a whole, "
        "then decayed; from here on it is decayed, then clipped tensor by "
        "tensor");
  session_.log().line("resumed from {} (step {})", found.folder.string(),
                      found.facts.step);
  prune(found);
  if ((is_complete(found) || !target_was_reached_.empty()) && !lacks_end_)
    return;
  if (!other_results_.empty()) {
    const fs::path kept =
        directory_.keep_results(other_results_, session_.log());
    if (is_own(found))
      results_->provenance("continues", kept.filename().string());
  }
  // That of the results may be later than the checkpoint.
  const auto trained = found.facts.extra.find(kTrainingMs);
  recorder_.resume_clock(
      worker_steps / endpoint_.size(),
      trained == found.facts.extra.end()
          ? results_->provenance_integer(kTrainingMs).value_or(0)
          : parse_int(trained->second).value_or(0));
  results_->provenance(
      "restarts", results_->provenance_integer("restarts").value_or(0) + 1);
  // Commit at once, so that a process that is killed before its first
  // checkpoint counts as a restart.
  results_->commit();
  state_facts_of_data();
  if (is_resized) log_resized(found.facts);
}

void Trainer::save(const Position& at) {
  if (saved_at_ == at.worker_steps) return;
  const fs::path folder = write_checkpoint(at, directory_.checkpoints(),
                                           engine_.options.checkpoint.keep);
  if (results_)
    session_.log().line("checkpoint committed: {}", folder.string());
  saved_at_ = at.worker_steps;
  if (results_) warn(time_limit_.needs_signal(needed_to_stop_s()));
}

// A resumed run does not look there, so the folder may be ahead of its
// checkpoints after a kill; the run then reaches that step again.
void Trainer::save_best(const Position& at) {
  const fs::path folder = write_checkpoint(at, directory_.best(), 1);
  if (results_)
    session_.log().line(
        "checkpoint committed: {}, {} is the best {}", folder.string(),
        best_figure_.text(),
        best_since_ > 0 ? fmt::format("since step {}", best_since_) : "so far");
}

// Collective. Returns the committed folder.
fs::path Trainer::write_checkpoint(const Position& at,
                                   const fs::path& directory,
                                   int64_t keep) {
  enter(Stage::kCheckpoint);
  const double begin = monotonic_s();
  if (results_) {
    warn(time_limit_.too_late(checkpoint_expected_s()));
    results_->commit();
  }
  scheme_.quiesce();
  // Before the checkpoint from which a trace is continued at this boundary.
  if (WorkerTrace* trace = endpoint_.trace())
    trace->boundary(at.step, step_.clock());
  fs::path folder;
  try {
    tally_.uncounted([&] {
      folder = save_checkpoint(
          endpoint_, directory,
          {.worker_steps = at.worker_steps,
           .step = at.step,
           .workers = endpoint_.size(),
           .scheme = engine_.options.sync.scheme,
           .input = engine_.input.resolved,
           .extra = facts()},
          [this](StateVisitor& visitor) { visit_state(visitor); }, keep);
    });
  } catch (const Error& error) {
    throw AgreedError(error);  // save_checkpoint fails on all or on none
  }
  checkpoint_s_ = std::max(checkpoint_s_, monotonic_s() - begin);
  return folder;
}

void Trainer::warn(const std::string& text) {
  if (!text.empty()) session_.log().warning(text);
}

}  // namespace syncopate
