// The CPU bodies of the ops; contracts are in the headers of ops/.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/conv.h"
#include "ops/elementwise.h"
#include "ops/loss.h"
#include "ops/matmul.h"
#include "ops/norm.h"
#include "ops/optim_update.h"
#include "ops/pool.h"
#include "ops/reduce.h"

namespace syncopate::cpu {

using ConvBody =
    void(Context&, Tensor, ConstTensor, ConstTensor, const ConvSize&);
ConvBody conv_forward, conv_backward_data, conv_backward_weights;

void add(Context& context, Tensor y, ConstTensor x, ConstTensor z);
void reorder(Context& context, Tensor to, ConstTensor from);
void axpy(Context& context,
          std::span<float> y,
          float a,
          std::span<const float> x);
void scale(Context& context, std::span<float> y, float a);
void dropout(Context& context,
             Tensor y,
             ConstTensor x,
             float p,
             const DropoutKey& key);

ClassificationSums softmax_cross_entropy(Context& context,
                                         Tensor dlogits,
                                         ConstTensor logits,
                                         ConstTensor labels,
                                         float scale);

void linear_forward(Context& context,
                    Tensor y,
                    ConstTensor x,
                    ConstTensor w,
                    ConstTensor b);
void linear_backward(Context& context,
                     Tensor dx,
                     Tensor dw,
                     Tensor db,
                     ConstTensor dy,
                     ConstTensor x,
                     ConstTensor w);

void batchnorm_forward(Context& context,
                       Tensor y,
                       Tensor mean,
                       Tensor rstd,
                       Tensor running_mean,
                       Tensor running_var,
                       ConstTensor x,
                       ConstTensor gamma,
                       ConstTensor beta,
                       ConstTensor z,
                       const BatchNormParams& params);
void batchnorm_inference(Context& context,
                         Tensor y,
                         ConstTensor x,
                         ConstTensor running_mean,
                         ConstTensor running_var,
                         ConstTensor gamma,
                         ConstTensor beta,
                         ConstTensor z,
                         const BatchNormParams& params);
void batchnorm_backward(Context& context,
                        Tensor dx,
                        Tensor dz,
                        Tensor dgamma,
                        Tensor dbeta,
                        ConstTensor dy,
                        ConstTensor x,
                        ConstTensor y,
                        ConstTensor gamma,
                        ConstTensor mean,
                        ConstTensor rstd,
                        const BatchNormParams& params);

void sgd_update(Context& context,
                std::span<float> x,
                std::span<float> momentum_buffer,
                std::span<const float> gradient,
                const SgdParams& params);

void global_average_pool_forward(Context& context, Tensor y, ConstTensor x);
void global_average_pool_backward(Context& context, Tensor dx, ConstTensor dy);
void max_pool_forward(Context& context,
                      Tensor y,
                      Tensor argmax,
                      ConstTensor x,
                      const PoolSize& size);
void max_pool_backward(Context& context,
                       Tensor dx,
                       ConstTensor dy,
                       ConstTensor argmax,
                       const PoolSize& size);

double dot(Context& context,
           std::span<const float> x,
           std::span<const float> y);
int64_t first_nonfinite(Context& context, std::span<const float> x);

}  // namespace syncopate::cpu
