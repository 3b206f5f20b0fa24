// Convolutions by oneDNN. A primitive, its memory objects and the reorders
// around it are created once per pass, size, dtype and layout, and kept.
#include <omp.h>

#include <compare>
#include <cstring>
#include <map>
#include <string>
#include <unordered_map>

#include "ops/bodies.h"
#include "ops/cpu/conv_algorithms.h"
#include "ops/cpu/onednn_adapter.h"

namespace syncopate::cpu {
namespace {

using Desc = dnnl::memory::desc;
using Tag = dnnl::memory::format_tag;
using Type = dnnl::memory::data_type;

struct ConvKey {
  ConvPass pass;
  ConvSize size;
  DType x_dtype, y_dtype;
  Layout x_layout, y_layout;
  auto operator<=>(const ConvKey&) const = default;
};

Tag tag_of(Layout layout) {
  switch (layout) {
    case Layout::kRowMajor:
      return Tag::nchw;
    case Layout::kNhwc:
      return Tag::nhwc;
    case Layout::kNchw16c:
      return Tag::nChw16c;
  }
  CHECK(false);
}

enum class Use : uint8_t { kRead, kAssigned, kAccumulated };

// An operand in the caller's format and in the primitive's: the same memory if
// the formats agree, else a copy through a cached reorder. Primitives assign:
// what is accumulated is always a copy, which a reorder adds.
class Operand {
 public:
  // `copy`: DNNL_MEMORY_ALLOCATE, or DNNL_MEMORY_NONE if place_copy() follows.
  Operand(const dnnl::engine& engine,
          const Desc& outer,
          const Desc& inner,
          Use use,
          void* copy)
      : outer_(outer, engine, DNNL_MEMORY_NONE),
        inner_(outer_),
        use_(use),
        is_copied_(outer != inner || use == Use::kAccumulated) {
    if (!is_copied_) return;
    inner_ = dnnl::memory(inner, engine, copy);
    dnnl::primitive_attr attributes;
    if (use == Use::kAccumulated) {
      dnnl::post_ops sum;
      sum.append_sum(1.0f);
      attributes.set_post_ops(sum);
    }
    reorder_ = use == Use::kRead ? dnnl::reorder(outer_, inner_)
                                 : dnnl::reorder(inner_, outer_, attributes);
  }

  void place(const void* data) {
    outer_.set_data_handle(const_cast<void*>(data));
  }
  void place_copy(Context& context, int scratch_index) {
    if (is_copied_)
      inner_.set_data_handle(context.scratch(
          static_cast<int64_t>(inner_.get_desc().get_size()), scratch_index));
  }
  // Around the primitive.
  void before(dnnl::stream& stream) {
    if (is_copied_ && use_ == Use::kRead)
      reorder_.execute(stream, outer_, inner_);
  }
  void after(dnnl::stream& stream) {
    if (is_copied_ && use_ != Use::kRead)
      reorder_.execute(stream, inner_, outer_);
  }
  const dnnl::memory& inner() const { return inner_; }

