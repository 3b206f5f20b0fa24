// Table of all op bodies for one kind of device. A body has its op's name and
// type; contracts are in the ops' headers, and shapes are checked there.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/activation.h"
#include "ops/attention.h"
#include "ops/augment.h"
#include "ops/combine.h"
#include "ops/conv.h"
#include "ops/elementwise.h"
#include "ops/embedding.h"
#include "ops/interaction.h"
#include "ops/jpeg.h"
#include "ops/layernorm.h"
#include "ops/loss.h"
#include "ops/matmul.h"
#include "ops/nonfinite.h"
#include "ops/norm.h"
#include "ops/optim_update.h"
#include "ops/pool.h"
#include "ops/quantize.h"
#include "ops/reduce.h"
#include "ops/select.h"
#include "ops/sequences.h"

namespace syncopate {

struct OpBodies {
  decltype(syncopate::conv_forward)* conv_forward;
  decltype(syncopate::conv_backward_data)* conv_backward_data;
  decltype(syncopate::conv_backward_weights)* conv_backward_weights;
  decltype(syncopate::linear_forward)* linear_forward;
  decltype(syncopate::linear_backward)* linear_backward;
  decltype(syncopate::batchnorm_forward)* batchnorm_forward;
  decltype(syncopate::batchnorm_inference)* batchnorm_inference;
  decltype(syncopate::batchnorm_backward)* batchnorm_backward;
  decltype(syncopate::global_average_pool_forward)* global_average_pool_forward;
  decltype(syncopate::global_average_pool_backward)*
      global_average_pool_backward;
  decltype(syncopate::max_pool_forward)* max_pool_forward;
  decltype(syncopate::max_pool_backward)* max_pool_backward;
  decltype(syncopate::softmax_cross_entropy)* softmax_cross_entropy;
  decltype(syncopate::add)* add;
  decltype(syncopate::reorder)* reorder;
  decltype(syncopate::axpy)* axpy;
  decltype(syncopate::scale)* scale;
  decltype(syncopate::scale_by)* scale_by;
  decltype(syncopate::dropout)* dropout;
  decltype(syncopate::store_dropout_key)* store_dropout_key;
  decltype(syncopate::clip_factor)* clip_factor;
  decltype(syncopate::dot)* dot;
  decltype(syncopate::first_nonfinite)* first_nonfinite;
  decltype(syncopate::digest)* digest;
  decltype(syncopate::withhold_nonfinite)* withhold_nonfinite;
  decltype(syncopate::restore_withheld)* restore_withheld;
  decltype(syncopate::sgd_update)* sgd_update;
  decltype(syncopate::sgd_direction)* sgd_direction;
  decltype(syncopate::combine)* combine;
  decltype(syncopate::compensate)* compensate;
  decltype(syncopate::add_in_units)* add_in_units;
  decltype(syncopate::orthonormalize)* orthonormalize;
  decltype(syncopate::sign_encode)* sign_encode;
  decltype(syncopate::sign_blend)* sign_blend;
  decltype(syncopate::qsgd_encode)* qsgd_encode;
  decltype(syncopate::qsgd_blend)* qsgd_blend;
  decltype(syncopate::top_k_encode)* top_k_encode;
  decltype(syncopate::random_k_encode)* random_k_encode;
  decltype(syncopate::sparse_blend)* sparse_blend;
  decltype(syncopate::token_dropout)* token_dropout;
  decltype(syncopate::attention_forward)* attention_forward;
  decltype(syncopate::attention_backward)* attention_backward;
  decltype(syncopate::layernorm_forward)* layernorm_forward;
  decltype(syncopate::layernorm_backward)* layernorm_backward;
  decltype(syncopate::gelu_forward)* gelu_forward;
  decltype(syncopate::gelu_backward)* gelu_backward;
  decltype(syncopate::embedding_forward)* embedding_forward;
  decltype(syncopate::embedding_backward)* embedding_backward;
  decltype(syncopate::interaction_forward)* interaction_forward;
  decltype(syncopate::interaction_backward)* interaction_backward;
  decltype(syncopate::binary_cross_entropy)* binary_cross_entropy;
  decltype(syncopate::span_cross_entropy)* span_cross_entropy;
  decltype(syncopate::adam_update)* adam_update;
  decltype(syncopate::adam_direction)* adam_direction;
  decltype(syncopate::gather_images)* gather_images;
  // Null on the CPU.
  decltype(syncopate::can_decode_jpegs)* can_decode_jpegs;
  decltype(syncopate::decode_jpegs)* decode_jpegs;
};

const OpBodies& cpu_bodies();
// Null in a build without CUDA.
const OpBodies* cuda_bodies();

// The bodies for the context's device.
const OpBodies& bodies_of(const Context& context);

}  // namespace syncopate
