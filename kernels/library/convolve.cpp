#include "library/convolve.h"

#include <unordered_map>

#include "library/conv_plan.h"

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

constexpr int kWorkScratch = 2;

}  // namespace

void convolve(Context& context,
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

}  // namespace syncopate::cuda
