// The CUDA stream behind a Stream: for kernels, libraries and NCCL.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include "device/device.h"

namespace syncopate {

// Makes the stream's device the calling thread's current one. A stream of
// another kind of device is our own mistake (CHECK).
cudaStream_t cuda_stream(Stream& stream);

// Makes a device the calling thread's current one, if it is not yet.
void use_cuda_device(int index);

}  // namespace syncopate
