// What is learnt and how: [model] [data] [optimizer] [schedule].
#include <algorithm>

#include "base/check.h"
#include "base/text.h"
#include "config/key_sections.h"

namespace syncopate {
namespace {

using Words = std::vector<std::string>;

Words keywords(const std::vector<std::pair<std::string, std::string>>& table) {
  Words words;
  for (const auto& entry : table) words.push_back(entry.first);
  return words;
}

Words without(Words words, const std::string& word) {
  std::erase(words, word);
  return words;
}

Words model_families() {
  Words words;
  for (const ModelInfo& info : model_table()) words.push_back(info.family);
  return words;
}

// The families whose table entry lists the key; no rule where all do.
std::vector<UsedWhen> families_with(const std::string& option) {
  Words families;
  for (const ModelInfo& info : model_table())
    if (std::count(info.options.begin(), info.options.end(), option) > 0)
      families.push_back(info.family);
  if (families.size() == model_table().size()) return {};
  CHECK_MSG(!families.empty(), "model.{}: no family uses it", option);
  return {{"model.family", families}};
}

// auto, none, or "0.5 0.5 0.5 / 0.2 0.2 0.2": as many deviations > 0 as means.
bool is_normalization(const std::string& text) {
  if (text == "auto" || text == "none") return true;
  const std::vector<std::string> halves = split(text, '/');
  if (halves.size() != 2) return false;
  size_t counts[2] = {};
  for (int half = 0; half < 2; ++half)
    for (const std::string& item : split(halves[half], ' ')) {
      if (item.empty()) continue;
      const auto value = parse_double(item);
      if (!value || (half == 1 && *value <= 0)) return false;
      ++counts[half];
    }
  return counts[0] == counts[1] && counts[0] > 0;
}

bool is_lr_factor(const std::string& text) {
  return text == "world" || text == "graph" ||
         parse_double(text).value_or(0) > 0;
}

std::vector<Key> synthetic_keys() {
  constexpr auto kData = &Options::data;
  const std::vector<UsedWhen> synthetic = {{"data.kind", {"synthetic_images"}}};
  const std::vector<UsedWhen> sized = {
      {"data.kind", {"synthetic_images", "image_folder", "prepared_images"}}};
  return {
      {.name = "data.samples",
       .target = at<kData, &DataOptions::samples>,
       .doc = "Training samples that are made.",
       .low = 1,
       .used_when = synthetic},
      {.name = "data.test_samples",
       .target = at<kData, &DataOptions::test_samples>,
       .doc = "Test samples that are made.",
       .low = 1,
       .used_when = synthetic},
      {.name = "data.classes",
       .target = at<kData, &DataOptions::classes>,
       .doc = "Classes of the made images.",
       .low = 2,
       .used_when = synthetic},
      {.name = "data.channels",
       .target = at<kData, &DataOptions::channels>,
       .doc = "Channels of the made images.",
       .low = 1,
       .used_when = synthetic},
      {.name = "data.height",
       .target = at<kData, &DataOptions::height>,
       .doc = "Height in pixels of what the network is fed; auto: 32 of made "
              "images, else 224.",
       .low = 1,
       .zero_word = "auto",
       .used_when = sized},
      {.name = "data.width",
       .target = at<kData, &DataOptions::width>,
       .doc = "Width in pixels of what the network is fed; auto: 32 of made "
              "images, else 224.",
       .low = 1,
       .zero_word = "auto",
       .used_when = sized},
      {.name = "data.noise",
       .target = at<kData, &DataOptions::noise>,
       .doc = "Noise on a class's pattern, in the pattern's standard "
              "deviations.",
       .low = 0,
       .used_when = synthetic},
      {.name = "data.synthetic_seed",
       .target = at<kData, &DataOptions::synthetic_seed>,
       .doc = "Seed of the made images, apart from run.seed.",
       .low = 0,
       .used_when = synthetic},
  };
}

// Of images that are read when they are needed.
std::vector<Key> image_file_keys() {
  constexpr auto kData = &Options::data;
  const std::vector<UsedWhen> read_late = {
      {"data.kind", {"image_folder", "prepared_images"}}};
  return {
      {.name = "data.eval_resize",
       .target = at<kData, &DataOptions::eval_resize>,
       .doc = "Evaluation resizes the shorter side to so many pixels and cuts "
              "out the middle; auto: 256/224 of the larger of height and "
              "width.",
       .low = 1,
       .zero_word = "auto",
       .used_when = read_late},
      {.name = "data.decode_threads",
       .target = at<kData, &DataOptions::decode_threads>,
       .doc = "Threads of a process that decode and resize images; auto: as "
              "many as run.threads.",
       .low = 1,
       .high = 1024,  // more cores than a node has
       .zero_word = "auto",
       .used_when = read_late,
       .on_resume = OnResume::kMayChange},
  };
}

}  // namespace

std::vector<Key> model_keys() {
  constexpr auto kModel = &Options::model;
  auto dropout_use = families_with("dropout");
  dropout_use.push_back({"model.form", {"pre"}});
  return {
      {.name = "model.family",
       .target = at<kModel, &ModelOptions::family>,
       .doc = "The network.",
       .choices = model_families()},
      {.name = "model.depth",
       .target = at<kModel, &ModelOptions::depth>,
       .doc = "Layers, by the field's count: resnet 6n+2 (stem cifar) or 18, "
              "34, 50, 101 (ImageNet form, which 50 is under either stem); "
              "wrn 6n+2 (post), 6n+4 (pre), or "
              "50, 101 (stem imagenet).",
       .low = 1,
       .used_when = families_with("depth")},
      {.name = "model.width",
       .target = at<kModel, &ModelOptions::width>,
       .doc = "Widening factor k of WRN-d-k.",
       .low = 1,
       .high = 64,  // as models/wrn.cpp
       .used_when = families_with("width")},
      {.name = "model.stem",
       .target = at<kModel, &ModelOptions::stem>,
       .doc = "First layers: cifar is a 3x3 convolution, imagenet a 7x7 one "
              "of stride 2 with max-pooling.",
       .choices = {"cifar", "imagenet"},
       .used_when = families_with("stem")},
      {.name = "model.block",
       .target = at<kModel, &ModelOptions::block>,
       .doc = "Residual block; auto: basic below 44 layers, bottleneck from "
              "there on.",
       .choices = {"auto", "basic", "bottleneck"},
       .used_when = families_with("block")},
      {.name = "model.version",
       .target = at<kModel, &ModelOptions::version>,
       .doc = "1: activation after the addition; 2: before the convolutions.",
       .low = 1,
       .high = 2,
       .used_when = families_with("version")},
      {.name = "model.form",
       .target = at<kModel, &ModelOptions::form>,
       .doc = "Post-activation blocks (DS-Sync) or pre-activation blocks "
              "(Zagoruyko and Komodakis).",
       .choices = {"post", "pre"},
       .used_when = families_with("form")},
      {.name = "model.dropout",
       .target = at<kModel, &ModelOptions::dropout>,
       .doc = "Probability of dropping an activation inside a block.",
       .low = 0,
       .high = 1,
       .is_high_open = true,
       .used_when = dropout_use},
  };
}

namespace {

std::vector<Key> batch_keys() {
  constexpr auto kData = &Options::data;
  return {
      {.name = "data.batch",
       .target = at<kData, &DataOptions::batch>,
       .doc = "Samples of a mini-batch of one worker.",
       .low = 1},
      {.name = "data.batch_by_worker",
       .target = at<kData, &DataOptions::batch_by_worker>,
       .doc = "Samples of each worker's mini-batch, instead of data.batch; "
              "gradients are then averaged by samples.",
       .low = 1,
       .zero_word = "none"},
      {.name = "data.accumulate",
       .target = at<kData, &DataOptions::accumulate>,
       .doc = "Mini-batches whose gradients make one step.",
       .low = 1},
  };
}

}  // namespace

std::vector<Key> data_keys() {
  constexpr auto kData = &Options::data;
  std::vector<Key> keys = {
      {.name = "data.kind",
       .target = at<kData, &DataOptions::kind>,
       .doc = "Format of the data; synthetic_images makes them.",
       .choices = data_kinds()},
      {.name = "data.path",
       .target = at<kData, &DataOptions::path>,
       .doc = "Folder of the files, or the file of kind hdf5; must be given.",
       .used_when = {{"data.kind", without(data_kinds(), "synthetic_images")}},
       .on_resume = OnResume::kMayChange},
  };
  const std::vector<Key> more = {
      {.name = "data.partition",
       .target = at<kData, &DataOptions::partition>,
       .doc = "What a worker sees: interleaved, N workers with batch B see "
              "what one with N*B sees; random, contiguous: a share; sorted, "
              "by_class: a share of the labels.",
       .choices = {"interleaved", "random", "contiguous", "sorted",
                   "by_class"}},
      {.name = "data.validation",
       .target = at<kData, &DataOptions::validation>,
       .doc = "Training samples held out: below 1 a fraction, from 1 on their "
              "number.",
       .low = 0},
      {.name = "data.augment",
       .target = at<kData, &DataOptions::augment>,
       .doc = "Random changes of training images.",
       .choices = {"crop", "flip", "rotate", "resized_crop"},
       .zero_word = "none"},
      {.name = "data.crop_pad",
       .target = at<kData, &DataOptions::crop_pad>,
       .doc = "Pixels of zeros on each side before the crop back to size.",
       .low = 1,
       .used_when = {{"data.augment", {"crop"}}}},
      {.name = "data.rotate_degrees",
       .target = at<kData, &DataOptions::rotate_degrees>,
       .doc = "Largest rotation to either side, in degrees.",
       .low = 0,
       .high = 180,
       .is_low_open = true,
       .used_when = {{"data.augment", {"rotate"}}}},
      {.name = "data.crop_scale_min",
       .target = at<kData, &DataOptions::crop_scale_min>,
       .doc = "Least area of a random-resized crop, as a share of the image; "
              "the largest is 1.",
       .low = 0,
       .high = 1,
       .is_low_open = true,
       .used_when = {{"data.augment", {"resized_crop"}}}},
      {.name = "data.normalize",
       .target = at<kData, &DataOptions::normalize>,
       .doc = "auto: mean and deviation by channel of the training set (of "
              "image_folder: of 256 of its images); none: pixels / 255; or "
              "means / deviations by channel, of pixels in 0..1.",
       .form = {"auto, none or means / deviations such as 0.5 0.5 0.5 / 0.2 "
                "0.2 0.2",
                is_normalization}},
      {.name = "data.prefetch",
       .target = at<kData, &DataOptions::prefetch>,
       .doc = "Mini-batches prepared ahead by a thread; 0: when asked for. A "
              "training set that lies on a GPU needs none.",
       .low = 0,
       .high = 1024,  // each holds a batch of images in memory
       .on_resume = OnResume::kMayChange},
  };
  for (const auto& part :
       {batch_keys(), more, image_file_keys(), synthetic_keys()})
    keys.insert(keys.end(), part.begin(), part.end());
  return keys;
}

std::vector<Key> optimizer_keys() {
  constexpr auto kOptimizer = &Options::optimizer;
  // one_cycle names its rates itself.
  const std::vector<UsedWhen> with_lr = {
      {"schedule.kind", without(keywords(schedule_table()), "one_cycle")}};
  const std::vector<UsedWhen> with_scale = {
      {"optimizer.lr_scale", {"linear", "sqrt"}}};
  return {
      {.name = "optimizer.kind",
       .target = at<kOptimizer, &OptimizerOptions::kind>,
       .doc = "The optimizer.",
       .choices = keywords(optimizer_table())},
      {.name = "optimizer.lr",
       .target = at<kOptimizer, &OptimizerOptions::lr>,
       .doc = "Learning rate, before optimizer.lr_scale.",
       .low = 0,
       .used_when = with_lr},
      {.name = "optimizer.momentum",
       .target = at<kOptimizer, &OptimizerOptions::momentum>,
       .doc = "Momentum factor.",
       .low = 0,
       .high = 1,
       .is_high_open = true},
      {.name = "optimizer.nesterov",
       .target = at<kOptimizer, &OptimizerOptions::nesterov>,
       .doc = "Nesterov's form of the momentum."},
      {.name = "optimizer.weight_decay",
       .target = at<kOptimizer, &OptimizerOptions::weight_decay>,
       .doc = "Factor of the parameters that is added to the gradient.",
       .low = 0},
      {.name = "optimizer.decay_batchnorm",
       .target = at<kOptimizer, &OptimizerOptions::decay_batchnorm>,
       .doc = "Whether weight decay acts on gamma and beta of BatchNorm too."},
      {.name = "optimizer.clip_norm",
       .target = at<kOptimizer, &OptimizerOptions::clip_norm>,
       .doc = "Largest global norm of the gradient; 0: no clipping.",
       .low = 0},
      {.name = "optimizer.lr_scale",
       .target = at<kOptimizer, &OptimizerOptions::lr_scale>,
       .doc = "linear: lr * factor * batch / base_batch; sqrt: lr * "
              "sqrt(factor * batch / base_batch); none: lr.",
       .choices = {"none", "linear", "sqrt"},
       .used_when = with_lr},
      {.name = "optimizer.lr_factor",
       .target = at<kOptimizer, &OptimizerOptions::lr_factor>,
       .doc = "The factor of the scaling: the number of workers, of a "
              "worker's neighbours with itself, or a number.",
       .form = {"world, graph or a number > 0", is_lr_factor},
       .used_when = with_scale},
      {.name = "optimizer.base_batch",
       .target = at<kOptimizer, &OptimizerOptions::base_batch>,
       .doc = "Samples of the batch that lr was chosen for; 0: data.batch.",
       .low = 0,
       .used_when = with_scale},
  };
}

std::vector<Key> schedule_keys() {
  constexpr auto kSchedule = &Options::schedule;
  const auto used_by = [](Words kinds) {
    return std::vector<UsedWhen>{{"schedule.kind", std::move(kinds)}};
  };
  return {
      {.name = "schedule.kind",
       .target = at<kSchedule, &ScheduleOptions::kind>,
       .doc = "How the learning rate changes.",
       .choices = keywords(schedule_table())},
      {.name = "schedule.horizon",
       .target = at<kSchedule, &ScheduleOptions::horizon>,
       .doc = "Length that the schedule is laid out for; 0: that of the run.",
       .low = 0,
       .used_when = used_by({"cosine", "polynomial", "one_cycle"})},
      {.name = "schedule.warmup",
       .target = at<kSchedule, &ScheduleOptions::warmup>,
       .doc = "Linear rise from warmup_from in front of the schedule; 0: "
              "none.",
       .low = 0},
      {.name = "schedule.warmup_from",
       .target = at<kSchedule, &ScheduleOptions::warmup_from>,
       .doc = "Rate at the start of the warm-up.",
       .low = 0,
       .used_when = {{"schedule.warmup", {}}}},
      {.name = "schedule.milestones",
       .target = at<kSchedule, &ScheduleOptions::milestones>,
       .doc = "Where the rate is multiplied by gamma; must be given.",
       .low = 0,
       .is_low_open = true,
       .zero_word = "none",
       .used_when = used_by({"multistep"})},
      {.name = "schedule.gamma",
       .target = at<kSchedule, &ScheduleOptions::gamma>,
       .doc = "Factor of the rate at each milestone.",
       .low = 0,
       .is_low_open = true,
       .used_when = used_by({"multistep"})},
      {.name = "schedule.power",
       .target = at<kSchedule, &ScheduleOptions::power>,
       .doc = "Exponent of (1 - t/T).",
       .low = 0,
       .is_low_open = true,
       .used_when = used_by({"polynomial"})},
      {.name = "schedule.final_lr",
       .target = at<kSchedule, &ScheduleOptions::final_lr>,
       .doc = "Rate at the horizon.",
       .low = 0,
       .used_when = used_by({"cosine", "polynomial", "one_cycle"})},
      {.name = "schedule.low_lr",
       .target = at<kSchedule, &ScheduleOptions::low_lr>,
       .doc = "Rate at both ends of the cycle.",
       .low = 0,
       .used_when = used_by({"one_cycle"})},
      {.name = "schedule.high_lr",
       .target = at<kSchedule, &ScheduleOptions::high_lr>,
       .doc = "Rate at the peak of the cycle.",
       .low = 0,
       .used_when = used_by({"one_cycle"})},
      {.name = "schedule.cycle",
       .target = at<kSchedule, &ScheduleOptions::cycle>,
       .doc = "Length of the cycle, up and down; 0: up to the horizon.",
       .low = 0,
       .used_when = used_by({"one_cycle"})},
      {.name = "schedule.decay_rate",
       .target = at<kSchedule, &ScheduleOptions::decay_rate>,
       .doc = "Rate of lr / (1 + decay_rate * epochs).",
       .low = 0,
       .used_when = used_by({"inverse_time"})},
  };
}

}  // namespace syncopate
