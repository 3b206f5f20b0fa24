// The untyped half of launching a kernel.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include "device/device.h"

namespace syncopate {

// `arguments` holds the address of each argument. Errors are Error(kInternal)
// with the kernel's name.
void launch_kernel(const void* kernel,
                   dim3 grid,
                   dim3 block,
                   int64_t shared_bytes,
                   Stream& stream,
                   void** arguments);

}  // namespace syncopate
