// Resuming with another number of workers. checkpoint/resized.h describes what
// becomes of each scheme's state.
#include "base/text.h"
#include "checkpoint/resized.h"
#include "data/sampler.h"
#include "train/trainer.h"

namespace syncopate {

// Loads the common model into the replicas, enters the scheme from it, and then
// restores the scheme's remaining state.
void Trainer::load_resized(const FoundCheckpoint& found) {
  Replica& replica = step_.replica();
  ResizedState state(found, endpoint_.rank(), endpoint_.size());
  state.visit_device_range(Owner::kWorker, "parameters",
                           engine_.model->parameters(),
                           replica.parameters.write());
  state.visit_device_range(Owner::kWorker, "buffers", engine_.model->buffers(),
                           replica.buffers);
  replica.optimizer->visit_state(state, Owner::kWorker);
  state.has_model();
  scheme_.enter();
  visit_state(state);
  const Sampler before(engine_.options.data,
                       engine_.problem->training_samples(), engine_.split.train,
                       found.facts.workers,
                       static_cast<uint64_t>(engine_.options.run.seed));
  step_.set_batches_seen(resized_position(
      state.of_workers("batches_seen"), before.batches_per_epoch(),
      endpoint_.size(), engine_.sampler->batches_per_epoch(),
      engine_.options.data.accumulate));
}

void Trainer::log_resized(const CheckpointFacts& then) {
  session_.log().line(
      "workers   {} before, {} now: step {} of {} workers is step {} of {}; {}",
      then.workers, endpoint_.size(), then.step, then.workers,
      then.worker_steps / endpoint_.size(), endpoint_.size(),
      scheme_info(then.scheme).keeps_replicas_equal
          ? "the model is as it was"
          : "all start from the average of the model and its optimizer");
  if (engine_.length_workers != endpoint_.size())
    session_.log().line(
        "lengths   in steps, such as run.steps, were given for {} workers and "
        "are multiplied by {:.4g} for {}",
        engine_.length_workers,
        static_cast<double>(engine_.length_workers) / endpoint_.size(),
        endpoint_.size());
}

}  // namespace syncopate
