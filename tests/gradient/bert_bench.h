// A small BERT on the test device, with questions of different lengths.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <memory>
#include <numeric>
#include <vector>

#include "gradient/network_bench.h"
#include "models/bert.h"

namespace syncopate {

// Questions on the host, end to end.
struct Questions {
  std::vector<int64_t> lengths;
  std::vector<int32_t> tokens, segments;  // of all sequences
  std::vector<int32_t> labels;            // first and last of each

  // The tokens of a formula, which make_bert_fixtures.py has too.
  static Questions made(const std::vector<int64_t>& lengths,
                        const std::vector<int32_t>& labels,
                        int64_t vocabulary) {
    Questions list{lengths, {}, {}, labels};
    for (int64_t n = 0; n < std::ssize(lengths); ++n)
      for (int64_t t = 0; t < lengths[n]; ++t) {
        list.tokens.push_back(
            static_cast<int32_t>((7 * t * t + 3 * t + 5 * n) % vocabulary));
        list.segments.push_back(3 * t > lengths[n] ? 1 : 0);
      }
    return list;
  }
  // Samples [first, first + samples).
  Questions part(int64_t first, int64_t samples) const {
    const int64_t begin = tokens_before(first),
                  end = tokens_before(first + samples);
    const auto cut = [](const auto& list, int64_t from, int64_t to) {
      return std::vector(list.begin() + from, list.begin() + to);
    };
    return {cut(lengths, first, first + samples), cut(tokens, begin, end),
            cut(segments, begin, end),
            cut(labels, 2 * first, 2 * (first + samples))};
  }
  int64_t samples() const { return std::ssize(lengths); }
  int64_t tokens_before(int64_t sample) const {
    return std::accumulate(lengths.begin(), lengths.begin() + sample,
                           int64_t{0});
  }
};

// Questions in device memory.
class DeviceQuestions {
 public:
  DeviceQuestions(test::TestContext& on, const Questions& questions) {
    const int64_t N = questions.samples();
    std::vector<int32_t> positions, sequences, offsets{0};
    for (int64_t n = 0; n < N; ++n) {
      for (int64_t t = 0; t < questions.lengths[n]; ++t) {
        positions.push_back(static_cast<int32_t>(t));
        sequences.push_back(static_cast<int32_t>(n));
      }
      offsets.push_back(static_cast<int32_t>(questions.tokens_before(n + 1)));
    }
    const int64_t T = offsets.back();
    batch_.samples = N;
    batch_.max_length = std::ranges::max(questions.lengths);
    batch_.labels = put(on, questions.labels, {N, 2});
    batch_.tokens = put(on, questions.tokens, {T});
    batch_.segments = put(on, questions.segments, {T});
    batch_.positions = put(on, positions, {T});
    batch_.sequences = put(on, sequences, {T});
    batch_.offsets = put(on, offsets, {N + 1});
  }
  const Batch& batch() const { return batch_; }

 private:
  ConstTensor put(test::TestContext& on,
                  const std::vector<int32_t>& values,
                  const Shape& shape) {
    memory_.push_back({on.device, *on.stream, std::ssize(values)});
    memory_.back().assign(values);
    return make_const_tensor(memory_.back().data(), DType::kI32, shape);
  }
  std::vector<DeviceVector<int32_t>> memory_;
  Batch batch_;
};

class BertBench : public NetworkBench {
 public:
  BertBench(const ModelOptions& options,
            const QuestionSpec& spec,
            const Questions& questions,
            DType compute = DType::kF32)
      : NetworkBench(std::make_unique<Bert>(options, spec, compute),
                     questions.samples()),
        questions_(questions),
        all_(on(), questions) {}

  const Questions& questions() const { return questions_; }
  Batch batch() override { return all_.batch(); }

 private:
  Questions questions_;
  DeviceQuestions all_;
};

}  // namespace syncopate