 private:
  dnnl::memory outer_, inner_;
  Use use_;
  bool is_copied_;
  dnnl::reorder reorder_;
};

// Returns the library's choice for a key. If x and y have the same layout, the
// primitive works on them in place; otherwise (a first layer: NHWC in, blocked
// out) it may choose the format of x.
ConvChoice choose(const dnnl::engine& engine, const ConvKey& key) {
  const ConvSize& s = key.size;
  const bool is_bf16 =
      key.x_dtype == DType::kBf16 || key.y_dtype == DType::kBf16;
  const Type type = is_bf16 ? Type::bf16 : Type::f32;
  const bool is_alike = key.x_layout == key.y_layout;
  ConvDescription conv;
  conv.x = Desc({s.N, s.C, s.H, s.W}, type,
                is_alike ? tag_of(key.x_layout) : Tag::any);
  conv.w =
      Desc({s.K, s.C, s.R, s.S},
           key.pass == ConvPass::kBackwardWeights ? Type::f32 : type, Tag::any);
  conv.y = Desc({s.N, s.K, s.P(), s.Q()}, type, tag_of(key.y_layout));
  // The horizontal stride has no effect on images one pixel wide, but oneDNN
  // 2.6's bf16 weight gradient is wrong for a stride of 2.
  const bool is_narrow = s.W == 1 && s.S == 2 * s.pad + 1;
  conv.strides = {s.stride, is_narrow ? 1 : s.stride};
  conv.padding_before = {s.pad, s.pad};
  conv.padding_after = {s.pad, s.pad};
  const auto ask = [&](dnnl::algorithm algorithm) {
    conv.algorithm = algorithm;
    return choose_conv(engine, key.pass, conv);
  };
  if (is_alike && conv_algorithm(s, is_bf16 ? DType::kBf16 : DType::kF32,
                                 key.x_layout) == ConvAlgorithm::kWinograd)
    if (ConvChoice winograd = ask(dnnl::algorithm::convolution_winograd))
      return winograd;
  ConvChoice direct = ask(dnnl::algorithm::convolution_direct);
  CHECK_MSG(direct, "oneDNN has no {} convolution ({}, {}, {}, {}) x ({}, {})",
            is_bf16 ? "bf16" : "fp32", s.N, s.C, s.H, s.W, s.K, s.R);
  return direct;
}

struct ConvPlan {
  dnnl::primitive primitive;
  std::string engine;
  Operand x, w, y;
  dnnl::memory scratchpad;
  std::unordered_map<int, dnnl::memory> arguments;

  ConvPlan(const dnnl::engine& engine, const ConvKey& key)
      : ConvPlan(engine, key, choose(engine, key)) {}

