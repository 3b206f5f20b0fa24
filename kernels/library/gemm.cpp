#include "library/gemm.h"

#include <algorithm>
#include <cstdio>
#include <memory>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include "device/cuda/cuda_stream.h"
#include "library/cublaslt.h"
#include "ops/plans.h"

namespace syncopate::cuda {
namespace {

// cuBLAS's recommendation for Hopper.
constexpr uint64_t kWorkspaceBytes = 32 << 20;
constexpr int kWorkScratch = 3;

template <typename Handle>
using Owned =
    std::unique_ptr<std::remove_pointer_t<Handle>, cublasStatus_t (*)(Handle)>;
using Layout = Owned<cublasLtMatrixLayout_t>;
using Operation = Owned<cublasLtMatmulDesc_t>;
using Preference = Owned<cublasLtMatmulPreference_t>;

// cuBLAS is column-major: it sees a row-major (rows, columns) matrix as one of
// `columns` rows and `rows` columns, with leading dimension `columns`.
Layout make_layout(int64_t rows, int64_t columns, DType dtype) {
  cublasLtMatrixLayout_t raw = nullptr;
  check_cublaslt(
      cublaslt().MatrixLayoutCreate(
          &raw, dtype == DType::kBf16 ? CUDA_R_16BF : CUDA_R_32F,
          static_cast<uint64_t>(columns), static_cast<uint64_t>(rows), columns),
      "cublasLtMatrixLayoutCreate");
  return Layout(raw, cublaslt().MatrixLayoutDestroy);
}

template <typename T>
void set(const Operation& operation,
         cublasLtMatmulDescAttributes_t name,
         const T& value) {
  check_cublaslt(cublaslt().MatmulDescSetAttribute(operation.get(), name,
                                                   &value, sizeof value),
                 "cublasLtMatmulDescSetAttribute");
}

template <typename T>
void set(const Preference& preference,
         cublasLtMatmulPreferenceAttributes_t name,
         const T& value) {
  check_cublaslt(cublaslt().MatmulPreferenceSetAttribute(preference.get(), name,
                                                         &value, sizeof value),
                 "cublasLtMatmulPreferenceSetAttribute");
}

cublasOperation_t operation_of(Transpose transpose) {
  return transpose == Transpose::kYes ? CUBLAS_OP_T : CUBLAS_OP_N;
}

// Returns the largest power of two, up to 256, that divides the address.
uint32_t alignment_of(const void* memory) {
  const auto address = reinterpret_cast<uintptr_t>(memory) | 256;
  return static_cast<uint32_t>(address & (~address + 1));
}

// Everything on which the choice of an algorithm depends.
struct GemmKey {
  int64_t M, N, D;
  Transpose transpose_a, transpose_b;
  DType input, output;
  bool has_addend, has_bias;
  uint32_t a_alignment, b_alignment, c_alignment, addend_alignment,
      bias_alignment;
  bool operator==(const GemmKey&) const = default;
};

struct GemmKeyHash {
  size_t operator()(const GemmKey& key) const {
    uint64_t hash = 0;
    for (const int64_t value :
         {key.M, key.N, key.D, static_cast<int64_t>(key.transpose_a),
          static_cast<int64_t>(key.transpose_b),
          static_cast<int64_t>(key.input), static_cast<int64_t>(key.output),
          static_cast<int64_t>(key.has_addend),
          static_cast<int64_t>(key.has_bias)})
      hash = (hash ^ static_cast<uint64_t>(value)) * 0x9E3779B97F4A7C15;
    return hash ^ (hash >> 32);
  }
};

// cuBLAS sees a row-major X as X^T. It must therefore write
//
//   c^T = (op(a) op(b))^T = op(b)^T op(a)^T
//
// and it sees op(b)^T = b^T directly if b is not transposed here, and as the
// transpose of what it sees otherwise; likewise a. So b is its first matrix and
// a its second, each transposed or not just as here, and its result has N rows
// and M columns. Its bias has one value per row: one for each of our columns.
struct GemmPlan {
  Layout a, b, c;
  Operation operation;
  cublasLtMatmulAlgo_t algorithm{};
  uint64_t workspace_bytes = 0;
  bool is_refused = false;  // by the library
};

// What cuBLASLt chooses from when plans are measured, or looked up.
constexpr int kMostAlgorithms = 16;

template <typename T>
T config_of(const cublasLtMatmulAlgo_t& algorithm,
            cublasLtMatmulAlgoConfigAttributes_t name) {
  T value{};
  size_t written = 0;
  check_cublaslt(cublaslt().MatmulAlgoConfigGetAttribute(
                     &algorithm, name, &value, sizeof value, &written),
                 "cublasLtMatmulAlgoConfigGetAttribute");
  return value;
}

// Differs for algorithms that differ in anything that can be set.
std::string name_of(const cublasLtMatmulAlgo_t& algorithm) {
  return fmt::format(
      "algo{} tile{} stages{} splitk{} reduction{} swizzle{} custom{} inner{} "
      "cluster{}",
      config_of<int32_t>(algorithm, CUBLASLT_ALGO_CONFIG_ID),
      config_of<uint32_t>(algorithm, CUBLASLT_ALGO_CONFIG_TILE_ID),
      config_of<uint32_t>(algorithm, CUBLASLT_ALGO_CONFIG_STAGES_ID),
      config_of<int32_t>(algorithm, CUBLASLT_ALGO_CONFIG_SPLITK_NUM),
      config_of<uint32_t>(algorithm, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME),
      config_of<uint32_t>(algorithm, CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING),
      config_of<uint32_t>(algorithm, CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION),
      config_of<uint16_t>(algorithm, CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID),
      config_of<uint16_t>(algorithm, CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID));
}

Operation make_operation(const GemmKey& key, const void* bias) {
  cublasLtMatmulDesc_t raw = nullptr;
  check_cublaslt(
      cublaslt().MatmulDescCreate(&raw, CUBLAS_COMPUTE_32F, CUDA_R_32F),
      "cublasLtMatmulDescCreate");
  Operation operation(raw, cublaslt().MatmulDescDestroy);
  set(operation, CUBLASLT_MATMUL_DESC_TRANSA, operation_of(key.transpose_b));
  set(operation, CUBLASLT_MATMUL_DESC_TRANSB, operation_of(key.transpose_a));
  if (key.has_bias) {
    set(operation, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
    set(operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
  }
  return operation;
}

// Where D is split, partial sums are to be added in fp32 and, if asked, in a
// fixed order: cuBLASLt's other schemes add them in the output's type, "in
// place" in an order that the hardware chooses.
Preference make_preference(const GemmKey& key, Determinism determinism) {
  cublasLtMatmulPreference_t raw = nullptr;
  check_cublaslt(cublaslt().MatmulPreferenceCreate(&raw),
                 "cublasLtMatmulPreferenceCreate");
  Preference preference(raw, cublaslt().MatmulPreferenceDestroy);
  set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kWorkspaceBytes);
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, key.b_alignment);
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, key.a_alignment);
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
      key.has_addend ? key.addend_alignment : key.c_alignment);
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, key.c_alignment);
  if (determinism == Determinism::kRequired || key.output != DType::kF32)
    set(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
        uint32_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE});
  return preference;
}

