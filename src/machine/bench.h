// The parts of `syncopate bench` that time ops.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "run/session.h"
#include "train/engine.h"

namespace syncopate {

// Times single ops at the sizes of the CIFAR networks.
void bench_ops(Log& log, Context& context, int64_t batch, DType dtype);

// Runs training steps in which each product and convolution takes the fastest
// of the plans that cuDNN and cuBLASLt have for it, and adds these to the file,
// which run.plans reads. One worker on a GPU.
void bench_plans(Session& session, Engine& engine, const fs::path& file);

// Times each op of training steps and logs a table of ops by time; ops of the
// same shape and engine share a line. "*" in a shape: it differs from step to
// step. On a GPU, an op's time includes the launch of its kernels if the host
// is not running ahead, as where ops take less than some 10 us. Ends within
// seconds after the first ten steps. Collective.
void bench_layers(Session& session, Engine& engine);

}  // namespace syncopate
