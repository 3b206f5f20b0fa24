// First values do not depend on how many threads draw them.
#include <gtest/gtest.h>

#include <vector>

#include "layers/initialise.h"

namespace syncopate {
namespace {

TEST(FillNormal, IsTheSequenceOfOneRng) {
  for (const size_t count : {1u, 8192u, 8193u, 16385u, 100003u}) {
    const Rng rng(7, Purpose::kInit, 3);
    std::vector<float> values(count), expected(count);
    fill_normal(values, 0.5, rng);
    Rng sequence = rng;
    for (float& value : expected)
      value = static_cast<float>(0.5 * sequence.normal());
    EXPECT_EQ(values, expected) << count;
  }
}

}  // namespace
}  // namespace syncopate
