// Training batches that a GPU decodes from JPEG files.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "problem/image_problem.h"

namespace syncopate {

// Whether training batches are decoded from JPEG files by the device: where it
// can, without being asked to. Files that are not plain (ops/jpeg.h) and images
// that are seen at half their size or less are decoded by the host all the
// same.
bool decodes_on_device(const Setup& setup, const ImageProblem& problem);

// Worker `rank`, from batch `first_batch` of the run on.
std::unique_ptr<Feed> make_jpeg_feed(const Setup& setup,
                                     const ImageProblem& problem,
                                     int rank,
                                     int64_t first_batch);

}  // namespace syncopate
