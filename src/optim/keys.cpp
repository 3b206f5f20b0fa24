// The keys of [optimizer] and [schedule].
#include <algorithm>

#include "base/text.h"
#include "keys/key.h"
#include "optim/optimizer.h"
#include "optim/schedule.h"

namespace syncopate {
namespace {

using Words = std::vector<std::string>;

Words without(Words words, const std::string& word) {
  std::erase(words, word);
  return words;
}

bool is_lr_factor(const std::string& text) {
  return text == "world" || text == "graph" ||
         parse_double(text).value_or(0) > 0;
}

Keys adam_keys() {
  const std::vector<UsedWhen> of_adam = {{"optimizer.kind", {"adam", "adamw"}}};
  return {
      {.name = "optimizer.beta1",
       .place = &OptimizerOptions::beta1,
       .doc = "Decay of the gradient's running mean.",
       .low = 0,
       .high = 1,
       .is_high_open = true,
       .used_when = of_adam},
      {.name = "optimizer.beta2",
       .place = &OptimizerOptions::beta2,
       .doc = "Decay of the running mean of the gradient's square.",
       .low = 0,
       .high = 1,
       .is_high_open = true,
       .used_when = of_adam},
      {.name = "optimizer.eps",
       .place = &OptimizerOptions::eps,
       .doc = "Added to the root of the mean square, after bias correction.",
       // As a float it must not be 0.
       .low = 1e-30,
       .used_when = of_adam},
      {.name = "optimizer.embedding",
       .place = &OptimizerOptions::embedding,
       .doc = "Treatment of rows of embedding tables that no sample of "
              "a step uses. dense: as published, their moments decay, "
              "and they are updated with momentum and weight decay; "
              "lazy: they are left unchanged. lazy takes time only for "
              "the rows used but is a different optimizer; its bias "
              "correction counts all steps.",
       .used_when = {of_adam[0], {"model.family", {}, "tables"}}},
  };
}

Keys field_keys() {
  const std::vector<UsedWhen> by_fields = {{"schedule.kind", {"fields"}}};
  return {
      {.name = "schedule.fields",
       .place = &ScheduleOptions::fields,
       .doc = "Rates at the start and end of each field; fields extend "
              "from 0 to the first milestone, to the next ones, and to "
              "the horizon; required.",
       .low = 0,
       .zero_word = "none",
       .used_when = by_fields},
      {.name = "schedule.shapes",
       .place = &ScheduleOptions::shapes,
       .doc = "Shape of the rate in each field: linear; polynomial: "
              "first rate * (1 - t/T)^power; inverse_time: first rate / "
              "(1 + decay_rate * epochs), with epochs since the run's "
              "start. auto: linear in all fields.",
       .zero_word = "auto",
       .used_when = by_fields},
  };
}

}  // namespace

Keys optimizer_keys() {
  // one_cycle and fields name their rates themselves.
  const std::vector<UsedWhen> with_lr = {
      {"schedule.kind",
       without(without(all_names<ScheduleKind>(), "one_cycle"), "fields")}};
  const std::vector<UsedWhen> with_scale = {
      {"optimizer.lr_scale", {"linear", "sqrt"}}};
  const std::vector<UsedWhen> of_sgd = {{"optimizer.kind", {"sgd"}}};
  const UsedWhen when_decaying = {"optimizer.weight_decay", {}};
  Keys keys = {
      {.name = "optimizer.kind",
       .place = &OptimizerOptions::kind,
       .doc = "The optimizer.",
       .choices = keywords(optimizer_table())},
      {.name = "optimizer.lr",
       .place = &OptimizerOptions::lr,
       .doc = "Learning rate, before optimizer.lr_scale.",
       .low = 0,
       .used_when = with_lr},
      {.name = "optimizer.momentum",
       .place = &OptimizerOptions::momentum,
       .doc = "Momentum factor.",
       .low = 0,
       .high = 1,
       .is_high_open = true,
       .used_when = of_sgd},
      {.name = "optimizer.nesterov",
       .place = &OptimizerOptions::nesterov,
       .doc = "Nesterov's form of the momentum.",
       .used_when = of_sgd},
      {.name = "optimizer.weight_decay",
       .place = &OptimizerOptions::weight_decay,
       .doc = "Multiple of the parameters that is added to the gradient "
              "(adamw: to the update, before the rate is applied).",
       .low = 0},
      {.name = "optimizer.decay_batchnorm",
       .place = &OptimizerOptions::decay_batchnorm,
       .doc = "Whether weight decay also applies to gamma and beta of "
              "BatchNorm and LayerNorm.",
       .used_when = {{"model.family", {}, "norms"}, when_decaying}},
      {.name = "optimizer.decay_bias",
       .place = &OptimizerOptions::decay_bias,
       .doc = "Whether weight decay also applies to biases.",
       .used_when = {when_decaying}},
      {.name = "optimizer.clip_norm",
       .place = &OptimizerOptions::clip_norm,
       .doc = "Largest global norm of the gradient; 0: no clipping.",
       .low = 0},
      {.name = "optimizer.lr_scale",
       .place = &OptimizerOptions::lr_scale,
       .doc = "linear: lr * factor * batch / base_batch; sqrt: lr * "
              "sqrt(factor * batch / base_batch); none: lr. The batch is a "
              "worker's (data.accumulate does not count), or the mean of "
              "data.batch_by_worker.",
       .used_when = with_lr},
      {.name = "optimizer.lr_factor",
       .place = &OptimizerOptions::lr_factor,
       .doc = "Factor of the scaling: the number of workers, the number "
              "of a worker's neighbours including itself (without a graph: the "
              "number of workers), or a given number.",
       .form = {"world, graph or a number > 0", is_lr_factor},
       .used_when = with_scale},
      {.name = "optimizer.base_batch",
       .place = &OptimizerOptions::base_batch,
       .doc = "Batch size for which lr was chosen; 0: data.batch.",
       .low = 0,
       .used_when = with_scale},
  };
  const Keys adam = adam_keys();
  const auto behind = std::find_if(
      keys.begin(), keys.end(),
      [](const Key& key) { return key.name == "optimizer.weight_decay"; });
  keys.insert(behind, adam.begin(), adam.end());
  return keys;
}

Keys schedule_keys() {
  const auto used_by = [](Words kinds) {
    return std::vector<UsedWhen>{{"schedule.kind", std::move(kinds)}};
  };
  Keys keys = {
      {.name = "schedule.kind",
       .place = &ScheduleOptions::kind,
       .doc = "How the learning rate changes."},
      {.name = "schedule.horizon",
       .place = &ScheduleOptions::horizon,
       .doc = "Length of the schedule; 0: that of the run.",
       .low = 0,
       .used_when = used_by({"cosine", "polynomial", "one_cycle", "fields"})},
      {.name = "schedule.warmup",
       .place = &ScheduleOptions::warmup,
       .doc = "Length of a rise from warmup_from before the schedule; 0: "
              "none.",
       .low = 0,
       .used_when = used_by(without(all_names<ScheduleKind>(), "fields"))},
      {.name = "schedule.warmup_from",
       .place = &ScheduleOptions::warmup_from,
       .doc = "Rate at the start of the warm-up.",
       .low = 0,
       .used_when = {{"schedule.warmup", {}}}},
      {.name = "schedule.warmup_shape",
       .place = &ScheduleOptions::warmup_shape,
       .doc = "linear: the rate grows by the same amount each step; "
              "exponential: by the same factor.",
       .used_when = {{"schedule.warmup", {}}, {"schedule.warmup_from", {}}}},
      {.name = "schedule.milestones",
       .place = &ScheduleOptions::milestones,
       .doc = "Points at which the rate is multiplied by gamma; "
              "required. For fields: the boundaries between fields.",
       .low = 0,
       .is_low_open = true,
       .zero_word = "none",
       .used_when = used_by({"multistep", "fields"})},
      {.name = "schedule.gamma",
       .place = &ScheduleOptions::gamma,
       .doc = "Factor of the rate at each milestone.",
       .low = 0,
       .is_low_open = true,
       .used_when = used_by({"multistep"})},
      {.name = "schedule.power",
       .place = &ScheduleOptions::power,
       .doc = "Exponent of (1 - t/T).",
       .low = 0,
       .is_low_open = true,
       .used_when = used_by({"polynomial", "fields"})},
      {.name = "schedule.final_lr",
       .place = &ScheduleOptions::final_lr,
       .doc = "Rate at the horizon.",
       .low = 0,
       .used_when = used_by({"cosine", "polynomial", "one_cycle"})},
      {.name = "schedule.low_lr",
       .place = &ScheduleOptions::low_lr,
       .doc = "Rate at both ends of the cycle.",
       .low = 0,
       .used_when = used_by({"one_cycle"})},
      {.name = "schedule.high_lr",
       .place = &ScheduleOptions::high_lr,
       .doc = "Rate at the peak of the cycle.",
       .low = 0,
       .used_when = used_by({"one_cycle"})},
      {.name = "schedule.cycle",
       .place = &ScheduleOptions::cycle,
       .doc = "Length of the cycle, up and down; 0: up to the horizon.",
       .low = 0,
       .used_when = used_by({"one_cycle"})},
      {.name = "schedule.decay_rate",
       .place = &ScheduleOptions::decay_rate,
       .doc = "Rate of lr / (1 + decay_rate * epochs).",
       .low = 0,
       .used_when = used_by({"inverse_time", "fields"})},
  };
  append(keys, field_keys());
  return keys;
}

}  // namespace syncopate
