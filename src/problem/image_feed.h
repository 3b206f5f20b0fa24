// A worker's training batches of images.
//
// On the CPU they are the loader's own batches. A GPU with enough memory keeps
// the whole training set; a batch is then a list of random draws, and a kernel
// reads, augments and normalises the images. If the GPU can decode JPEG files,
// the host only reads them. Otherwise the loader's batches are copied through
// page-locked memory.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "problem/image_problem.h"

namespace syncopate {

std::unique_ptr<Feed> make_image_feed(const Setup& setup,
                                      const ImageProblem& problem,
                                      int rank,
                                      int64_t first_batch);

// Returns the bytes of a batch on the host, for BatchUpload.
int64_t image_batch_bytes(const ImageSpec& spec, int64_t samples);

}  // namespace syncopate
