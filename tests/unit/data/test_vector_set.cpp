// Vectors that are made: sizes, seeds, and the centres around which they lie.
#include "data/vectors/vector_set.h"

#include <gtest/gtest.h>

namespace syncopate {
namespace {

DataOptions options() {
  DataOptions options;
  options.kind = "synthetic_vectors";
  options.samples = 6000;
  options.test_samples = 300;
  options.classes = 3;
  return options;
}

// The mean of a class's samples, in one dimension.
double mean(const VectorSet& set, const VectorSpec& spec, int label, int i) {
  double sum = 0, count = 0;
  for (int64_t n = 0; n < set.samples(); ++n)
    if (set.labels[n] == label) {
      sum += set.values[n * spec.width + i];
      ++count;
    }
  return sum / count;
}

TEST(VectorSet, BothSetsLieAroundTheSameCentres) {
  const VectorData data = make_synthetic_vectors(options());
  EXPECT_EQ(data.train.samples(), 6000);
  EXPECT_EQ(data.test.samples(), 300);
  double between = 0;
  for (int i = 0; i < data.spec.width; ++i) {
    // Deviations of means of 2,000 and of 100 values; 6 sigma.
    EXPECT_NEAR(mean(data.train, data.spec, 1, i),
                mean(data.test, data.spec, 1, i), 0.62);
    between += std::abs(mean(data.train, data.spec, 0, i) -
                        mean(data.train, data.spec, 1, i));
  }
  EXPECT_GT(between / static_cast<double>(data.spec.width), 0.3);
}

TEST(VectorSet, SeedsAndSizesDecideTheDigest) {
  const std::string digest = make_synthetic_vectors(options()).digest;
  EXPECT_EQ(make_synthetic_vectors(options()).digest, digest);
  DataOptions other = options();
  other.synthetic_seed = 8;
  EXPECT_NE(make_synthetic_vectors(other).digest, digest);
  other = options();
  other.test_samples = 301;
  EXPECT_NE(make_synthetic_vectors(other).digest, digest);
}

TEST(VectorSet, BatchesHoldTheSamplesAskedFor) {
  const VectorData data = make_synthetic_vectors(options());
  VectorBatch batch;
  const std::vector<int64_t> samples = {5, 0, 299};
  batch.fill(data.test, data.spec, samples);
  const Batch view = batch.view(data.spec);
  EXPECT_EQ(view.samples, 3);
  EXPECT_EQ(view.vectors.shape, Shape({3, data.spec.width}));
  for (size_t n = 0; n < samples.size(); ++n) {
    EXPECT_EQ(batch.labels[n], data.test.labels[samples[n]]);
    for (int64_t i = 0; i < data.spec.width; ++i)
      EXPECT_EQ(batch.values[n * data.spec.width + i],
                data.test.values[samples[n] * data.spec.width + i]);
  }
}

}  // namespace
}  // namespace syncopate
