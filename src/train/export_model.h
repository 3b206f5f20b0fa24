// A checkpoint's model as a file of weights for other programs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>

#include "checkpoint/checkpoint.h"
#include "data/batch.h"

namespace syncopate {

// A checkpoint's fact about its samples, which a network's tensors alone do not
// tell: "3 x 32 x 32" for images (C, H, W), "" for questions, "10 20 30" for
// clicks, the rows of each field's part of the tables.
inline constexpr const char* kSampleFact = "sample";
std::string sample_fact(const SampleSpec& spec);
// The number of classes of images, for data without a training set.
inline constexpr const char* kClassesFact = "classes";
// The names of the classes by label, one per line; absent where they have none.
inline constexpr const char* kClassNamesFact = "class_names";
inline constexpr const char* kVocabularyFact = "vocabulary";

// Writes the model of a checkpoint, without its data: the mean over the workers
// (`replica` = "average"), worker K's own ("K"), easgd's centre ("centre"), or
// the moving average of eval.model = ema, averaged over the workers ("ema"),
// with BatchNorm's running statistics, which the returned line says if
// evaluations recomputed them. Names and layouts are those of the network's
// FileNames; `metadata` is completed by the run's facts. Returns a line about
// it. Error(kUsage) for another replica; Error(kBadInput) if the checkpoint
// does not say what is needed, or has no such model.
std::string export_model(const FoundCheckpoint& found,
                         const std::string& replica,
                         std::map<std::string, std::string> metadata,
                         const fs::path& output);

// Returns the replica that the evaluations of the checkpoint's run used
// (eval.model); where they used several, "average".
std::string evaluated_replica(const FoundCheckpoint& found);

}  // namespace syncopate
