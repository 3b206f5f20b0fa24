// The keys of [data].
#include <functional>

#include "data/images/normalization.h"
#include "data/kinds.h"
#include "data/options.h"
#include "keys/key.h"

namespace syncopate {
namespace {

using Words = std::vector<std::string>;

bool is_normalization(const std::string& text) {
  return text == "auto" || text == "none" || parse_normalization(text);
}

Words kinds_that(const std::function<bool(const DataKind&)>& has) {
  return names_of(data_kind_table(), &DataKind::name, has);
}

Keys synthetic_keys() {
  const std::vector<UsedWhen> synthetic = {{"data.kind", {"synthetic_images"}}};
  const std::vector<UsedWhen> made = {
      {"data.kind", kinds_that(&DataKind::is_made)}};
  Words images = kinds_that([](const DataKind& kind) {
    return kind.samples == Samples::kImages && kind.is_made;
  });
  for (const std::string& kind : kinds_that(&DataKind::is_read_late))
    images.push_back(kind);
  const std::vector<UsedWhen> sized = {{"data.kind", images}};
  return {
      {.name = "data.samples",
       .place = &DataOptions::samples,
       .doc = "Generated training samples (synthetic_squad: questions).",
       .low = 1,
       .used_when = made},
      {.name = "data.test_samples",
       .place = &DataOptions::test_samples,
       .doc = "Generated test samples (synthetic_squad: questions).",
       .low = 1,
       .used_when = made},
      {.name = "data.classes",
       .place = &DataOptions::classes,
       .doc = "Number of classes of generated images.",
       .low = 2,
       .used_when = synthetic},
      {.name = "data.channels",
       .place = &DataOptions::channels,
       .doc = "Number of channels of generated images.",
       .low = 1,
       .used_when = synthetic},
      {.name = "data.height",
       .place = &DataOptions::height,
       .doc = "Height of the network's input in pixels; auto: 32 for generated "
              "images, otherwise 224.",
       .low = 1,
       .zero_word = "auto",
       .used_when = sized},
      {.name = "data.width",
       .place = &DataOptions::width,
       .doc = "Width of the network's input in pixels; auto: 32 for generated "
              "images, otherwise 224.",
       .low = 1,
       .zero_word = "auto",
       .used_when = sized},
      {.name = "data.noise",
       .place = &DataOptions::noise,
       .doc = "Noise added to a class's pattern, in standard deviations of "
              "the pattern.",
       .low = 0,
       .used_when = synthetic},
      {.name = "data.synthetic_seed",
       .place = &DataOptions::synthetic_seed,
       .doc = "Seed of the generated samples, independent of run.seed.",
       .low = 0,
       .used_when = made},
  };
}

Keys question_keys() {
  const std::vector<UsedWhen> questions = {
      {"data.kind", kinds_of(Samples::kQuestions)}};
  const std::vector<UsedWhen> squad = {{"data.kind", {"squad"}}};
  return {
      {.name = "data.vocabulary",
       .place = &DataOptions::vocabulary,
       .doc = "BERT's WordPiece vocabulary, one token per line; required.",
       .used_when = squad,
       .on_resume = OnResume::kMayChange},
      {.name = "data.lower_case",
       .place = &DataOptions::lower_case,
       .doc = "Whether text is lower-cased and stripped of accents, as uncased "
              "vocabularies require.",
       .used_when = squad},
      {.name = "data.max_length",
       .place = &DataOptions::max_length,
       .doc = "Maximum number of tokens per sample, including special tokens; "
              "a longer context is split into several windows.",
       .low = 16,  // each window must advance
       .high = 32767,
       .used_when = questions},
      {.name = "data.stride",
       .place = &DataOptions::stride,
       .doc = "Tokens from one window of a context to the next.",
       .low = 1,
       .used_when = questions},
      {.name = "data.max_question",
       .place = &DataOptions::max_question,
       .doc = "Maximum number of tokens per question; longer ones are "
              "truncated.",
       .low = 1,
       .used_when = questions},
      {.name = "data.bucketing",
       .place = &DataOptions::bucketing,
       .doc = "Whether the samples of a step have similar lengths, which "
              "balances the work of the workers: an epoch's random order is "
              "sorted by length within windows of 64 steps, and the steps are "
              "shuffled.",
       .used_when = questions},
      {.name = "data.context_words",
       .place = &DataOptions::context_words,
       .doc = "Average number of words of a generated context.",
       .low = 8,
       .used_when = {{"data.kind", {"synthetic_squad"}}}},
      {.name = "data.field_rows",
       .place = &DataOptions::field_rows,
       .doc = "Number of values of a generated categorical field.",
       .low = 2,
       .high = 1 << 24,
       .used_when = {{"data.kind", {"synthetic_criteo"}}}},
  };
}

// Keys of mini-batches that are prepared ahead, and of images read for them.
Keys loading_keys() {
  const std::vector<UsedWhen> read_late = {
      {"data.kind", kinds_that(&DataKind::is_read_late)}};
  return {
      {.name = "data.prefetch",
       .place = &DataOptions::prefetch,
       .doc = "Mini-batches prepared ahead (for clicks, by all free cores); "
              "0: each when needed. A training set on a GPU needs none.",
       .low = 0,
       .high = 1024,  // each holds a batch in memory
       .on_resume = OnResume::kMayChange},
      {.name = "data.eval_resize",
       .place = &DataOptions::eval_resize,
       .doc = "Evaluation resizes the shorter side to this many pixels and "
              "crops the centre; auto: 256/224 of the larger of height and "
              "width.",
       .low = 1,
       .zero_word = "auto",
       .used_when = read_late},
      {.name = "data.decode_threads",
       .place = &DataOptions::decode_threads,
       .doc = "Threads per process that decode and resize images; auto: as "
              "many as run.threads.",
       .low = 1,
       .high = 1024,  // more cores than a node has
       .zero_word = "auto",
       .used_when = read_late,
       .on_resume = OnResume::kMayChange},
  };
}

Keys batch_keys() {
  return {
      {.name = "data.batch",
       .place = &DataOptions::batch,
       .doc = "Samples per mini-batch of one worker.",
       .low = 1},
      {.name = "data.batch_by_worker",
       .place = &DataOptions::batch_by_worker,
       .doc = "Samples per mini-batch of each worker, instead of data.batch. "
              "Averages of gradients are then weighted by the number of "
              "samples; averages of parameters, and gradients that a server "
              "receives one by one, are not.",
       .low = 1,
       .zero_word = "none",
       .is_by_worker = true},
      {.name = "data.accumulate",
       .place = &DataOptions::accumulate,
       .doc = "Mini-batches whose gradients are accumulated into one step.",
       .low = 1},
      {.name = "data.partition",
       .place = &DataOptions::partition,
       .doc =
           "Which samples a worker sees. interleaved: N workers with batch B "
           "see what one with N*B sees; random, contiguous: a fixed share, in "
           "proportion to its batch; sorted: likewise, in the order of the "
           "labels; by_class: whole classes. sorted and by_class are not "
           "available for questions."},
      {.name = "data.validation",
       .place = &DataOptions::validation,
       .doc = "Training samples held out: a fraction if below 1, else their "
              "number; for questions: windows, rounded up to whole questions.",
       .low = 0},
  };
}

Keys image_keys() {
  const std::vector<UsedWhen> images = {
      {"data.kind", kinds_of(Samples::kImages)}};
  return {
      {.name = "data.augment",
       .place = &DataOptions::augment,
       .doc = "Random augmentation of training images.",
       .choices = {"crop", "flip", "rotate", "resized_crop"},
       .zero_word = "none",
       .used_when = images},
      {.name = "data.crop_pad",
       .place = &DataOptions::crop_pad,
       .doc = "Pixels added to each side before cropping back to size.",
       .low = 1,
       .used_when = {{"data.augment", {"crop"}}}},
      {.name = "data.fill",
       .place = &DataOptions::fill,
       .doc = "The pixels that crop and rotate add. mean: 0 after "
              "normalization, the mean colour; black: 0 before it, as "
              "torchvision's RandomCrop and RandomRotation make them.",
       .used_when = {{"data.augment", {"crop", "rotate"}}}},
      {.name = "data.rotate_degrees",
       .place = &DataOptions::rotate_degrees,
       .doc = "Largest rotation to either side, in degrees.",
       .low = 0,
       .high = 180,
       .is_low_open = true,
       .used_when = {{"data.augment", {"rotate"}}}},
      {.name = "data.crop_scale_min",
       .place = &DataOptions::crop_scale_min,
       .doc = "Smallest area of a random resized crop, as a fraction of the "
              "image; the largest is 1.",
       .low = 0,
       .high = 1,
       .is_low_open = true,
       .used_when = {{"data.augment", {"resized_crop"}}}},
      {.name = "data.normalize",
       .place = &DataOptions::normalize,
       .doc = "auto: mean and standard deviation per channel of the training "
              "samples that are not held out (image_folder: of 256 of them); "
              "none: pixels / 255; or means / deviations per channel, for "
              "pixels in 0..1.",
       .form = {"auto, none or means / deviations such as 0.5 0.5 0.5 / 0.2 "
                "0.2 0.2",
                is_normalization},
       .used_when = images},
  };
}

}  // namespace

Keys data_keys() {
  Keys keys = {
      {.name = "data.kind",
       .place = &DataOptions::kind,
       .doc = "Format of the data; synthetic_* is generated.",
       .choices = names_of(data_kind_table(), &DataKind::name),
       .traits = {{"questions", kinds_of(Samples::kQuestions)}}},
      {.name = "data.path",
       .place = &DataOptions::path,
       .doc =
           "Folder of the files, or the file if data.kind is hdf5; required.",
       .used_when = {{"data.kind", kinds_that([](const DataKind& kind) {
                        return !kind.is_made;
                      })}},
       .on_resume = OnResume::kMayChange},
  };
  for (const auto part :
       {batch_keys, image_keys, loading_keys, question_keys, synthetic_keys})
    append(keys, part());
  return keys;
}

}  // namespace syncopate