GemmPlan make_plan(const GemmKey& key, const void* bias) {
  const bool is_a_turned = key.transpose_a == Transpose::kYes;
  const bool is_b_turned = key.transpose_b == Transpose::kYes;
  return {.a = make_layout(is_a_turned ? key.D : key.M,
                           is_a_turned ? key.M : key.D, key.input),
          .b = make_layout(is_b_turned ? key.N : key.D,
                           is_b_turned ? key.D : key.N, key.input),
          .c = make_layout(key.M, key.N, key.output),
          .operation = make_operation(key, bias)};
}

// Returns at most `most` algorithms for a plan, the expected fastest first;
// none if the library refuses the product.
std::vector<cublasLtMatmulHeuristicResult_t> algorithms_of(
    cublasLtHandle_t handle,
    const GemmKey& key,
    const GemmPlan& plan,
    Determinism determinism,
    int most) {
  const Preference preference = make_preference(key, determinism);
  std::vector<cublasLtMatmulHeuristicResult_t> results(
      static_cast<size_t>(most));
  int found = 0;
  const cublasStatus_t status = cublaslt().MatmulAlgoGetHeuristic(
      handle, plan.operation.get(), plan.b.get(), plan.a.get(), plan.c.get(),
      plan.c.get(), preference.get(), most, results.data(), &found);
  if (status == CUBLAS_STATUS_NOT_SUPPORTED) found = 0;
  if (status != CUBLAS_STATUS_NOT_SUPPORTED)
    check_cublaslt(status, "cublasLtMatmulAlgoGetHeuristic");
  results.resize(static_cast<size_t>(found));
  std::erase_if(results, [](const cublasLtMatmulHeuristicResult_t& result) {
    return result.state != CUBLAS_STATUS_SUCCESS;
  });
  return results;
}

