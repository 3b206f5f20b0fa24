#include "ops/embedding.h"

#include <array>
#include <utility>

#include "ops/bodies.h"
#include "ops/cpu/parallel.h"
#include "ops/cpu/simd.h"

namespace syncopate::cpu {
namespace {

const int32_t* checked_ids(const ConstTensor& ids, int64_t V) {
  const auto* id = static_cast<const int32_t*>(ids.data);
  for (int64_t t = 0; t < ids.elems(); ++t)
    CHECK_MSG(id[t] >= 0 && id[t] < V, "id {} of a table of {}", id[t], V);
  return id;
}

struct Input {
  const float* table;
  const int32_t* ids;
};

template <size_t kInputs, typename T>
void look_up(Context& context,
             T* y,
             const std::array<Input, 3>& inputs,
             int64_t tokens,
             int64_t D) {
  parallel_for(context, tokens, tokens * D, [&](int64_t t) {
    const float* row[kInputs];
    for (size_t i = 0; i < kInputs; ++i)
      row[i] = inputs[i].table + inputs[i].ids[t] * D;
    for_vectors(0, D, [&](auto lanes, int64_t d) {
      F16 sum = lanes.get(row[0] + d);
      for (size_t i = 1; i < kInputs; ++i) sum += lanes.get(row[i] + d);
      lanes.put(y + t * D + d, sum);
    });
  });
}

struct Token {
  int32_t id, place;
};

// Sorts by ascending id, then by place; `tokens` must be in order of place. The
// result is in one of the two arrays.
const Token* sort_tokens(Token* tokens, Token* other, int64_t n, int64_t V) {
  constexpr int kDigitBits = 11;
  for (int shift = 0; (V - 1) >> shift != 0; shift += kDigitBits) {
    std::array<int64_t, 1 << kDigitBits> begins{};
    const auto digit = [&](const Token& token) {
      return static_cast<size_t>(token.id >> shift) % begins.size();
    };
    for (int64_t i = 0; i < n; ++i) ++begins[digit(tokens[i])];
    int64_t before = 0;
    for (int64_t& begin : begins) before += std::exchange(begin, before);
    for (int64_t i = 0; i < n; ++i)
      other[begins[digit(tokens[i])]++] = tokens[i];
    std::swap(tokens, other);
  }
  return tokens;
}

constexpr int64_t kColumns = 128;  // per task: the sums stay in registers

// Adds columns [first, last) of the rows of dy that belong to sorted tokens
// [begin, end): first sums per id, then adds to the table.
template <typename T>
void add_rows(float* dtable,
              const T* dy,
              const Token* tokens,
              int64_t begin,
              int64_t end,
              int64_t first,
              int64_t last,
              int64_t D) {
  for (int64_t id_end; begin < end; begin = id_end) {
    const int32_t id = tokens[begin].id;
    for (id_end = begin; id_end < end && tokens[id_end].id == id;) ++id_end;
    float* to = dtable + id * D;
    if (last - first == kColumns) {
      F16 sums[kColumns / kLanes] = {};
      for (int64_t i = begin; i < id_end; ++i) {
        const T* row = dy + tokens[i].place * D + first;
        for (int64_t v = 0; v < kColumns / kLanes; ++v)
          sums[v] += load(row + v * kLanes);
      }
      for (int64_t v = 0; v < kColumns / kLanes; ++v)
        store(to + first + v * kLanes, load(to + first + v * kLanes) + sums[v]);
      continue;
    }
    for_vectors(first, last, [&](auto lanes, int64_t d) {
      F16 sum = {};
      for (int64_t i = begin; i < id_end; ++i)
        sum += lanes.get(dy + tokens[i].place * D + d);
      lanes.put(to + d, lanes.get(to + d) + sum);
    });
  }
}

}  // namespace

void embedding_forward(Context& context,
                       Tensor y,
                       std::span<const EmbeddingInput> inputs) {
  const int64_t tokens = y.shape[0], D = y.shape[1];
  std::array<Input, 3> rows{};
  for (size_t i = 0; i < inputs.size(); ++i)
    rows[i] = {inputs[i].table.f32(),
               checked_ids(inputs[i].ids, inputs[i].table.shape[0])};
  with_float_type(y.dtype, [&](auto element) {
    auto* to = static_cast<decltype(element)*>(y.data);
    if (inputs.size() == 1)
      look_up<1>(context, to, rows, tokens, D);
    else if (inputs.size() == 2)
      look_up<2>(context, to, rows, tokens, D);
    else
      look_up<3>(context, to, rows, tokens, D);
  });
}

// All rows of an id are summed by one task, over a few columns: the sum is in
// token order, and even a table of two rows occupies many threads.
void embedding_backward(Context& context,
                        Tensor dtable,
                        ConstTensor dy,
                        ConstTensor ids) {
  const int64_t n = dy.shape[0], V = dtable.shape[0], D = dtable.shape[1];
  const int32_t* id = checked_ids(ids, V);
  auto* memory = scratch<Token>(context, 2 * n);
  for (int64_t t = 0; t < n; ++t) memory[t] = {id[t], static_cast<int32_t>(t)};
  const Token* tokens = sort_tokens(memory, memory + n, n, V);
  // Parts of about kTokens tokens, split only between different ids.
  constexpr int64_t kTokens = 64;
  const int64_t parts = ceil_div(n, kTokens), blocks = ceil_div(D, kColumns);
  auto* begins = scratch<int64_t>(context, parts + 1, 1);
  int64_t place = begins[0] = 0;
  for (int64_t part = 1; part <= parts; ++part) {
    place = std::max(place, part * kTokens);
    while (place < n && tokens[place].id == tokens[place - 1].id) ++place;
    begins[part] = place = std::min(place, n);
  }
  with_float_type(dy.dtype, [&](auto element) {
    const auto* from = static_cast<const decltype(element)*>(dy.data);
    parallel_for(context, parts * blocks, n * D, [&](int64_t task) {
      const int64_t part = task / blocks, column = task % blocks * kColumns;
      add_rows(dtable.f32(), from, tokens, begins[part], begins[part + 1],
               column, std::min(column + kColumns, D), D);
    });
  });
}

}  // namespace syncopate::cpu
