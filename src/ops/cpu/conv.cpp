// Convolutions by oneDNN. A primitive, its memory objects and the reorders
// around it are created once per pass, size, dtype and layout, and kept.
#include <omp.h>

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

enum class ConvPass : uint8_t { kForward, kBackwardData, kBackwardWeights };

struct ConvKey {
  ConvPass pass;
  ConvSize size;
  DType x_dtype, y_dtype;
  Layout x_layout, y_layout;
  bool operator==(const ConvKey&) const = default;
};

struct ConvKeyHash {
  size_t operator()(const ConvKey& key) const {
    const ConvSize& s = key.size;
    uint64_t hash = 0;
    for (const int64_t value :
         {s.N, s.C, s.H, s.W, s.K, s.R, s.S, s.stride, s.pad,
          static_cast<int64_t>(key.pass), static_cast<int64_t>(key.x_dtype),
          static_cast<int64_t>(key.y_dtype), static_cast<int64_t>(key.x_layout),
          static_cast<int64_t>(key.y_layout)})
      hash = (hash ^ static_cast<uint64_t>(value)) * 0x9E3779B97F4A7C15;
    return hash ^ (hash >> 32);
  }
};

Type type_of(DType dtype) {
  CHECK(dtype == DType::kF32 || dtype == DType::kBf16);
  return dtype == DType::kF32 ? Type::f32 : Type::bf16;
}

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

// An operand in the caller's format and in the primitive's: the same memory if
// the formats agree, else a copy through a cached reorder.
class Operand {
 public:
  Operand(const dnnl::engine& engine, const Desc& outer, const Desc& inner)
      : outer_(outer, engine, DNNL_MEMORY_NONE),
        inner_(outer == inner ? outer_
                              : dnnl::memory(inner, engine, DNNL_MEMORY_NONE)),
        is_copied_(outer != inner) {}

  // Filters and their gradients are copied to memory owned by the operand,
  // images to the context's scratch.
  void own_copy(const dnnl::engine& engine) {
    if (is_copied_) inner_ = dnnl::memory(inner_.get_desc(), engine);
  }
  void copies_in() {
    if (is_copied_) reorder_ = dnnl::reorder(outer_, inner_);
  }
  void copies_out() {
    if (is_copied_) reorder_ = dnnl::reorder(inner_, outer_);
  }

  void place(const void* data) {
    outer_.set_data_handle(const_cast<void*>(data));
  }
  void place_copy(Context& context, int scratch_index) {
    if (is_copied_)
      inner_.set_data_handle(context.scratch(
          static_cast<int64_t>(inner_.get_desc().get_size()), scratch_index));
  }
  void copy_in(dnnl::stream& stream) {
    if (is_copied_) reorder_.execute(stream, outer_, inner_);
  }
  void copy_out(dnnl::stream& stream) {
    if (is_copied_) reorder_.execute(stream, inner_, outer_);
  }
  const dnnl::memory& inner() const { return inner_; }
  dnnl::memory& outer() { return outer_; }

 private:
  dnnl::memory outer_, inner_;
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
    switch (key.pass) {
      case ConvPass::kForward:
        return choose_conv_forward(engine, conv);
      case ConvPass::kBackwardData:
        return choose_conv_backward_data(engine, conv);
      case ConvPass::kBackwardWeights:
        return choose_conv_backward_weights(engine, conv);
    }
    CHECK(false);
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
  dnnl::memory gradient;     // of the filters, in the library's format
  dnnl::reorder accumulate;  // canonical += gradient
  std::unordered_map<int, dnnl::memory> arguments;

  ConvPlan(const dnnl::engine& engine, const ConvKey& key)
      : ConvPlan(engine, key, choose(engine, key)) {}