// Of PlanRequest.
std::string problem_of(const GemmKey& key, Determinism determinism) {
  const auto turned = [](Transpose transpose) {
    return transpose == Transpose::kYes ? 't' : 'n';
  };
  return fmt::format(
      "gemm {} to {} m{} n{} d{} {}{}{}{} aligned {} {} {} {} {}{}",
      syncopate::name_of(key.input), syncopate::name_of(key.output), key.M,
      key.N, key.D, turned(key.transpose_a), turned(key.transpose_b),
      key.has_addend ? " addend" : "", key.has_bias ? " bias" : "",
      key.a_alignment, key.b_alignment, key.c_alignment, key.addend_alignment,
      key.bias_alignment,
      determinism == Determinism::kRequired ? "" : " nondeterministic");
}

// Kept per context.
struct GemmLibrary {
  CublasLtHandle handle;
  std::unordered_map<GemmKey, GemmPlan, GemmKeyHash> plans;
};

struct GemmOperands {
  void* c;
  const void *a, *b, *addend;
};

void multiply(Context& context,
              cublasLtHandle_t handle,
              const GemmPlan& plan,
              const GemmOperands& on) {
  void* workspace =
      context.scratch(static_cast<int64_t>(plan.workspace_bytes), kWorkScratch);
  const float alpha = 1.0f, beta = on.addend != nullptr ? 1.0f : 0.0f;
  check_cublaslt(
      cublaslt().Matmul(handle, plan.operation.get(), &alpha, on.b,
                        plan.b.get(), on.a, plan.a.get(), &beta,
                        on.addend != nullptr ? on.addend : on.c, plan.c.get(),
                        on.c, plan.c.get(), &plan.algorithm, workspace,
                        plan.workspace_bytes, cuda_stream(context.stream())),
      "cublasLtMatmul");
}

// The algorithm that the context's chooser takes, or the library's first. A
// refused product is told, as it will be slow.
void choose_algorithm(Context& context,
                      cublasLtHandle_t handle,
                      const GemmKey& key,
                      GemmPlan& plan,
                      const GemmOperands& on) {
  PlanChooser* const chooser = context.plan_chooser();
  const auto algorithms =
      algorithms_of(handle, key, plan, context.determinism(),
                    chooser == nullptr ? 1 : kMostAlgorithms);
  if (algorithms.empty()) {
    plan.is_refused = true;
    fmt::print(stderr,
               "warning: cuBLASLt has no algorithm for {}: kernels of our own, "
               "which are slow, compute it\n",
               problem_of(key, context.determinism()));
    return;
  }
  const auto use = [&](size_t index) {
    plan.algorithm = algorithms[index].algo;
    plan.workspace_bytes = algorithms[index].workspaceSize;
  };
  size_t chosen = 0;
  if (chooser != nullptr) {
    PlanRequest request{.problem = problem_of(key, context.determinism()),
                        .plans = {},
                        .run = [&](size_t index) {
                          use(index);
                          multiply(context, handle, plan, on);
                        }};
    for (const auto& result : algorithms)
      request.plans.push_back(name_of(result.algo));
    chosen = chooser->choose(context, request);
  }
  use(chosen);
}

}  // namespace

bool gemm(Context& context,
          void* c,
          const void* a,
          const void* b,
          const void* addend,
          const void* bias,
          const Gemm& product) {
  if (product.M == 0 || product.N == 0) return true;
  for (const void* memory : {static_cast<const void*>(c), a, b, addend, bias})
    CHECK(is_gemm_aligned(memory));
  const bool has_bias = bias != nullptr, has_addend = addend != nullptr;
  CHECK(!(has_bias && has_addend));
  auto& library = context.cache<GemmLibrary>();
  cublasLtHandle_t handle = library.handle.of(context);
  const GemmKey key{product.M,
                    product.N,
                    product.D,
                    product.transpose_a,
                    product.transpose_b,
                    product.input,
                    product.output,
                    has_addend,
                    has_bias,
                    alignment_of(a),
                    alignment_of(b),
                    alignment_of(c),
                    has_addend ? alignment_of(addend) : 0,
                    has_bias ? alignment_of(bias) : 0};
  const GemmOperands operands{c, a, b, addend};
  auto found = library.plans.find(key);
  if (found == library.plans.end()) {
    GemmPlan made = make_plan(key, bias);
    choose_algorithm(context, handle, key, made, operands);
    found = library.plans.emplace(key, std::move(made)).first;
  }
  const GemmPlan& plan = found->second;
  if (plan.is_refused) return false;
  if (has_bias) set(plan.operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
  multiply(context, handle, plan, operands);
  context.ran_by("cuBLASLt");
  return true;
}

}  // namespace syncopate::cuda
