#include "library/gemm.h"

#include <algorithm>
#include <memory>
#include <type_traits>
#include <unordered_map>

#include "device/cuda/cuda_stream.h"
#include "library/cublaslt.h"

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
};

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

GemmPlan make_plan(cublasLtHandle_t handle,
                   const GemmKey& key,
                   const void* bias,
                   Determinism determinism) {
  const bool is_a_turned = key.transpose_a == Transpose::kYes;
  const bool is_b_turned = key.transpose_b == Transpose::kYes;
  GemmPlan plan{.a = make_layout(is_a_turned ? key.D : key.M,
                                 is_a_turned ? key.M : key.D, key.input),
                .b = make_layout(is_b_turned ? key.N : key.D,
                                 is_b_turned ? key.D : key.N, key.input),
                .c = make_layout(key.M, key.N, key.output),
                .operation = make_operation(key, bias)};
  const Preference preference = make_preference(key, determinism);
  cublasLtMatmulHeuristicResult_t result{};
  int found = 0;
  const cublasStatus_t status = cublaslt().MatmulAlgoGetHeuristic(
      handle, plan.operation.get(), plan.b.get(), plan.a.get(), plan.c.get(),
      plan.c.get(), preference.get(), 1, &result, &found);
  if (status == CUBLAS_STATUS_SUCCESS && found == 0)
    check_cublaslt(CUBLAS_STATUS_NOT_SUPPORTED,
                   "cublasLtMatmulAlgoGetHeuristic");
  check_cublaslt(status, "cublasLtMatmulAlgoGetHeuristic");
  check_cublaslt(result.state, "cublasLtMatmulAlgoGetHeuristic");
  plan.algorithm = result.algo;
  plan.workspace_bytes = result.workspaceSize;
  return plan;
}

// Kept per context.
struct GemmLibrary {
  CublasLtHandle handle;
  std::unordered_map<GemmKey, GemmPlan, GemmKeyHash> plans;
};

}  // namespace

void gemm(Context& context,
          void* c,
          const void* a,
          const void* b,
          const void* addend,
          const void* bias,
          const Gemm& product) {
  if (product.M == 0 || product.N == 0) return;
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
  auto found = library.plans.find(key);
  if (found == library.plans.end())
    found =
        library.plans
            .emplace(key, make_plan(handle, key, bias, context.determinism()))
            .first;
  const GemmPlan& plan = found->second;
  if (has_bias) set(plan.operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
  void* workspace =
      context.scratch(static_cast<int64_t>(plan.workspace_bytes), kWorkScratch);
  const float alpha = 1.0f, beta = has_addend ? 1.0f : 0.0f;
  check_cublaslt(cublaslt().Matmul(
                     handle, plan.operation.get(), &alpha, b, plan.b.get(), a,
                     plan.a.get(), &beta, has_addend ? addend : c, plan.c.get(),
                     c, plan.c.get(), &plan.algorithm, workspace,
                     plan.workspace_bytes, cuda_stream(context.stream())),
                 "cublasLtMatmul");
  context.ran_by("cuBLASLt");
}

}  // namespace syncopate::cuda
