#include "library/conv_plan.h"

#include <algorithm>
#include <array>
#include <set>
#include <utility>

namespace syncopate::cuda {
namespace {

// Tensor ids in the graph.
constexpr int64_t kX = 1, kW = 2, kY = 3;

cudnnDataType_t type_of(DType dtype) {
  CHECK(dtype == DType::kF32 || dtype == DType::kBf16);
  return dtype == DType::kF32 ? CUDNN_DATA_FLOAT : CUDNN_DATA_BFLOAT16;
}

// Dimensions are given in the order (outer, channels, rows, columns), as cuDNN
// requires; in memory the channels are last.
Descriptor make_tensor_descriptor(int64_t id,
                                  DType dtype,
                                  const std::array<int64_t, 4>& dims) {
  const auto [outer, channels, rows, columns] = dims;
  const std::array<int64_t, 4> strides = {rows * columns * channels, 1,
                                          columns * channels, channels};
  Descriptor tensor(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  tensor.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, id);
  tensor.set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, type_of(dtype));
  tensor.set(CUDNN_ATTR_TENSOR_DIMENSIONS, dims);
  tensor.set(CUDNN_ATTR_TENSOR_STRIDES, strides);
  tensor.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64,
             ConvPlan::kAlignment);
  tensor.finalize();
  return tensor;
}

Descriptor make_convolution(const ConvSize& size) {
  const std::array<int64_t, 2> ones = {1, 1};
  const std::array<int64_t, 2> strides = {size.stride, size.stride};
  const std::array<int64_t, 2> pads = {size.pad, size.pad};
  Descriptor conv(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  conv.set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, int64_t{2});
  conv.set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE,
           CUDNN_DATA_FLOAT);
  conv.set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE,
           CUDNN_CROSS_CORRELATION);
  conv.set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, pads);
  conv.set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, pads);
  conv.set(CUDNN_ATTR_CONVOLUTION_DILATIONS, ones);
  conv.set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, strides);
  conv.finalize();
  return conv;
}

// Identifiers of one pass's operation and its attributes.
struct PassNames {
  cudnnBackendDescriptorType_t operation;
  cudnnBackendAttributeName_t conv, x, w, y, alpha, beta;
};

PassNames names_of(ConvPass pass) {
  switch (pass) {
    case ConvPass::kForward:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA};
    case ConvPass::kBackwardData:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA};
    case ConvPass::kBackwardWeights:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA};
  }
  CHECK(false);
}

// Returns tensors, convolution and, last, the operation.
std::vector<Descriptor> make_parts(const ConvProblem& problem) {
  const ConvSize& s = problem.size;
  const PassNames names = names_of(problem.pass);
  std::vector<Descriptor> parts;
  parts.push_back(
      make_tensor_descriptor(kX, problem.dtype, {s.N, s.C, s.H, s.W}));
  parts.push_back(
      make_tensor_descriptor(kW, problem.dtype, {s.K, s.C, s.R, s.S}));
  parts.push_back(
      make_tensor_descriptor(kY, problem.dtype, {s.N, s.K, s.P(), s.Q()}));
  parts.push_back(make_convolution(s));
  Descriptor operation(names.operation);
  operation.set(names.x, parts[0]);
  operation.set(names.w, parts[1]);
  operation.set(names.y, parts[2]);
  operation.set(names.conv, parts[3]);
  operation.set(names.alpha, CUDNN_TYPE_FLOAT, 1.0f);
  operation.set(names.beta, CUDNN_TYPE_FLOAT, 0.0f);
  operation.finalize();
  parts.push_back(std::move(operation));
  return parts;
}

Descriptor engine_of(const Descriptor& config) {
  Descriptor engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  cudnnBackendDescriptor_t raw = engine.raw();
  int64_t count = 0;
  check_cudnn(config.get(CUDNN_ATTR_ENGINECFG_ENGINE,
                         CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count, &raw),
              "cudnnBackendGetAttribute(engine)");
  return engine;
}

