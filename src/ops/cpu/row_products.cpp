#include "ops/cpu/row_products.h"

#include <omp.h>

#include <algorithm>
#include <map>
#include <unordered_map>
#include <vector>

#include "ops/cpu/onednn_adapter.h"

namespace syncopate::cpu {
namespace {

using Desc = dnnl::memory::desc;
using Dims = dnnl::memory::dims;
using Tag = dnnl::memory::format_tag;
using Type = dnnl::memory::data_type;

constexpr int kScratchpad = 0, kPacked = 1;

// Rows per call of a primitive; more than 256 are no faster.
constexpr int64_t kManyRows = 256, kSomeRows = 64, kFewestRows = 16;

Desc row_major(int64_t rows, int64_t columns, Type type) {
  return {{rows, columns}, type, Dims{columns, 1}};
}

// Describes w as the primitive takes it, (inner, columns).
Desc matrix(const RowProduct& p, Type type) {
  return {{p.inner, p.columns},
          type,
          p.form == MatrixForm::kColumnsByInner ? Dims{1, p.inner}
                                                : Dims{p.columns, 1}};
}

// The cached primitives and formats of one product.
struct RowPlan {
  Desc packed_format;  // of w
  dnnl::reorder pack;
  std::unordered_map<int64_t, MatmulChoice> by_rows;
};

struct ProductCache {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
  std::vector<dnnl::stream> stream_of_thread;
  std::map<RowProduct, RowPlan> plans;
  std::unordered_map<int64_t, MatmulChoice> outer;  // key: K * 2^32 + D
};

MatmulChoice choose_rows(const dnnl::engine& engine,
                         const RowProduct& p,
                         int64_t rows,
                         const Desc& w) {
  const Type type = type_of(p.dtype);
  const MatmulChoice choice = choose_matmul(
      engine, {.a = row_major(rows, p.inner, type),
               .b = w,
               .c = row_major(rows, p.columns, type),
               .bias = p.has_bias ? row_major(1, p.columns, Type::f32) : Desc(),
               .accumulates = false});
  CHECK_MSG(choice, "oneDNN has no {} product of ({}, {}) and ({}, {})",
            p.dtype == DType::kF32 ? "fp32" : "bf16", rows, p.inner, p.inner,
            p.columns);
  return choice;
}

// The library's own format of w is the fastest, but for bf16 the transposing
// conversion from fp32 takes oneDNN 2.6 longer than the products gain by it.
RowPlan make_plan(const dnnl::engine& engine, const RowProduct& p) {
  const Type type = type_of(p.dtype);
  const bool is_plain =
      p.dtype == DType::kBf16 && p.form == MatrixForm::kColumnsByInner;
  const Desc wanted =
      is_plain ? matrix(p, type) : Desc({p.inner, p.columns}, type, Tag::any);
  RowPlan plan;
  plan.packed_format = choose_rows(engine, p, kManyRows, wanted).b;
  plan.pack = dnnl::reorder(dnnl::memory(matrix(p, Type::f32), engine, nullptr),
                            dnnl::memory(plan.packed_format, engine, nullptr));
  return plan;
}

// Consecutive rows. Tasks must not overlap, although they would compute the
// same values: rows that two tasks wrote at once differed from call to call
// (oneDNN 2.6 on AVX2).
struct RowTask {
  int64_t row;
  const MatmulChoice* choice;
  int64_t rows;
};

// Splits N rows into enough tasks for all threads, the largest first.
// Primitives are created for one thread: each runs within a task.
std::vector<RowTask> split_rows(const dnnl::engine& engine,
                                const RowProduct& p,
                                RowPlan& plan,
                                int64_t N,
                                int threads) {
  std::vector<RowTask> tasks;
  const auto add = [&](int64_t row, int64_t rows) {
    MatmulChoice& choice = plan.by_rows[rows];
    if (!choice) choice = choose_rows(engine, p, rows, plan.packed_format);
    tasks.push_back({row, &choice, rows});
  };
  if (N < kFewestRows) {
    add(0, N);
    return tasks;
  }
  int64_t row = 0;
  if (N >= 2 * threads * kManyRows)
    for (; row + kManyRows <= N; row += kManyRows) add(row, kManyRows);
  for (; row + kSomeRows <= N; row += kSomeRows) add(row, kSomeRows);
  for (; row + kFewestRows <= N; row += kFewestRows) add(row, kFewestRows);
  if (row < N) add(row, N - row);
  return tasks;
}

dnnl::memory at(const dnnl::engine& engine,
                const Desc& desc,
                const void* data) {
  return {desc, engine, const_cast<void*>(data)};
}

int64_t bytes_of(const Desc& desc) {
  constexpr int64_t kAlignment = 64;
  const auto bytes = static_cast<int64_t>(desc.get_size());
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

// Returns w in the plan's format, in scratch.
dnnl::memory packed_matrix(Context& context,
                           ProductCache& cache,
                           const RowProduct& p,
                           RowPlan& plan,
                           const float* w) {
  omp_set_num_threads(context.threads());
  dnnl::memory from = at(cache.engine, matrix(p, Type::f32), w);
  dnnl::memory to = at(cache.engine, plan.packed_format,
                       context.scratch(bytes_of(plan.packed_format), kPacked));
  plan.pack.execute(cache.stream, from, to);
  return to;
}

}  // namespace

void multiply_rows(Context& context,
                   const RowProduct& product,
                   void* y,
                   const void* x,
                   const float* w,
                   const float* bias,
                   int64_t N) {
  auto& cache = context.cache<ProductCache>();
  const dnnl::engine& engine = cache.engine;
  const int threads = context.threads();
  while (std::ssize(cache.stream_of_thread) < threads)
    cache.stream_of_thread.emplace_back(engine);
  omp_set_num_threads(1);
  auto found = cache.plans.find(product);
  if (found == cache.plans.end())
    found = cache.plans.emplace(product, make_plan(engine, product)).first;
  RowPlan& plan = found->second;
  const auto tasks = split_rows(engine, product, plan, N, threads);
  const dnnl::memory packed = packed_matrix(context, cache, product, plan, w);

  int64_t pad_bytes = 0;
  for (const RowTask& task : tasks)
    pad_bytes = std::max(pad_bytes, bytes_of(task.choice->scratchpad));
  auto* pads =
      static_cast<char*>(context.scratch(threads * pad_bytes, kScratchpad));
  const Type type = type_of(product.dtype);
  const auto rows_at = [&](const void* base, const RowTask& task,
                           int64_t columns) {
    return at(engine, row_major(task.rows, columns, type),
              static_cast<const char*>(base) +
                  task.row * columns * syncopate::bytes_of(product.dtype));
  };
  const auto run = [&](const RowTask& task, int thread) {
    std::unordered_map<int, dnnl::memory> arguments = {
        {DNNL_ARG_SRC, rows_at(x, task, product.inner)},
        {DNNL_ARG_WEIGHTS, packed},
        {DNNL_ARG_DST, rows_at(y, task, product.columns)},
        {DNNL_ARG_SCRATCHPAD,
         at(engine, task.choice->scratchpad, pads + thread * pad_bytes)}};
    if (product.has_bias)
      arguments.emplace(
          DNNL_ARG_BIAS,
          at(engine, row_major(1, product.columns, Type::f32), bias));
    task.choice->primitive.execute(cache.stream_of_thread[thread], arguments);
  };
#pragma omp parallel for num_threads(threads) \
    schedule(dynamic, 1) if (std::ssize(tasks) > 1)
  for (int64_t task = 0; task < std::ssize(tasks); ++task)
    run(tasks[task], omp_get_thread_num());
  context.ran_by(tasks.front().choice->name);
}

// One primitive serves any number of rows: its inner dimension is a runtime
// value.
void accumulate_products(Context& context,
                         float* dw,
                         const Bf16* dy,
                         const Bf16* x,
                         int64_t N,
                         int64_t K,
                         int64_t D) {
  omp_set_num_threads(context.threads());
  auto& cache = context.cache<ProductCache>();
  const dnnl::engine& engine = cache.engine;
  const Desc dw_desc = row_major(K, D, Type::f32);
  const auto dy_desc = [K](int64_t rows) {
    return Desc({K, rows}, Type::bf16, Dims{1, K});
  };
  const auto x_desc = [D](int64_t rows) {
    return row_major(rows, D, Type::bf16);
  };
  MatmulChoice& choice = cache.outer[(K << 32) + D];
  if (!choice) {
    choice = choose_matmul(engine, {.a = dy_desc(DNNL_RUNTIME_DIM_VAL),
                                    .b = x_desc(DNNL_RUNTIME_DIM_VAL),
                                    .c = dw_desc,
                                    .bias = {},
                                    .accumulates = true});
    CHECK_MSG(choice, "oneDNN has no bf16 product for ({}, {})", K, D);
  }
  choice.primitive.execute(
      cache.stream,
      {{DNNL_ARG_SRC, at(engine, dy_desc(N), dy)},
       {DNNL_ARG_WEIGHTS, at(engine, x_desc(N), x)},
       {DNNL_ARG_DST, at(engine, dw_desc, dw)},
       {DNNL_ARG_SCRATCHPAD,
        at(engine, choice.scratchpad,
           context.scratch(bytes_of(choice.scratchpad), kScratchpad))}});
  context.ran_by(choice.name);
}

}  // namespace syncopate::cpu
