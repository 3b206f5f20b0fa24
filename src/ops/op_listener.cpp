#include "ops/op_listener.h"

#include <algorithm>
#include <span>
#include <tuple>
#include <type_traits>
#include <vector>

namespace syncopate {
namespace {

// --- operands ----------------------------------------------------------------

struct Operands {
  int64_t bytes = 0;
  Shape largest;

  void add(const Shape& shape, int64_t its_bytes) {
    bytes += its_bytes;
    if (largest.rank() == 0 || shape.elems() > largest.elems()) largest = shape;
  }
  void add(const ConstTensor& tensor) {
    if (tensor.data != nullptr) add(tensor.shape, tensor.bytes());
  }
  void add(const Tensor& tensor) { add(ConstTensor(tensor)); }
  void add(const ConstWeight& weight) {
    const ConstTensor& tensor = weight;
    if (weight.copy == nullptr) return add(tensor);
    add(weight.shape, weight.elems() * bytes_of(DType::kBf16));
  }
  template <typename T>
  void add(std::span<T> values) {
    if constexpr (std::is_arithmetic_v<T>)
      add(Shape{std::ssize(values)}, std::ssize(values) * sizeof(T));
  }
  // A gather reads as many rows of a table as it writes.
  void add(std::span<const EmbeddingInput> inputs) {
    for (const EmbeddingInput& input : inputs) add(input.ids);
  }
  void add(std::initializer_list<Term> terms) {
    for (const Term& term : terms) add(term.values);
  }
  template <typename... T>
  void add_all(const T&... operands) {
    (add(operands), ...);
  }
  void add(const BatchNormForwardArgs& a) {
    add_all(a.y, a.mean, a.rstd, a.running_mean, a.running_var, a.x, a.gamma,
            a.beta, a.z, a.mask);
  }
  void add(const BatchNormInferenceArgs& a) {
    add_all(a.y, a.x, a.running_mean, a.running_var, a.gamma, a.beta, a.z);
  }
  void add(const BatchNormBackwardArgs& a) {
    add_all(a.dx, a.dz, a.dgamma, a.dbeta, a.dy, a.dy2, a.x, a.y, a.mask,
            a.gamma, a.beta, a.mean, a.rstd);
  }
  void add(const LayerNormForwardArgs& a) {
    add_all(a.y, a.z, a.mean, a.rstd, a.x, a.residual, a.gamma, a.beta);
  }
  void add(const LayerNormBackwardArgs& a) {
    add_all(a.dx, a.dresidual, a.dgamma, a.dbeta, a.dbias, a.dy, a.z, a.mean,
            a.rstd, a.gamma);
  }
  void add(const AttentionForwardArgs& a) { add_all(a.out, a.lse, a.qkv); }
  void add(const AttentionBackwardArgs& a) {
    add_all(a.dqkv, a.dout, a.qkv, a.out, a.lse);
  }
  // Sizes, factors, and values on the host.
  template <typename T>
  requires(!requires(const T& x) { std::span(x); }) void add(const T&) {}
};

// --- arithmetic --------------------------------------------------------------

struct Arithmetic {
  double flop = 0;
  std::string shape;  // empty: that of the largest operand
};

double product(std::initializer_list<int64_t> dims) {
  double all = 1;
  for (const int64_t dim : dims) all *= static_cast<double>(dim);
  return all;
}

Arithmetic of_conv(const ConvSize& s) {
  std::string shape = fmt::format("{}x{}x{}x{} -> {}, {}x{}", s.N, s.C, s.H,
                                  s.W, s.K, s.R, s.S);
  if (s.stride != 1) shape += fmt::format(" /{}", s.stride);
  return {2 * product({s.N, s.K, s.P(), s.Q(), s.C, s.R, s.S}), shape};
}

// `products`: 1 forward, 1 backward for each gradient that is wanted.
Arithmetic of_linear(const ConstTensor& y, const ConstTensor& x, int products) {
  const int64_t N = x.shape[0], D = x.shape[1], K = y.shape[1];
  return {2 * products * product({N, D, K}),
          fmt::format("{}x{} -> {}", N, D, K)};
}

// The forward pass multiplies two matrices for each head of each sequence of n
// tokens, (n, D) (D, n) and (n, n) (n, D); the backward pass five such.
template <typename Args>
Arithmetic of_attention(Context& context, const Args& args, int products) {
  const Sequences& sequences = args.sequences;
  std::vector<int32_t> offsets(static_cast<size_t>(sequences.count) + 1);
  context.device().copy(offsets.data(), sequences.offsets,
                        std::ssize(offsets) * 4, context.stream());
  context.stream().synchronize();
  double squares = 0;
  for (size_t i = 1; i < offsets.size(); ++i) {
    const double length = offsets[i] - offsets[i - 1];
    squares += length * length;
  }
  const int64_t H = args.qkv.shape[1] / 3;
  return {2 * products * squares * static_cast<double>(H), ""};
}

template <auto Body>
struct Op {};
template <auto Body, auto Other>
constexpr bool is_op = std::is_same_v<Op<Body>, Op<Other>>;

template <auto Body, typename... A>
Arithmetic arithmetic(Context& context, const A&... arguments) {
  const std::tuple<const A&...> all(arguments...);
  if constexpr ((std::is_same_v<A, ConvSize> || ...)) {
    return of_conv(std::get<const ConvSize&>(all));
  } else if constexpr (is_op<Body, &OpBodies::linear_forward>) {
    return of_linear(std::get<0>(all), std::get<1>(all), 1);
  } else if constexpr (is_op<Body, &OpBodies::linear_backward>) {
    const bool has_dx = std::get<0>(all).data != nullptr;
    return of_linear(std::get<3>(all), std::get<4>(all), has_dx ? 2 : 1);
  } else if constexpr ((std::is_same_v<A, AttentionForwardArgs> || ...)) {
    return of_attention(context, std::get<0>(all), 2);
  } else if constexpr ((std::is_same_v<A, AttentionBackwardArgs> || ...)) {
    return of_attention(context, std::get<0>(all), 5);
  } else {
    return {};
  }
}

std::string text_of(const Shape& shape) {
  std::string text;
  for (int i = 0; i < shape.rank(); ++i)
    text += fmt::format("{}{}", i == 0 ? "" : "x", shape[i]);
  return text;
}

// --- bodies ------------------------------------------------------------------

struct End {
  Context& context;
  ~End() { context.listener()->op_ends(context.take_engine()); }
};

template <auto Body, const char* const& Name, typename Signature>
struct Followed;

template <auto Body, const char* const& Name, typename R, typename... A>
struct Followed<Body, Name, R(Context&, A...)> {
  static R call(Context& context, A... arguments) {
    Operands operands;
    operands.add_all(arguments...);
    const Arithmetic work = arithmetic<Body>(context, arguments...);
    context.listener()->op_begins(
        {.op = Name,
         .shape = work.shape.empty() ? text_of(operands.largest) : work.shape,
         .bytes = operands.bytes,
         .flop = work.flop});
    const End end{context};
    return (device_bodies(context).*Body)(context, arguments...);
  }
};

#define OP(name) const char* const name_of_##name = #name;
#include "ops/all_ops.inc"

}  // namespace

const OpBodies& followed_bodies() {
  static constexpr OpBodies kBodies = {
#define OP(name)                                    \
  .name = Followed<&OpBodies::name, name_of_##name, \
                   decltype(syncopate::name)>::call,
#include "ops/all_ops.inc"
  };
  return kBodies;
}

}  // namespace syncopate