std::vector<cudnnBackendNumericalNote_t> notes_of(const Descriptor& config) {
  int64_t count = 0;
  std::vector<cudnnBackendNumericalNote_t> notes(
      CUDNN_NUMERICAL_NOTE_TYPE_COUNT);
  check_cudnn(engine_of(config).get(CUDNN_ATTR_ENGINE_NUMERICAL_NOTE,
                                    CUDNN_TYPE_NUMERICAL_NOTE,
                                    std::ssize(notes), &count, notes.data()),
              "cudnnBackendGetAttribute(numerical notes)");
  notes.resize(static_cast<size_t>(count));
  return notes;
}

std::string name_of(const Descriptor& config) {
  int64_t count = 0, index = 0;
  check_cudnn(engine_of(config).get(CUDNN_ATTR_ENGINE_GLOBAL_INDEX,
                                    CUDNN_TYPE_INT64, 1, &count, &index),
              "cudnnBackendGetAttribute(engine index)");
  return fmt::format("cuDNN engine {}", index);
}

// Whether an engine meets the requirements of the problem and ops/conv.h.
// Tensor cores multiply fp32 only as TF32; Winograd's transforms of bf16 lose
// bits before the multiplication, and its larger tiles and FFT do so in fp32
// too.
bool is_allowed(const Descriptor& config, const ConvProblem& problem) {
  for (const cudnnBackendNumericalNote_t note : notes_of(config)) {
    switch (note) {
      case CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC:
        if (problem.determinism == Determinism::kRequired) return false;
        break;
      case CUDNN_NUMERICAL_NOTE_TENSOR_CORE:
        if (problem.dtype == DType::kF32) return false;
        break;
      case CUDNN_NUMERICAL_NOTE_WINOGRAD:
        if (problem.dtype == DType::kBf16) return false;
        break;
      case CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6:
      case CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13:
      case CUDNN_NUMERICAL_NOTE_FFT:
      case CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS:
      case CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION:
        return false;
      default:
        break;
    }
  }
  return true;
}

// Returns engines with their settings, the expected fastest first.
std::vector<Descriptor> configs_of(const PlanTarget& target,
                                   const Descriptor& graph,
                                   cudnnBackendHeurMode_t mode) {
  Descriptor heuristics(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, mode);
  if (target.device != nullptr)
    heuristics.set(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, *target.device);
  if (!heuristics.try_finalize()) return {};
  int64_t count = 0;
  check_cudnn(heuristics.get(CUDNN_ATTR_ENGINEHEUR_RESULTS,
                             CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, &count, nullptr),
              "cudnnBackendGetAttribute(number of engines)");
  std::vector<Descriptor> configs;
  std::vector<cudnnBackendDescriptor_t> raw;
  for (int64_t index = 0; index < count; ++index) {
    configs.emplace_back(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    raw.push_back(configs.back().raw());
  }
  check_cudnn(
      heuristics.get(CUDNN_ATTR_ENGINEHEUR_RESULTS,
                     CUDNN_TYPE_BACKEND_DESCRIPTOR, count, &count, raw.data()),
      "cudnnBackendGetAttribute(engines)");
  configs.erase(configs.begin() + count, configs.end());
  return configs;
}

}  // namespace

std::shared_ptr<const ConvPlan::Graph> ConvPlan::make_graph(
    const PlanTarget& target,
    const ConvProblem& problem) {
  auto graph = std::make_shared<Graph>(
      Graph{make_parts(problem),
            Descriptor(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR)});
  if (target.handle != nullptr)
    graph->whole.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE,
                     target.handle);
  graph->whole.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, graph->parts.back());
  graph->whole.finalize();
  return graph;
}

ConvPlan::ConvPlan(std::shared_ptr<const Graph> graph,
                   Descriptor config,
                   Descriptor plan)
    : graph_(std::move(graph)),
      config_(std::move(config)),
      plan_(std::move(plan)),
      engine_(name_of(config_)) {
  int64_t count = 0;
  check_cudnn(plan_.get(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                        CUDNN_TYPE_INT64, 1, &count, &workspace_bytes_),
              "cudnnBackendGetAttribute(workspace)");
}

