#include "ops/cpu/onednn_adapter.h"

#include <sys/mman.h>

#include <new>

namespace syncopate::cpu {
namespace {

using Forward = dnnl::convolution_forward;
using BackwardData = dnnl::convolution_backward_data;
using BackwardWeights = dnnl::convolution_backward_weights;
using Matmul = dnnl::matmul;

dnnl::primitive_attr user_scratchpad() {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attributes;
}

// oneDNN 2.6 dereferences a null pointer if it gets no memory for generated
// code, so this checks beforehand that there is some.
void expect_memory_for_code() {
  constexpr size_t kBytes = size_t{16} << 20;  // several times one primitive's
  void* const memory = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  munmap(memory, kBytes);
}

constexpr bool kAllowEmpty = true;  // no implementation: empty, no throw

#if DNNL_VERSION_MAJOR >= 3

Forward::primitive_desc forward_desc(const dnnl::engine& engine,
                                     const ConvDescription& c) {
  return Forward::primitive_desc(engine, dnnl::prop_kind::forward_training,
                                 c.algorithm, c.x, c.w, c.y, c.strides,
                                 c.padding_before, c.padding_after,
                                 user_scratchpad(), kAllowEmpty);
}

// For either backward pass.
template <typename Backward>
typename Backward::primitive_desc backward_desc(
    const dnnl::engine& engine,
    const ConvDescription& c,
    const Forward::primitive_desc& hint) {
  return typename Backward::primitive_desc(
      engine, c.algorithm, c.x, c.w, c.y, c.strides, c.padding_before,
      c.padding_after, hint, user_scratchpad(), kAllowEmpty);
}

Matmul::primitive_desc matmul_desc(const dnnl::engine& engine,
                                   const MatmulDescription& m,
                                   const dnnl::primitive_attr& attributes) {
  return Matmul::primitive_desc(engine, m.a, m.b, m.bias, m.c, attributes,
                                kAllowEmpty);
}

#else

Matmul::primitive_desc matmul_desc(const dnnl::engine& engine,
                                   const MatmulDescription& m,
                                   const dnnl::primitive_attr& attributes) {
  const Matmul::desc operation(m.a, m.b, m.bias, m.c);
  return Matmul::primitive_desc(operation, attributes, engine, kAllowEmpty);
}

Forward::primitive_desc forward_desc(const dnnl::engine& engine,
                                     const ConvDescription& c) {
  const Forward::desc operation(dnnl::prop_kind::forward_training, c.algorithm,
                                c.x, c.w, c.y, c.strides, c.padding_before,
                                c.padding_after);
  return Forward::primitive_desc(operation, user_scratchpad(), engine,
                                 kAllowEmpty);
}

// For either backward pass.
template <typename Backward>
typename Backward::primitive_desc backward_desc(
    const dnnl::engine& engine,
    const ConvDescription& c,
    const Forward::primitive_desc& hint) {
  const typename Backward::desc operation(c.algorithm, c.x, c.w, c.y, c.strides,
                                          c.padding_before, c.padding_after);
  return typename Backward::primitive_desc(operation, user_scratchpad(), engine,
                                           hint, kAllowEmpty);
}

#endif

// The library requires a forward description for a backward one. Any valid one
// will do: the direct algorithm, filters of the type of x (their gradient may
// be wider) and formats of the library's choice.
Forward::primitive_desc hint_for(const dnnl::engine& engine,
                                 const ConvDescription& c,
                                 dnnl::memory::data_type type) {
  using Tag = dnnl::memory::format_tag;
  ConvDescription forward = c;
  forward.algorithm = dnnl::algorithm::convolution_direct;
  const auto any = [&](const dnnl::memory::desc& desc) {
    return dnnl::memory::desc(
#if DNNL_VERSION_MAJOR >= 3
        desc.get_dims(),
#else
        desc.dims(),
#endif
        type, Tag::any);
  };
  forward.x = any(c.x);
  forward.w = any(c.w);
  forward.y = any(c.y);
  return forward_desc(engine, forward);
}

dnnl::memory::data_type type_of(const dnnl::memory::desc& desc) {
#if DNNL_VERSION_MAJOR >= 3
  return desc.get_data_type();
#else
  return desc.data_type();
#endif
}

std::string name_of(const dnnl::primitive_desc_base& pd) {
  return std::string("oneDNN ") + pd.impl_info_str();
}

}  // namespace

dnnl::memory::data_type type_of(DType dtype) {
  CHECK(dtype == DType::kF32 || dtype == DType::kBf16);
  return dtype == DType::kF32 ? dnnl::memory::data_type::f32
                              : dnnl::memory::data_type::bf16;
}

ConvChoice choose_conv(const dnnl::engine& engine,
                       ConvPass pass,
                       const ConvDescription& conv) {
  expect_memory_for_code();
  if (pass == ConvPass::kForward) {
    const auto pd = forward_desc(engine, conv);
    if (!pd) return {};
    return {Forward(pd),   pd.src_desc(),        pd.weights_desc(),
            pd.dst_desc(), pd.scratchpad_desc(), name_of(pd)};
  }
  const auto hint = hint_for(engine, conv, type_of(conv.y));
  if (!hint) return {};
  if (pass == ConvPass::kBackwardData) {
    const auto pd = backward_desc<BackwardData>(engine, conv, hint);
    if (!pd) return {};
    return {BackwardData(pd),   pd.diff_src_desc(),   pd.weights_desc(),
            pd.diff_dst_desc(), pd.scratchpad_desc(), name_of(pd)};
  }
  const auto pd = backward_desc<BackwardWeights>(engine, conv, hint);
  if (!pd) return {};
  return {BackwardWeights(pd), pd.src_desc(),        pd.diff_weights_desc(),
          pd.diff_dst_desc(),  pd.scratchpad_desc(), name_of(pd)};
}

MatmulChoice choose_matmul(const dnnl::engine& engine,
                           const MatmulDescription& product) {
  expect_memory_for_code();
  dnnl::primitive_attr attributes = user_scratchpad();
  if (product.accumulates) {
    dnnl::post_ops sum;
    sum.append_sum(1.0f);
    attributes.set_post_ops(sum);
  }
  const auto pd = matmul_desc(engine, product, attributes);
  if (!pd) return {};
  return {Matmul(pd), pd.weights_desc(), pd.scratchpad_desc(), name_of(pd)};
}

}  // namespace syncopate::cpu
