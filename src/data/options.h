// Values of the keys of [data].
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/choice.h"

namespace syncopate {

struct Key;

// interleaved: at each step, N workers with batch B see the samples that one
// worker with batch N*B would see. The others give each worker a fixed shard,
// reshuffled every epoch. random: a seeded split. contiguous: equal blocks in
// file order. sorted: equal blocks in label order. by_class: whole classes,
// dealt round robin.
CHOICE(Partitioning,
       "interleaved random contiguous sorted by_class",
       {kInterleaved, kRandom, kContiguous, kSorted, kByClass});
// none: samples in random order; length: the samples of a step have similar
// lengths, which balances the work of the workers.
CHOICE(Bucketing, "none length", {kNone, kLength});
// The pixels that augmentation adds (tensor/image_map.h).
CHOICE(FillColour, "mean black", {kMean, kBlack});

// A trained model can be used without the set it was trained on: the readers of
// squad and, if the number of classes is known, of images then leave a training
// set empty that is not there, and test questions need no answers. Checkpoints
// of earlier versions do not tell the number of classes.
struct TrainedModel {
  bool is_used = false;
  int64_t classes = 0;                   // of images; 0: unknown
  std::vector<std::string> class_names;  // by label; empty: unknown
};

struct DataOptions {
  // idx cifar10 cifar100 hdf5 image_folder prepared_images synthetic_images;
  // squad synthetic_squad; criteo synthetic_criteo
  std::string kind = "idx";
  std::string path;
  int64_t batch = 128;                  // per worker
  std::vector<double> batch_by_worker;  // overrides batch; empty: all equal
  int64_t accumulate = 1;               // batches per optimizer step
  int64_t batch_of(int rank) const;
  Partitioning partition = Partitioning::kInterleaved;
  double validation = 0;  // held out of train: fraction (< 1) or samples
  std::vector<std::string> augment;  // any of crop flip rotate resized_crop
  int64_t crop_pad = 4;              // pixels on each side
  FillColour fill = FillColour::kMean;
  double rotate_degrees = 15;
  double crop_scale_min = 0.08;    // least area of a resized crop / image area
  std::string normalize = "auto";  // auto: per channel of train; none: /255;
                                   // or "m1 m2 m3 / s1 s2 s3" in 0..1
  int64_t prefetch = 2;            // batches prepared ahead by a thread
  // image_folder, prepared_images
  int64_t eval_resize = 0;  // of the shorter side; 0: size * 256/224
  // That fill a batch, or draw synthetic images; 0: one per core.
  int64_t decode_threads = 0;
  // synthetic_*; image_folder and prepared_images use height and width
  int64_t samples = 2048, test_samples = 512, classes = 10;
  int64_t channels = 3;
  int64_t height = 0, width = 0;  // 0: 32 of synthetic_images, else 224
  double noise = 0.5;             // in standard deviations of a class's pattern
  uint64_t synthetic_seed = 7;
  // squad: `path` is the folder of train-v1.1.json and dev-v1.1.json, each of
  // which may be gzipped (.json.gz).
  std::string vocabulary;     // WordPiece vocabulary, one token per line
  bool lower_case = true;     // and strip accents, for uncased vocabularies
  int64_t max_length = 384;   // tokens per sample, with [CLS] and [SEP]
  int64_t stride = 128;       // tokens between windows of a context
  int64_t max_question = 64;  // tokens; longer questions are truncated
  Bucketing bucketing = Bucketing::kLength;
  // synthetic_squad
  int64_t context_words = 60;
  // synthetic_criteo
  int64_t field_rows = 1000;  // of each categorical field's table

  TrainedModel trained;  // not a key
};

std::vector<Key> data_keys();  // of [data]

}  // namespace syncopate
