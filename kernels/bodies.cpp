#include "cuda/ops.h"

namespace syncopate {

const OpBodies* cuda_bodies() {
  static constexpr OpBodies kBodies = {
      .conv_forward = cuda::conv_forward,
      .conv_backward_data = cuda::conv_backward_data,
      .conv_backward_weights = cuda::conv_backward_weights,
      .linear_forward = cuda::linear_forward,
      .linear_backward = cuda::linear_backward,
      .batchnorm_forward = cuda::batchnorm_forward,
      .batchnorm_inference = cuda::batchnorm_inference,
      .batchnorm_backward = cuda::batchnorm_backward,
      .global_average_pool_forward = cuda::global_average_pool_forward,
      .global_average_pool_backward = cuda::global_average_pool_backward,
      .max_pool_forward = cuda::max_pool_forward,
      .max_pool_backward = cuda::max_pool_backward,
      .softmax_cross_entropy = cuda::softmax_cross_entropy,
      .add = cuda::add,
      .reorder = cuda::reorder,
      .axpy = cuda::axpy,
      .scale = cuda::scale,
      .scale_by = cuda::scale_by,
      .dropout = cuda::dropout,
      .store_dropout_key = cuda::store_dropout_key,
      .clip_factor = cuda::clip_factor,
      .dot = cuda::dot,
      .first_nonfinite = cuda::first_nonfinite,
      .sgd_update = cuda::sgd_update,
      .sgd_direction = cuda::sgd_direction,
      .combine = cuda::combine,
      .compensate = cuda::compensate,
      .orthonormalize = cuda::orthonormalize,
      .sign_encode = cuda::sign_encode,
      .sign_blend = cuda::sign_blend,
      .qsgd_encode = cuda::qsgd_encode,
      .qsgd_blend = cuda::qsgd_blend,
      .top_k_encode = cuda::top_k_encode,
      .random_k_encode = cuda::random_k_encode,
      .sparse_blend = cuda::sparse_blend,
      .gather_images = cuda::gather_images,
      .can_decode_jpegs = cuda::can_decode_jpegs,
      .decode_jpegs = cuda::decode_jpegs,
  };
  return &kBodies;
}

}  // namespace syncopate
