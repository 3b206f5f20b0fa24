// Sums in one memory against additions one after the other, in the order that
// the collectives document.
#include "ops/shared_sum.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/bf16.h"
#include "support/guarded_tensor.h"
#include "support/test_device.h"

namespace syncopate {
namespace {

using namespace test;

float sent_as(DType sent, float value) {
  return sent == DType::kBf16 ? from_bf16(bf16_of(value)) : value;
}

// By the ring: what arrives was rounded. By the server: what it receives, and
// what it answers.
float sum_of(const std::vector<float>& terms,
             SumOrder order,
             int64_t chunk,
             DType sent) {
  const size_t n = terms.size();
  const size_t first = order == SumOrder::kRing ? (chunk + 1) % n : 0;
  float sum = terms[first];
  for (size_t k = 1; k < n; ++k) {
    float term = terms[(first + k) % n];
    if (order == SumOrder::kRing)
      sum = sent_as(sent, sum);
    else
      term = sent_as(sent, term);
    sum += term;
  }
  return sent_as(sent, sum);
}

// The first (elems % n) chunks have one element more.
int64_t chunk_of(int64_t i, int64_t elems, int64_t n) {
  int64_t chunk = 0;
  for (int64_t end = 0;; ++chunk) {
    end += elems / n + (chunk < elems % n);
    if (i < end) return chunk;
  }
}

// Each range begins `step` elements further from a multiple of a pack than the
// one before.
void expect_sums(int64_t n,
                 int64_t elems,
                 int64_t step,
                 SumOrder order,
                 DType sent) {
  TestContext test;
  std::vector<GuardedTensor> tensors;
  std::vector<std::span<float>> ranges;
  std::vector<std::vector<double>> values;
  for (int64_t p = 0; p < n; ++p) {
    const auto places = static_cast<size_t>(3 + p * step) % 8;
    values.push_back(random_values(elems, p + 1));
    tensors.push_back(flat(moved_by(places, 9.0, values.back())));
    ranges.push_back(tensors.back().span().subspan(places));
  }
  shared_sum(test.context, ranges, order, sent);
  test.stream->synchronize();
  std::vector<float> wanted;
  for (int64_t i = 0; i < elems; ++i) {
    std::vector<float> terms;
    for (const auto& of_member : values)
      terms.push_back(static_cast<float>(of_member[i]));
    wanted.push_back(sum_of(terms, order, chunk_of(i, elems, n), sent));
  }
  for (int64_t p = 0; p < n; ++p) {
    const auto places = static_cast<size_t>(3 + p * step) % 8;
    const std::vector<double> all = tensors[p].get();
    EXPECT_EQ(std::count(all.begin(), all.begin() + places, 9.0), places);
    EXPECT_TRUE(std::equal(wanted.begin(), wanted.end(), all.begin() + places,
                           all.end()))
        << n << " ranges of " << elems << ", range " << p;
  }
}

TEST(SharedSum, IsThatOfAdditionsOneByOne) {
  for (const SumOrder order : {SumOrder::kRing, SumOrder::kServer})
    for (const DType sent : {DType::kF32, DType::kBf16})
      for (const int64_t step : {0, 1, 4})
        for (const auto& [n, elems] : {std::pair<int64_t, int64_t>{2, 1},
                                       {2, 5003},
                                       {3, 2},
                                       {3, 4096},
                                       {7, 1003},
                                       {kMostSharedRanges, 300}})
          expect_sums(n, elems, step, order, sent);
}

TEST(SharedSum, RefusesWhatItCannotHold) {
  TestContext test;
  std::vector<float> values(kMostSharedRanges + 1);
  std::vector<std::span<float>> ranges;
  for (float& value : values) ranges.emplace_back(&value, 1);
  const auto sum = [&] {
    shared_sum(test.context, ranges, SumOrder::kRing, DType::kF32);
  };
  EXPECT_THROW(sum(), Error);
  ranges.resize(1);
  EXPECT_THROW(sum(), Error);
  ranges.emplace_back(values.data() + 1, 2);
  EXPECT_THROW(sum(), Error);
}

}  // namespace
}  // namespace syncopate
