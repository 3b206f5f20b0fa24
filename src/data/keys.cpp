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

std::vector<UsedWhen> of_images() {
  return {{"data.kind", image_kinds()}};
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
       .doc = "Training samples that are made; of synthetic_squad: questions.",
       .low = 1,
       .used_when = made},
      {.name = "data.test_samples",
       .place = &DataOptions::test_samples,
       .doc = "Test samples that are made; of synthetic_squad: questions.",
       .low = 1,
       .used_when = made},
      {.name = "data.classes",
       .place = &DataOptions::classes,
       .doc = "Classes of the made images.",
       .low = 2,
       .used_when = synthetic},
      {.name = "data.channels",
       .place = &DataOptions::channels,
       .doc = "Channels of the made images.",
       .low = 1,
       .used_when = synthetic},
      {.name = "data.height",
       .place = &DataOptions::height,
       .doc = "Height in pixels of what the network is fed; auto: 32 of made "
              "images, else 224.",
       .low = 1,
       .zero_word = "auto",
       .used_when = sized},
      {.name = "data.width",
       .place = &DataOptions::width,
       .doc = "Width in pixels of what the network is fed; auto: 32 of made "
              "images, else 224.",
       .low = 1,
       .zero_word = "auto",
       .used_when = sized},
      {.name = "data.noise",
       .place = &DataOptions::noise,
       .doc = "Noise on a class's pattern, in the pattern's standard "
              "deviations.",
       .low = 0,
       .used_when = synthetic},
      {.name = "data.synthetic_seed",
       .place = &DataOptions::synthetic_seed,
       .doc = "Seed of the made samples, apart from run.seed.",
       .low = 0,
       .used_when = made},
  };
}

Keys question_keys() {
  const std::vector<UsedWhen> questions = {{"data.kind", question_kinds()}};
  const std::vector<UsedWhen> squad = {{"data.kind", {"squad"}}};
  return {
      {.name = "data.vocabulary",
       .place = &DataOptions::vocabulary,
       .doc = "WordPiece vocabulary of BERT, one token a line; must be given.",
       .used_when = squad,
       .on_resume = OnResume::kMayChange},
      {.name = "data.lower_case",
       .place = &DataOptions::lower_case,
       .doc = "Whether text is lower-cased and stripped of accents, as uncased "
              "vocabularies ask for.",
       .used_when = squad},
      {.name = "data.max_length",
       .place = &DataOptions::max_length,
       .doc = "Tokens of a sample, special ones included; a longer context is "
              "seen through several windows.",
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
       .doc = "Tokens of a question, the rest is cut off.",
       .low = 1,
       .used_when = questions},
      {.name = "data.bucketing",
       .place = &DataOptions::bucketing,
       .doc = "Whether the samples of a step have like lengths, so that "
              "workers have like work: an epoch's random order is sorted by "
              "length within windows of 64 steps, and the steps are shuffled.",
       .used_when = questions},
      {.name = "data.context_words",
       .place = &DataOptions::context_words,
       .doc = "Words of a made context, on average.",
       .low = 8,
       .used_when = {{"data.kind", {"synthetic_squad"}}}},
      {.name = "data.field_rows",
       .place = &DataOptions::field_rows,
       .doc = "Values that a made categorical field has.",
       .low = 2,
       .high = 1 << 24,
       .used_when = {{"data.kind", {"synthetic_criteo"}}}},
  };
}

