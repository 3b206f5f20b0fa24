// A loss on the test device, and the contract of every loss besides its
// formula.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <functional>

#include <gtest/gtest.h>

#include "ops/loss.h"
#include "support/guarded_tensor.h"
#include "support/recorded.h"
#include "support/test_device.h"

namespace syncopate::test {

struct LossBench {
  // The loss with all arguments but these.
  std::function<void(Context&,
                     ClassificationSums* sums,
                     Tensor dlogits,
                     ConstTensor logits,
                     ConstTensor labels,
                     float scale)>
      loss;

  ClassificationSums run(TestContext& test,
                         Tensor dlogits,
                         ConstTensor logits,
                         ConstTensor labels,
                         float scale = 1) const {
    // Previous values are overwritten.
    const DeviceValues<ClassificationSums> sums({1e9, 7, 7, 7});
    loss(test.context, sums, dlogits, logits, labels, scale);
    return sums.get(test.context)[0];
  }

  // Without a gradient, and in place with one thread, it gives what it gave:
  // `sums` and `dlogits`. Overwrites the logits.
  void expect_the_same_again(const ClassificationSums& sums,
                             const GuardedTensor& dlogits,
                             const GuardedTensor& logits,
                             ConstTensor labels,
                             float scale) const {
    TestContext test, one(1);
    const auto silent = run(test, {}, logits, labels, scale);
    EXPECT_EQ(silent.loss_sum, sums.loss_sum);
    const auto in_place = run(one, logits, logits, labels, scale);
    EXPECT_EQ(in_place.loss_sum, sums.loss_sum);
    EXPECT_EQ(in_place.correct, sums.correct);
    EXPECT_EQ(in_place.correct_top5, sums.correct_top5);
    EXPECT_EQ(logits.bytes(), dlogits.bytes());
  }

  // A recorded loss follows the logits.
  void expect_recorded_is_the_same(const Shape& shape,
                                   ConstTensor labels) const {
    TestContext test;
    GuardedTensor logits = random_tensor(shape, 1);
    const GuardedTensor dlogits(DType::kF32, shape),
        expected(DType::kF32, shape);
    const DeviceValues<ClassificationSums> sums(ClassificationSums{});
    const auto step = recorded(
        test, [&] { loss(test.context, sums, dlogits, logits, labels, 0.5f); });
    for (const uint64_t seed : {2, 3}) {
      logits.set(random_values(shape.elems(), seed));
      step();
      EXPECT_EQ(run(test, expected, logits, labels, 0.5f).loss_sum,
                sums.get(test.context)[0].loss_sum);
      EXPECT_EQ(dlogits.bytes(), expected.bytes());
    }
  }

  // One of two samples has an impossible label: the CPU refuses both, a GPU
  // counts the other one.
  void expect_label_refused(ConstTensor logits, ConstTensor labels) const {
    TestContext test;
    if (test.device.kind() == DeviceKind::kCpu) {
      EXPECT_THROW(run(test, {}, logits, labels), Error);
      return;
    }
    const auto sums = run(test, {}, logits, labels);
    EXPECT_TRUE(std::isnan(sums.loss_sum));
    EXPECT_EQ(sums.correct, 1);
    EXPECT_EQ(sums.correct_top5, 1);
    EXPECT_EQ(sums.samples, 2);
  }
};

}  // namespace syncopate::test
