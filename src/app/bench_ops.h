// Times single ops at the sizes of the CIFAR networks.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/log.h"
#include "ops/context.h"

namespace syncopate {

void bench_ops(Log& log, Context& context, int64_t batch, DType dtype);

}  // namespace syncopate