  // Filters and their gradients are copied to memory of the plan, images to the
  // context's scratch.
  ConvPlan(const dnnl::engine& engine,
           const ConvKey& key,
           const ConvChoice& choice)
      : primitive(choice.primitive),
        engine(choice.name),
        x(engine,
          Desc({key.size.N, key.size.C, key.size.H, key.size.W},
               type_of(key.x_dtype),
               tag_of(key.x_layout)),
          choice.x,
          key.pass == ConvPass::kBackwardData ? Use::kAssigned : Use::kRead,
          DNNL_MEMORY_NONE),
        w(engine,
          Desc({key.size.K, key.size.C, key.size.R, key.size.S},
               Type::f32,
               Tag::oihw),
          choice.w,
          key.pass == ConvPass::kBackwardWeights ? Use::kAccumulated
                                                 : Use::kRead,
          DNNL_MEMORY_ALLOCATE),
        y(engine,
          Desc({key.size.N, key.size.K, key.size.P(), key.size.Q()},
               type_of(key.y_dtype),
               tag_of(key.y_layout)),
          choice.y,
          key.pass == ConvPass::kForward ? Use::kAssigned : Use::kRead,
          DNNL_MEMORY_NONE),
        scratchpad(choice.scratchpad, engine, DNNL_MEMORY_NONE),
        arguments{
            {key.pass == ConvPass::kBackwardData ? DNNL_ARG_DIFF_SRC
                                                 : DNNL_ARG_SRC,
             x.inner()},
            {key.pass == ConvPass::kBackwardWeights ? DNNL_ARG_DIFF_WEIGHTS
                                                    : DNNL_ARG_WEIGHTS,
             w.inner()},
            {key.pass == ConvPass::kForward ? DNNL_ARG_DST : DNNL_ARG_DIFF_DST,
             y.inner()},
            {DNNL_ARG_SCRATCHPAD, scratchpad}} {}
};

struct ConvCache {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
  std::map<ConvKey, ConvPlan> plans;
};

// For 1x1 filters and a stride above 1, oneDNN (2.6) copies the pixels that
// count to its scratch memory in whole vectors: beyond the end, and into
// another thread's part, unless the channels fill them. Then it gets a copy
// instead.
bool needs_copy_of_pixels(const ConvSize& s, Layout layout) {
  constexpr int64_t kVector = 16;  // floats of AVX-512
  return s.R == 1 && s.S == 1 && s.pad == 0 && s.stride > 1 &&
         layout == Layout::kNhwc && s.C % kVector != 0;
}

// Calls `run` on a copy of the pixels of x that 1x1 filters meet, and of the
// size without a stride.
template <typename Run>
void run_on_pixels(Context& context,
                   ConvPass pass,
                   const ConvSize& size,
                   const ConstTensor& x,
                   const Run& run) {
  ConvSize dense = size;
  dense.H = size.P();
  dense.W = size.Q();
  dense.stride = 1;
  const int64_t pixel = size.C * bytes_of(x.dtype);
  auto* const image = static_cast<std::byte*>(const_cast<void*>(x.data));
  auto* const pixels = static_cast<std::byte*>(
      context.scratch(size.N * dense.H * dense.W * pixel, 3));
  const auto for_pixels = [&](const auto& body) {
    for (int64_t n = 0; n < size.N; ++n)
      for (int64_t p = 0; p < dense.H; ++p)
        for (int64_t q = 0; q < dense.W; ++q)
          body(pixels + ((n * dense.H + p) * dense.W + q) * pixel,
               image +
                   ((n * size.H + p * size.stride) * size.W + q * size.stride) *
                       pixel);
  };
  if (pass != ConvPass::kBackwardData)
    for_pixels([&](std::byte* copy, const std::byte* original) {
      std::memcpy(copy, original, pixel);
    });
  ConstTensor met = x;
  met.data = pixels;
  run(dense, met);
  if (pass != ConvPass::kBackwardData) return;
  std::memset(image, 0, size.N * size.H * size.W * pixel);
  for_pixels([&](const std::byte* copy, std::byte* original) {
    std::memcpy(original, copy, pixel);
  });
}

// x and y are as the caller holds them, w is canonical.
void run(Context& context,
         ConvPass pass,
         const ConvSize& size,
         const ConstTensor& x,
         const ConstTensor& w,
         const ConstTensor& y) {
  if (needs_copy_of_pixels(size, x.layout))
    return run_on_pixels(context, pass, size, x,
                         [&](const ConvSize& dense, const ConstTensor& pixels) {
                           run(context, pass, dense, pixels, w, y);
                         });
  omp_set_num_threads(context.threads());
  auto& cache = context.cache<ConvCache>();
  const ConvKey key{pass, size, x.dtype, y.dtype, x.layout, y.layout};
  auto found = cache.plans.find(key);
  if (found == cache.plans.end())
    found = cache.plans.try_emplace(key, cache.engine, key).first;
  ConvPlan& plan = found->second;
  plan.x.place(x.data);
  plan.x.place_copy(context, 1);
  plan.w.place(w.data);
  plan.y.place(y.data);
  plan.y.place_copy(context, 2);
  plan.scratchpad.set_data_handle(context.scratch(
      static_cast<int64_t>(plan.scratchpad.get_desc().get_size())));
  const auto operands = {&plan.x, &plan.w, &plan.y};
  for (Operand* operand : operands) operand->before(cache.stream);
  plan.primitive.execute(cache.stream, plan.arguments);
  context.ran_by(plan.engine);
  for (Operand* operand : operands) operand->after(cache.stream);
}

}  // namespace

void conv_forward(Context& context,
                  Tensor y,
                  ConstTensor x,
                  ConstWeight w,
                  const ConvSize& size) {
  run(context, ConvPass::kForward, size, x, w, y);
}

void conv_backward_data(Context& context,
                        Tensor dx,
                        ConstTensor dy,
                        ConstWeight w,
                        const ConvSize& size) {
  run(context, ConvPass::kBackwardData, size, dx, w, dy);
}

void conv_backward_weights(Context& context,
                           Tensor dw,
                           ConstTensor x,
                           ConstTensor dy,
                           const ConvSize& size) {
  run(context, ConvPass::kBackwardWeights, size, x, dw, dy);
}

}  // namespace syncopate::cpu
