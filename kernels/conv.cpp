// Convolutions by cuDNN on NHWC activations. Each call converts the filters to
// KRSC order and the activations' dtype; the gradient of the filters is
// computed in that dtype (cuDNN has no engine that takes bf16 and returns fp32)
// and added to the fp32 one. cuDNN itself pads odd channel counts if tensor
// cores need it.
#include <unordered_map>

#include "cuda/filters.h"
#include "library/conv_plan.h"
#include "ops/bodies.h"

namespace syncopate::cuda {
namespace {

struct ProblemHash {
  size_t operator()(const ConvProblem& problem) const {
    const ConvSize& s = problem.size;
    uint64_t hash = 0;
    for (const int64_t value : {s.N, s.C, s.H, s.W, s.K, s.R, s.S, s.stride,
                                s.pad, static_cast<int64_t>(problem.pass),
                                static_cast<int64_t>(problem.dtype)})
      hash = (hash ^ static_cast<uint64_t>(value)) * 0x9E3779B97F4A7C15;
    return hash ^ (hash >> 32);
  }
};

// Kept per context: plans are made on first use, before recording starts.
struct ConvLibrary {
  CudnnHandle handle;
  std::unordered_map<ConvProblem, ConvPlan, ProblemHash> plans;
};

// Scratch buffers of one call.
constexpr int kFilterScratch = 0, kWorkScratch = 2;

FilterSize filters_of(const ConvSize& size) {
  return {size.K, size.C, size.R, size.S};
}

void* filter_scratch(Context& context, const ConvSize& size, DType dtype) {
  return context.scratch(filters_of(size).elems() * bytes_of(dtype),
                         kFilterScratch);
}

void run(Context& context,
         ConvPass pass,
         const ConstTensor& x,
         const void* krsc,
         const ConstTensor& y,
         const ConvSize& size) {
  CHECK(x.layout == Layout::kNhwc && y.layout == Layout::kNhwc);
  CHECK(x.dtype == y.dtype);
  auto& library = context.cache<ConvLibrary>();
  cudnnHandle_t handle = library.handle.of(context);
  const ConvProblem problem{pass, size, x.dtype, context.determinism()};
  auto found = library.plans.find(problem);
  if (found == library.plans.end())
    found =
        library.plans
            .emplace(problem, ConvPlan(PlanTarget{handle, nullptr}, problem))
            .first;
  const ConvPlan& plan = found->second;
  void* workspace = context.scratch(plan.workspace_bytes(), kWorkScratch);
  plan.run(handle, x.data, krsc, y.data, workspace);
  context.ran_by(plan.engine());
}

}  // namespace

void conv_forward(Context& context,
                  Tensor y,
                  ConstTensor x,
                  ConstTensor w,
                  const ConvSize& size) {
  void* krsc = filter_scratch(context, size, x.dtype);
  pack_filters(context.stream(), krsc, w.f32(), filters_of(size), x.dtype);
  run(context, ConvPass::kForward, x, krsc, y, size);
}

void conv_backward_data(Context& context,
                        Tensor dx,
                        ConstTensor dy,
                        ConstTensor w,
                        const ConvSize& size) {
  void* krsc = filter_scratch(context, size, dy.dtype);
  pack_filters(context.stream(), krsc, w.f32(), filters_of(size), dy.dtype);
  run(context, ConvPass::kBackwardData, dx, krsc, dy, size);
}

void conv_backward_weights(Context& context,
                           Tensor dw,
                           ConstTensor x,
                           ConstTensor dy,
                           const ConvSize& size) {
  void* krsc = filter_scratch(context, size, x.dtype);
  run(context, ConvPass::kBackwardWeights, x, krsc, dy, size);
  accumulate_filters(context.stream(), dw.f32(), krsc, filters_of(size),
                     x.dtype);
}

}  // namespace syncopate::cuda
