// From a data set to one worker's batches: partition, order, augmentation,
// prefetch. Everything is a pure function of (seed, epoch, position), so a
// position is all that a checkpoint keeps.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "data/images/dataset.h"

namespace syncopate {

struct Key;

struct DataOptions {
  // idx cifar10 cifar100 hdf5 image_folder prepared_images synthetic_images;
  // squad synthetic_squad; criteo synthetic_criteo
  std::string kind = "idx";
  std::string path;
  int64_t batch = 128;                  // per worker
  std::vector<double> batch_by_worker;  // instead; empty: all alike
  int64_t accumulate = 1;               // batches per optimizer step
  int64_t batch_of(int rank) const;
  // interleaved: N workers with batch B see what one worker with batch N*B
  // sees, step by step. The others give each worker a fixed shard, which is
  // shuffled anew each epoch. random: a seeded split. contiguous: equal blocks
  // of the file. sorted: equal blocks of the label order. by_class: whole
  // classes dealt round robin.
  std::string partition = "interleaved";
  double validation = 0;  // fraction (< 1) or samples (>= 1) of train held out
  std::vector<std::string> augment;  // of: crop flip rotate resized_crop
  int64_t crop_pad = 4;  // pixels of zero (after normalisation) each side
  double rotate_degrees = 15;
  double crop_scale_min = 0.08;    // least area of a resized crop, of the image
  std::string normalize = "auto";  // auto: per channel of train; none: /255;
                                   // "m1 m2 m3 / s1 s2 s3" in units of 0..1
  int64_t prefetch = 2;            // batches prepared ahead, by a thread
  // image_folder, prepared_images
  int64_t eval_resize = 0;     // of the shorter side; 0: 256/224 of the size
  int64_t decode_threads = 0;  // that fill a batch; 0: the cores there are
  // synthetic_images; the size of image_folder and prepared_images too
  // synthetic_*
  int64_t samples = 2048, test_samples = 512, classes = 10;
  int64_t channels = 3;
  int64_t height = 0, width = 0;  // 0: 32 of synthetic_images, else 224
  double noise = 0.5;  // of a class's pattern, in its standard deviations
  uint64_t synthetic_seed = 7;
  // squad: path is the folder of train-v1.1.json and dev-v1.1.json, either of
  // them also as .json.gz
  std::string vocabulary;     // WordPiece vocabulary, one token a line
  bool lower_case = true;     // and strip accents: the uncased vocabularies
  int64_t max_length = 384;   // tokens of a sample, [CLS] and [SEP] with them
  int64_t stride = 128;       // of a long context's windows, tokens
  int64_t max_question = 64;  // tokens of a question, the rest is cut off
  // none: samples in any order; length: those of a step have like lengths, so
  // that workers have like work
  std::string bucketing = "length";
  // synthetic_squad
  int64_t context_words = 60;
  // synthetic_criteo
  int64_t field_rows = 1000;  // of each category's table
};

std::vector<Key> data_keys();  // of [data]

// Reads train and test. Errors: Error(kInputMissing), or Error(kBadInput)
// "FILE: offset N: what, expected, found".
Dataset load_dataset(const DataOptions& options);

// Kinds, for `list data` and for validation: of images (load_dataset), of
// questions (question_set.h), of clicks (click_set.h), and all of them.
std::vector<std::string> image_kinds();
std::vector<std::string> question_kinds();
std::vector<std::string> click_kinds();
std::vector<std::string> data_kinds();
// Whether the samples are made, and data.path is not used.
bool is_synthetic(const std::string& kind);

// height and width with their defaults filled in.
struct PixelSize {
  int64_t H, W;
};
PixelSize image_size(const DataOptions& options);

// Per channel, in units of stored pixels / 255 (bytes) or as stored (floats).
struct Normalization {
  std::vector<float> mean, std;
};
// auto: of `samples` (ascending indices into `train`) alone, so that what is
// held out has no part in it. Exact, but for JPEG files, of which it decodes
// 256 (the middle that evaluation sees) spread evenly over `samples`.
Normalization make_normalization(const DataOptions& options,
                                 const ImageSet& train,
                                 std::span<const int64_t> samples);
// The same of all samples.
Normalization make_normalization(const DataOptions& options,
                                 const ImageSet& train);
// "means / deviations", a value of data.normalize that gives the same floats.
std::string format_normalization(const Normalization& normalization);

// What the order and the shares of a training set go by.
struct SampleTable {
  int64_t samples = 0;
  // The class of a sample, for partitions by label; empty: there is none.
  std::function<int32_t(int64_t)> label_of = {};
  int64_t classes = 0;
  // (samples) how long each is, for bucketing; empty: all alike.
  std::vector<int32_t> lengths = {};
  // Samples [groups[i], groups[i + 1]) are held out, and evaluated, together;
  // empty: each is a group.
  std::vector<int64_t> groups = {};