// Keys of images that are read on demand.
Keys image_file_keys() {
  const std::vector<UsedWhen> read_late = {
      {"data.kind", kinds_that(&DataKind::is_read_late)}};
  return {
      {.name = "data.eval_resize",
       .place = &DataOptions::eval_resize,
       .doc = "Evaluation resizes the shorter side to so many pixels and cuts "
              "out the middle; auto: 256/224 of the larger of height and "
              "width.",
       .low = 1,
       .zero_word = "auto",
       .used_when = read_late},
      {.name = "data.decode_threads",
       .place = &DataOptions::decode_threads,
       .doc = "Threads of a process that decode and resize images; auto: as "
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
       .doc = "Samples of a mini-batch of one worker.",
       .low = 1},
      {.name = "data.batch_by_worker",
       .place = &DataOptions::batch_by_worker,
       .doc = "Samples of each worker's mini-batch, instead of data.batch; "
              "gradients are then averaged by samples.",
       .low = 1,
       .zero_word = "none"},
      {.name = "data.accumulate",
       .place = &DataOptions::accumulate,
       .doc = "Mini-batches whose gradients make one step.",
       .low = 1},
  };
}

}  // namespace

Keys data_keys() {
  Keys keys = {
      {.name = "data.kind",
       .place = &DataOptions::kind,
       .doc = "Format of the data; synthetic_* makes them.",
       .choices = data_kinds(),
       .traits = {{"questions", question_kinds()}}},
      {.name = "data.path",
       .place = &DataOptions::path,
       .doc = "Folder of the files, or the file of kind hdf5; must be given.",
       .used_when = {{"data.kind", kinds_that([](const DataKind& kind) {
                        return !kind.is_made;
                      })}},
       .on_resume = OnResume::kMayChange},
  };
  const Keys more = {
      {.name = "data.partition",
       .place = &DataOptions::partition,
       .doc = "What a worker sees: interleaved, N workers with batch B see "
              "what one with N*B sees; random, contiguous: a share; sorted, "
              "by_class: a share of the labels (questions have none)."},
      {.name = "data.validation",
       .place = &DataOptions::validation,
       .doc = "Training samples held out: below 1 a fraction, from 1 on their "
              "number; of questions about so many windows, by whole questions.",
       .low = 0},
      {.name = "data.augment",
       .place = &DataOptions::augment,
       .doc = "Random changes of training images.",
       .choices = {"crop", "flip", "rotate", "resized_crop"},
       .zero_word = "none",
       .used_when = of_images()},
      {.name = "data.crop_pad",
       .place = &DataOptions::crop_pad,
       .doc = "Pixels of zeros on each side before the crop back to size.",
       .low = 1,
       .used_when = {{"data.augment", {"crop"}}}},
      {.name = "data.rotate_degrees",
       .place = &DataOptions::rotate_degrees,
       .doc = "Largest rotation to either side, in degrees.",
       .low = 0,
       .high = 180,
       .is_low_open = true,
       .used_when = {{"data.augment", {"rotate"}}}},
      {.name = "data.crop_scale_min",
       .place = &DataOptions::crop_scale_min,
       .doc = "Least area of a random-resized crop, as a share of the image; "
              "the largest is 1.",
       .low = 0,
       .high = 1,
       .is_low_open = true,
       .used_when = {{"data.augment", {"resized_crop"}}}},
      {.name = "data.normalize",
       .place = &DataOptions::normalize,
       .doc = "auto: mean and deviation by channel of the training samples, "
              "without those that are held out (of image_folder: of 256 of "
              "them); none: pixels / 255; or means / deviations by channel, of "
              "pixels in 0..1.",
       .form = {"auto, none or means / deviations such as 0.5 0.5 0.5 / 0.2 "
                "0.2 0.2",
                is_normalization},
       .used_when = of_images()},
      {.name = "data.prefetch",
       .place = &DataOptions::prefetch,
       .doc = "Mini-batches prepared ahead by a thread; 0: when asked for. A "
              "training set that lies on a GPU needs none.",
       .low = 0,
       .high = 1024,  // each holds a batch in memory
       .on_resume = OnResume::kMayChange},
  };
  append(keys, batch_keys());
  append(keys, more);
  for (const auto part : {image_file_keys, question_keys, synthetic_keys})
    append(keys, part());
  return keys;
}

}  // namespace syncopate