  ConvPlan(const dnnl::engine& engine,
           const ConvKey& key,
           const ConvChoice& choice)
      : primitive(choice.primitive),
        engine(choice.name),
        x(engine,
          Desc({key.size.N, key.size.C, key.size.H, key.size.W},
               type_of(key.x_dtype),
               tag_of(key.x_layout)),
          choice.x),
        w(engine,
          Desc({key.size.K, key.size.C, key.size.R, key.size.S},
               Type::f32,
               Tag::oihw),
          choice.w),
        y(engine,
          Desc({key.size.N, key.size.K, key.size.P(), key.size.Q()},
               type_of(key.y_dtype),
               tag_of(key.y_layout)),
          choice.y),
        scratchpad(choice.scratchpad, engine, DNNL_MEMORY_NONE) {
    switch (key.pass) {
      case ConvPass::kForward:
        prepare(engine, DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST);
        x.copies_in();
        y.copies_out();
        break;
      case ConvPass::kBackwardData:
        prepare(engine, DNNL_ARG_DIFF_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_DST);
        x.copies_out();
        y.copies_in();
        break;
      case ConvPass::kBackwardWeights:
        prepare_gradient(engine);
        x.copies_in();
        y.copies_in();
        break;
    }
  }

  // Runs the primitive. The caller has already placed w and the input image.
  void execute(Context& context, dnnl::stream& stream) {
    scratchpad.set_data_handle(context.scratch(
        static_cast<int64_t>(scratchpad.get_desc().get_size())));
    primitive.execute(stream, arguments);
    context.ran_by(engine);
  }

 private:
  void prepare(const dnnl::engine& engine, int x_arg, int w_arg, int y_arg) {
    w.own_copy(engine);
    w.copies_in();
    arguments = {{x_arg, x.inner()},
                 {w_arg, w.inner()},
                 {y_arg, y.inner()},
                 {DNNL_ARG_SCRATCHPAD, scratchpad}};
  }

  // The primitive assigns; a summing reorder then accumulates.
  void prepare_gradient(const dnnl::engine& engine) {
    gradient = dnnl::memory(w.inner().get_desc(), engine);
    dnnl::post_ops sum;
    sum.append_sum(1.0f);
    dnnl::primitive_attr attributes;
    attributes.set_post_ops(sum);
    accumulate = dnnl::reorder(gradient, w.outer(), attributes);
    arguments = {{DNNL_ARG_SRC, x.inner()},
                 {DNNL_ARG_DIFF_WEIGHTS, gradient},
                 {DNNL_ARG_DIFF_DST, y.inner()},
                 {DNNL_ARG_SCRATCHPAD, scratchpad}};
  }
};

struct ConvCache {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
  std::unordered_map<ConvKey, ConvPlan, ConvKeyHash> plans;
};

// Returns the plan of a call. x and y are as the caller holds them, w is
// canonical.
ConvPlan& plan_of(Context& context,
                  ConvPass pass,
                  const ConvSize& size,
                  const ConstTensor& x,
                  const ConstTensor& w,
                  const ConstTensor& y) {
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
  return plan;
}

}  // namespace

void conv_forward(Context& context,
                  Tensor y,
                  ConstTensor x,
                  ConstTensor w,
                  const ConvSize& size) {
  ConvPlan& plan = plan_of(context, ConvPass::kForward, size, x, w, y);
  dnnl::stream& stream = context.cache<ConvCache>().stream;
  plan.x.copy_in(stream);
  plan.w.copy_in(stream);
  plan.execute(context, stream);
  plan.y.copy_out(stream);
}

void conv_backward_data(Context& context,
                        Tensor dx,
                        ConstTensor dy,
                        ConstTensor w,
                        const ConvSize& size) {
  ConvPlan& plan = plan_of(context, ConvPass::kBackwardData, size, dx, w, dy);
  dnnl::stream& stream = context.cache<ConvCache>().stream;
  plan.y.copy_in(stream);
  plan.w.copy_in(stream);
  plan.execute(context, stream);
  plan.x.copy_out(stream);
}

void conv_backward_weights(Context& context,
                           Tensor dw,
                           ConstTensor x,
                           ConstTensor dy,
                           const ConvSize& size) {
  ConvPlan& plan =
      plan_of(context, ConvPass::kBackwardWeights, size, x, dw, dy);
  dnnl::stream& stream = context.cache<ConvCache>().stream;
  plan.x.copy_in(stream);
  plan.y.copy_in(stream);
  plan.execute(context, stream);
  plan.accumulate.execute(stream, plan.gradient, plan.w.outer());
}

}  // namespace syncopate::cpu