  SampleTable() = default;
  SampleTable(const ImageSet& set);  // NOLINT: a view of a set
};

// Which samples of the train set are trained on and which are held out: the
// last `validation` of a seeded permutation; both in the file's order.
struct Split {
  std::vector<int64_t> train, validation;
};
Split split_validation(const DataOptions& options,
                       const SampleTable& train,
                       uint64_t seed);

// The order in which worker `rank` of `ranks` sees the split's samples. With
// data.bucketing = length, samples of like lengths come together: an epoch's
// order is cut into windows of 64 steps, each is sorted by length (in place of
// chance among equals), and the epoch's steps are then drawn in a random order.
// A copy shares its tables with the original; safe to use from several threads.
class Sampler {
 public:
  // Errors: kBadInput if one step of all workers takes more than there is.
  Sampler(const DataOptions& options,
          const SampleTable& set,
          std::vector<int64_t> indices,
          int ranks,
          uint64_t seed);
  // Batches (of options.batch) a worker has in one epoch; equal for all
  // workers, and whole steps of options.accumulate batches: what does not fill
  // a step on every worker is left for another epoch's order.
  int64_t batches_per_epoch() const;
  // Sample indices into the set, for worker `rank`, batch `index` (counted
  // from the run's start, so epoch = index / batches_per_epoch()). Interleaved:
  // the workers' batches in rank order are one batch of a single worker with
  // batch N*B, and `accumulate` batches are one of batch accumulate*N*B.
  std::vector<int64_t> batch(int rank, int64_t index) const;
  // The batch's place among all samples that the run draws, in the order of
  // batches, then ranks.
  uint64_t first_sample(int rank, int64_t index) const;

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

// Delivers a worker's training batches, prepared ahead by a thread of the
// process (with prefetch 0 by the caller itself). Augmentation goes by (seed,
// epoch, index of the sample in the set), so it does not depend on how many
// workers there are: crop or resized crop, then flip, then rotate. The
// set's own threads, where it has some, share out the images of a batch.
class Loader {
 public:
  // `set` must outlive it. Errors: kBadInput for impossible options.
  Loader(const DataOptions& options,
         const ImageSet& set,
         const Normalization& normalization,
         const Sampler& sampler,
         int rank,
         uint64_t seed,
         int64_t first_batch);  // resume position
  Loader(Loader&&) noexcept;
  ~Loader();
  // The view is valid until the next call. An error of the thread is thrown
  // here.
  Batch next();
  double wait_s() const;  // time next() had to wait, in all

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Fills `images` (N, H, W, C) and `labels` for evaluation: no augmentation.
struct HostBatch {
  std::vector<float> images;
  std::vector<int32_t> labels;
  Batch view(const ImageSpec& spec) const;
};
void fill_evaluation_batch(HostBatch& batch,
                           const ImageSet& set,
                           const Normalization& normalization,
                           std::span<const int64_t> indices);

}  // namespace syncopate
