// Training batches that a GPU decodes from JPEG files.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "problem/image_problem.h"

namespace syncopate {

// Returns whether the device decodes training batches from JPEG files, which it
// does whenever it can. The host still decodes files that are not plain
// (ops/jpeg.h) and images that are used at half their size or less.
bool decodes_on_device(const Setup& setup, const ImageProblem& problem);

// Returns the feed of worker `rank`, which begins at batch `first_batch`.
std::unique_ptr<Feed> make_jpeg_feed(const Setup& setup,
                                     const ImageProblem& problem,
                                     int rank,
                                     int64_t first_batch);

}  // namespace syncopate
