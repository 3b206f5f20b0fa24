// A worker's training batches of images.
//
// On the CPU they are the loader's own. A GPU that has room keeps the whole
// training set: a batch is then a list of draws, and a kernel reads, augments
// and normalises. Files of JPEGs it decodes where it can, so that the host only
// reads them. Otherwise the loader's batches are copied through page-locked
// memory.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "problem/image_problem.h"

namespace syncopate {

std::unique_ptr<Feed> make_image_feed(const Setup& setup,
                                      const ImageProblem& problem,
                                      int rank,
                                      int64_t first_batch);

// Of a batch on the host, for BatchUpload.
int64_t image_batch_bytes(const ImageSpec& spec, int64_t samples);

}  // namespace syncopate
