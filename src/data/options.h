// Values of the keys of [data].
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/choice.h"

namespace syncopate {

struct Key;

// interleaved: N workers with batch B see what one worker with batch N*B sees,
// step by step. The others give each worker a fixed shard, which is shuffled
// anew each epoch. random: a seeded split. contiguous: equal blocks of the
// file. sorted: equal blocks of the label order. by_class: whole classes dealt
// round robin.
CHOICE(Partitioning,
       "interleaved random contiguous sorted by_class",
       {kInterleaved, kRandom, kContiguous, kSorted, kByClass});
// none: samples in any order; length: those of a step have like lengths, so
// that workers have like work.
CHOICE(Bucketing, "none length", {kNone, kLength});

struct DataOptions {
  // idx cifar10 cifar100 hdf5 image_folder prepared_images synthetic_images;
  // squad synthetic_squad; criteo synthetic_criteo
  std::string kind = "idx";
  std::string path;
  int64_t batch = 128;                  // per worker
  std::vector<double> batch_by_worker;  // instead; empty: all alike
  int64_t accumulate = 1;               // batches per optimizer step
  int64_t batch_of(int rank) const;
  Partitioning partition = Partitioning::kInterleaved;
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
  // synthetic_*; of image_folder and prepared_images the size
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
  Bucketing bucketing = Bucketing::kLength;
  // synthetic_squad
  int64_t context_words = 60;
  // synthetic_criteo
  int64_t field_rows = 1000;  // of each category's table
};

std::vector<Key> data_keys();  // of [data]

}  // namespace syncopate
