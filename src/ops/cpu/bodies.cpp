#include "ops/cpu/cpu_ops.h"

namespace syncopate {

const OpBodies& cpu_bodies() {
  static constexpr OpBodies kBodies = {
      .conv_forward = cpu::conv_forward,
      .conv_backward_data = cpu::conv_backward_data,
      .conv_backward_weights = cpu::conv_backward_weights,
      .linear_forward = cpu::linear_forward,
      .linear_backward = cpu::linear_backward,
      .batchnorm_forward = cpu::batchnorm_forward,
      .batchnorm_inference = cpu::batchnorm_inference,
      .batchnorm_backward = cpu::batchnorm_backward,
      .global_average_pool_forward = cpu::global_average_pool_forward,
      .global_average_pool_backward = cpu::global_average_pool_backward,
      .max_pool_forward = cpu::max_pool_forward,
      .max_pool_backward = cpu::max_pool_backward,
      .softmax_cross_entropy = cpu::softmax_cross_entropy,
      .add = cpu::add,
      .reorder = cpu::reorder,
      .axpy = cpu::axpy,
      .scale = cpu::scale,
      .scale_by = cpu::scale_by,
      .dropout = cpu::dropout,
      .store_dropout_key = cpu::store_dropout_key,
      .clip_factor = cpu::clip_factor,
      .dot = cpu::dot,
      .first_nonfinite = cpu::first_nonfinite,
      .sgd_update = cpu::sgd_update,
      .sgd_direction = cpu::sgd_direction,
      .combine = cpu::combine,
      .compensate = cpu::compensate,
      .orthonormalize = cpu::orthonormalize,
      .sign_encode = cpu::sign_encode,
      .sign_blend = cpu::sign_blend,
      .qsgd_encode = cpu::qsgd_encode,
      .qsgd_blend = cpu::qsgd_blend,
      .top_k_encode = cpu::top_k_encode,
      .random_k_encode = cpu::random_k_encode,
      .sparse_blend = cpu::sparse_blend,
      .gather_images = cpu::gather_images,
      .can_decode_jpegs = nullptr,
      .decode_jpegs = nullptr,
  };
  return kBodies;
}

}  // namespace syncopate
