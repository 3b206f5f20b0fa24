#include "library/convolve.h"

#include <unordered_map>
#include <utility>
#include <vector>

#include "library/conv_plan.h"
#include "ops/plans.h"

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

struct ConvOperands {
  const void *x, *krsc, *y;
};

void run(Context& context,
         cudnnHandle_t handle,
         const ConvPlan& plan,
         const ConvOperands& on) {
  void* workspace = context.scratch(plan.workspace_bytes(), kWorkScratch);
  plan.run(handle, on.x, on.krsc, on.y, workspace);
}

// Of PlanRequest.
std::string text_of(const ConvProblem& problem) {
  const ConvSize& s = problem.size;
  return fmt::format(
      "{} {} n{} c{} h{} w{} k{} r{} s{} stride{} pad{}{}",
      name_of(problem.pass), syncopate::name_of(problem.dtype), s.N, s.C, s.H,
      s.W, s.K, s.R, s.S, s.stride, s.pad,
      problem.determinism == Determinism::kRequired ? "" : " nondeterministic");
}

// The plan that the context's chooser takes, or cuDNN's first.
ConvPlan choose_plan(Context& context,
                     cudnnHandle_t handle,
                     const ConvProblem& problem,
                     const ConvOperands& on) {
  constexpr size_t kMostPlans = 64;
  const PlanTarget target{handle, nullptr};
  PlanChooser* const chooser = context.plan_chooser();
  if (chooser == nullptr) return {target, problem};
  std::vector<ConvPlan> plans = ConvPlan::list(target, problem, kMostPlans);
  PlanRequest request{
      .problem = text_of(problem), .plans = {}, .run = [&](size_t index) {
        run(context, handle, plans[index], on);
      }};
  for (const ConvPlan& plan : plans) request.plans.push_back(plan.name());
  return std::move(plans[chooser->choose(context, request)]);
}

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
  const ConvOperands operands{x.data, krsc, y.data};
  auto found = library.plans.find(problem);
  if (found == library.plans.end())
    found =
        library.plans
            .emplace(problem, choose_plan(context, handle, problem, operands))
            .first;
  run(context, handle, found->second, operands);
  context.ran_by(found->second.engine());
}

}  // namespace syncopate::cuda
