// The CUDA stream behind a Stream: for kernels, libraries and NCCL.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include "device/device.h"

namespace syncopate {

// Also makes the stream's device current for the calling thread. A stream of
// another kind of device is a bug (CHECK).
cudaStream_t cuda_stream(Stream& stream);

// Makes a device current for the calling thread.
void use_cuda_device(int index);

}  // namespace syncopate
