// The loader against the parts it is made of, and the procedural data set.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <thread>

#include "base/clock.h"
#include "data/images/augment.h"
#include "loader_bench.h"

namespace syncopate {
namespace {

constexpr uint64_t kSeed = LoaderBench::kSeed;

DataOptions small_options() {
  DataOptions options;
  options.kind = "synthetic_images";
  options.samples = 50;
  options.test_samples = 20;
  options.classes = 5;
  options.height = 9;
  options.width = 8;
  options.batch = 4;
  options.crop_pad = 2;
  options.augment = {"crop", "flip"};
  return options;
}

TEST(Loader, GivesTheSamplersSamplesAugmented) {
  const LoaderBench fixture(small_options());
  const Sampler sampler = fixture.sampler(2);
  Loader loader = fixture.loader(1, 2, 0);
  Augmenter augmenter(fixture.options, fixture.data.train,
                      fixture.normalization, kSeed);
  std::vector<float> expected(9 * 8 * 3);
  for (int64_t index = 0; index < 3 * sampler.batches_per_epoch(); ++index) {
    const Batch batch = loader.next();
    ASSERT_EQ(batch.samples, 4);
    ASSERT_EQ(batch.images.shape, (Shape{4, 3, 9, 8}));
    ASSERT_EQ(batch.images.layout, Layout::kNhwc);
    ASSERT_EQ(batch.labels.dtype, DType::kI32);
    const Content content = content_of(batch);
    const auto samples = sampler.batch(1, index);
    for (size_t i = 0; i < 4; ++i) {
      augmenter.fill(index / sampler.batches_per_epoch(), samples[i],
                     expected.data());
      ASSERT_EQ(std::memcmp(expected.data(),
                            content.images.data() + i * expected.size(),
                            expected.size() * sizeof(float)),
                0);
      ASSERT_EQ(content.labels[i],
                fixture.data.train.labels[static_cast<size_t>(samples[i])]);
    }
  }
}

TEST(Loader, PrefetchAndResumeDoNotChangeABit) {
  DataOptions options = small_options();
  options.augment = {"crop", "flip", "rotate"};
  options.prefetch = 0;
  const LoaderBench direct(options);
  const std::vector<Content> expected = contents_of(direct, 3, 20);
  for (const int64_t prefetch : {1, 2, 5}) {
    options.prefetch = prefetch;
    const LoaderBench ahead(options);
    for (const int64_t first : {0, 1, 7, 19}) {
      Loader loader = ahead.loader(0, 3, first);
      for (int64_t i = first; i < 20; ++i)
        ASSERT_EQ(content_of(loader.next()), expected[static_cast<size_t>(i)])
            << prefetch << " " << first << " " << i;
    }
  }
}

TEST(Loader, WorkersTogetherSeeWhatOneWorkerSees) {
  DataOptions options = small_options();
  options.augment = {"crop", "flip", "rotate"};
  options.batch = 12;
  for (const int ranks : {2, 3, 4})
    expect_workers_see_what_one_sees(options, ranks, 9);
}

// The caller's batch stays as it is while the thread works ahead.
TEST(Loader, ABatchIsValidUntilTheNextCall) {
  DataOptions options = small_options();
  options.prefetch = 1;
  const LoaderBench fixture(options);
  Loader loader = fixture.loader(0, 1, 0);
  for (int i = 0; i < 10; ++i) {
    const Batch batch = loader.next();
    const Content before = content_of(batch);
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    ASSERT_EQ(content_of(batch), before);
  }
}

TEST(Loader, StopsWhateverItIsDoing) {
  const LoaderBench fixture(small_options());
  { const Loader unused = fixture.loader(0, 1, 0); }
  for (int calls = 1; calls < 5; ++calls) {
    Loader loader = fixture.loader(0, 1, 0);
    for (int i = 0; i < calls; ++i) loader.next();
  }
}

TEST(Loader, CountsTheTimeItMadeTheCallerWait) {
  DataOptions options = small_options();
  options.prefetch = 0;
  const LoaderBench fixture(options);
  Loader loader = fixture.loader(0, 1, 0);
  EXPECT_EQ(loader.wait_s(), 0.0);
  const double begin_s = monotonic_s();
  for (int i = 0; i < 10; ++i) loader.next();
  const double elapsed_s = monotonic_s() - begin_s;
  EXPECT_GT(loader.wait_s(), 0.0);
  EXPECT_LE(loader.wait_s(), elapsed_s);
}

// The sampler is made for a larger set than the loader's: every call of next()
// throws the thread's error.
TEST(Loader, ThrowsWhatItsThreadThrew) {
  const LoaderBench fixture(small_options());
  DataOptions few = small_options();
  few.samples = 8;
  const LoaderBench small(few);
  for (const int64_t prefetch : {0, 2}) {
    few.prefetch = prefetch;
    Loader loader(few, small.data.train, small.normalization,
                  fixture.sampler(1), 0, kSeed, 0);
    int thrown = 0;
    for (int i = 0; i < 12; ++i) {
      try {
        loader.next();
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ExitCode::kInternal);
        ++thrown;
      }
    }
    EXPECT_GE(thrown, 2);
  }
}

TEST(Evaluation, BatchesAreNormalisedOnlyAndMayBeShort) {
  const LoaderBench fixture(small_options());
  const ImageReader reader(fixture.data.test, fixture.normalization);
  HostBatch batch;
  std::vector<float> expected(9 * 8 * 3);
  for (const std::vector<int64_t>& indices :
       {std::vector<int64_t>{19, 3, 4}, std::vector<int64_t>{7}}) {
    fill_evaluation_batch(batch, fixture.data.test, fixture.normalization,
                          indices);
    const Batch view = batch.view(fixture.data.test.spec);
    ASSERT_EQ(view.samples, std::ssize(indices));
    ASSERT_EQ(view.images.shape[0], std::ssize(indices));
    for (size_t i = 0; i < indices.size(); ++i) {
      reader.fill(
          indices[i],
          [&](int64_t, int64_t) {
            return Affine{}.to_map(indices[i], Outside::kNearest);
          },
          expected.data());
      EXPECT_TRUE(std::equal(expected.begin(), expected.end(),
                             view.images.f32() + i * expected.size()));
      EXPECT_EQ(batch.labels[i],
                fixture.data.test.labels[static_cast<size_t>(indices[i])]);
    }
  }
}

TEST(Synthetic, IsSeededAndOfAnySize) {
  DataOptions options = small_options();
  options.channels = 2;
  const Dataset data = load_dataset(options), again = load_dataset(options);
  EXPECT_EQ(data.train.digest, again.train.digest);
  EXPECT_NE(data.train.digest, data.test.digest);
  const ImageSpec spec = {.C = 2, .H = 9, .W = 8, .classes = 5};
  EXPECT_EQ(data.train.spec, spec);
  EXPECT_EQ(data.train.samples, 50);
  options.synthetic_seed = 8;
  EXPECT_NE(load_dataset(options).train.digest, data.train.digest);
  // More samples leave the first ones as they were.
  options = small_options();
  const auto few =
      std::get<std::vector<uint8_t>>(load_dataset(options).train.pixels);
  options.samples = 70;
  auto many =
      std::get<std::vector<uint8_t>>(load_dataset(options).train.pixels);
  many.resize(few.size());
  EXPECT_EQ(few, many);
  options.height = options.width = options.channels = 1;
  EXPECT_EQ(load_dataset(options).test.samples, 20);
}

TEST(Synthetic, RefusesImpossibleSizes) {
  DataOptions options = small_options();
  options.classes = 0;
  expect_error(options, ExitCode::kBadInput,
               "data.classes: 0, expected at least 1");
  options = small_options();
  options.noise = -1;
  expect_error(options, ExitCode::kBadInput,
               "data.noise: -1, expected 0 to 1000");
  options = small_options();
  options.samples = int64_t{1} << 62;
  expect_error_has(options, ExitCode::kBadInput,
                   "synthetic_images: 4611686018427387904 x 9 x 8 x 3 values "
                   "need ");
}

// Classifying the test set by the nearest class mean of the training set is far
// better than chance (10%), with room for a network that is invariant to
// shifts.
TEST(Synthetic, ClassesCanBeToldApart) {
  DataOptions options;
  options.kind = "synthetic_images";
  options.samples = 600;
  options.test_samples = 300;
  options.noise = 2;
  const Dataset data = load_dataset(options);
  const auto& train = std::get<std::vector<uint8_t>>(data.train.pixels);
  const auto& test = std::get<std::vector<uint8_t>>(data.test.pixels);
  const size_t elems = 32 * 32 * 3;
  std::vector<double> means(10 * elems, 0.0);
  for (size_t i = 0; i < 600; ++i)
    for (size_t j = 0; j < elems; ++j)
      means[static_cast<size_t>(data.train.labels[i]) * elems + j] +=
          train[i * elems + j] / 60.0;
  int right = 0;
  for (size_t i = 0; i < 300; ++i) {
    std::vector<double> distance(10, 0.0);
    for (size_t k = 0; k < 10; ++k)
      for (size_t j = 0; j < elems; ++j) {
        const double d = test[i * elems + j] - means[k * elems + j];
        distance[k] += d * d;
      }
    const auto nearest =
        std::min_element(distance.begin(), distance.end()) - distance.begin();
    right += nearest == data.test.labels[i] ? 1 : 0;
  }
  RecordProperty("right_of_300", right);
  EXPECT_GT(right, 150);
}

// Noise is in units of the pattern's deviation.
TEST(Synthetic, NoiseHasTheVarianceAskedFor) {
  DataOptions options = small_options();
  options.height = options.width = 64;
  const auto deviation = [&](double noise) {
    options.noise = noise;
    const ImageSet set = load_dataset(options).train;
    const auto& pixels = std::get<std::vector<uint8_t>>(set.pixels);
    double sum = 0, square = 0;
    for (const uint8_t v : pixels) {
      sum += v;
      square += double{1} * v * v;
    }
    const double n = static_cast<double>(pixels.size());
    return std::sqrt(square / n - sum / n * (sum / n));
  };
  // 40 bytes a deviation; rounding and clipping change a few percent.
  EXPECT_NEAR(deviation(0), 40, 1);
  EXPECT_NEAR(deviation(1), 40 * std::sqrt(2.0), 2.5);
}

}  // namespace
}  // namespace syncopate