ConvPlan::ConvPlan(const PlanTarget& target, const ConvProblem& problem)
    : ConvPlan(std::move(list(target, problem, 1).front())) {}

std::vector<ConvPlan> ConvPlan::list(const PlanTarget& target,
                                     const ConvProblem& problem,
                                     size_t most) {
  const auto graph = make_graph(target, problem);
  std::vector<ConvPlan> plans;
  std::set<std::string> names;
  for (const auto mode :
       {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_B, CUDNN_HEUR_MODE_FALLBACK}) {
    if (plans.size() == most) break;
    for (Descriptor& config : configs_of(target, graph->whole, mode)) {
      if (plans.size() == most) break;
      if (!is_allowed(config, problem)) continue;
      Descriptor plan(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
      if (target.handle != nullptr)
        plan.set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE,
                 target.handle);
      if (target.device != nullptr)
        plan.set(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, *target.device);
      plan.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config);
      if (!plan.try_finalize()) continue;
      ConvPlan made(graph, std::move(config), std::move(plan));
      if (most == 1 || names.insert(made.name()).second)
        plans.push_back(std::move(made));
    }
  }
  if (!plans.empty()) return plans;
  const ConvSize& s = problem.size;
  fail(ExitCode::kInternal,
       "{} has no{} engine for {}: {} ({}, {}, {}, {}), filters ({}, {}, {}, "
       "{}), stride {}, pad {}",
       cudnn_version(),
       problem.determinism == Determinism::kRequired ? " deterministic" : "",
       name_of(problem.pass), name_of(problem.dtype), s.N, s.C, s.H, s.W, s.K,
       s.C, s.R, s.S, s.stride, s.pad);
}

// A setting is a knob's type and value, a descriptor of its own.
std::string ConvPlan::name() const {
  std::string name = engine_.substr(engine_.find("engine"));
  int64_t count = 0;
  std::vector<Descriptor> knobs;
  std::vector<cudnnBackendDescriptor_t> raw;
  for (int index = 0; index < CUDNN_KNOB_TYPE_COUNTS; ++index) {
    knobs.emplace_back(CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
    raw.push_back(knobs.back().raw());
  }
  check_cudnn(config_.get(CUDNN_ATTR_ENGINECFG_KNOB_CHOICES,
                          CUDNN_TYPE_BACKEND_DESCRIPTOR, std::ssize(raw),
                          &count, raw.data()),
              "cudnnBackendGetAttribute(knobs)");
  for (int64_t index = 0; index < count; ++index) {
    int64_t one = 0, value = 0;
    cudnnBackendKnobType_t type{};
    check_cudnn(knobs[index].get(CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE,
                                 CUDNN_TYPE_KNOB_TYPE, 1, &one, &type),
                "cudnnBackendGetAttribute(knob)");
    check_cudnn(knobs[index].get(CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE,
                                 CUDNN_TYPE_INT64, 1, &one, &value),
                "cudnnBackendGetAttribute(knob's value)");
    name += fmt::format(" k{}={}", static_cast<int>(type), value);
  }
  return name;
}

std::vector<cudnnBackendNumericalNote_t> ConvPlan::notes() const {
  return notes_of(config_);
}

void ConvPlan::run(cudnnHandle_t handle,
                   const void* x,
                   const void* w,
                   const void* y,
                   void* workspace) const {
  const std::array<int64_t, 3> names = {kX, kW, kY};
  const std::array<const void*, 3> data = {x, w, y};
  for (const void* tensor : data)
    CHECK(reinterpret_cast<uintptr_t>(tensor) % kAlignment == 0);
  Descriptor pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, names);
  pack.set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR,
           std::ssize(data), data.data());
  pack.set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, workspace);
  pack.finalize();
  check_cudnn(cudnn().BackendExecute(handle, plan_.raw(), pack.raw()),
              "cudnnBackendExecute");
}

}  // namespace syncopate::cuda
