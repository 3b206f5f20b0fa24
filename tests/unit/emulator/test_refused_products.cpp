// What a dense layer does where the library of matrix products refuses it.
#include "ops/matmul.h"

#include <cmath>

#include "ops/bodies.h"
#include "unit/emulator/emulated.h"

namespace syncopate::test {
namespace {

constexpr int64_t kN = 20, kD = 24, kK = 30;

std::vector<float> waves(int64_t count, double pace) {
  std::vector<float> values(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i)
    values[i] = static_cast<float>(std::sin(pace * static_cast<double>(i)));
  return values;
}

class RefusedProductsTest : public Emulated {
 protected:
  struct Results {
    std::vector<float> y, dx, dw, db;
  };
  Results run(bool is_refusing) {
    const bool before = emulator::set_refusing_products(is_refusing);
    Context context(*device, *stream, 1);
    const auto x = array(waves(kN * kD, 0.3)), w = array(waves(kK * kD, 0.7)),
               b = array(waves(kK, 1.1)), dy = array(waves(kN * kK, 1.3)),
               addend = array(waves(kN * kD, 1.7)),
               dw = array(waves(kK * kD, 1.9)), db = array(waves(kK, 2.3));
    const auto y = array<float>(kN * kK), dx = array<float>(kN * kD);
    const auto matrix = [](const Array<float>& of, const Shape& shape) {
      return make_tensor(of.data(), DType::kF32, shape);
    };
    linear_forward(context, matrix(y, {kN, kK}), matrix(x, {kN, kD}),
                   matrix(w, {kK, kD}), matrix(b, {kK}));
    linear_backward(context, matrix(dx, {kN, kD}), matrix(dw, {kK, kD}),
                    matrix(db, {kK}), matrix(dy, {kN, kK}), matrix(x, {kN, kD}),
                    matrix(w, {kK, kD}), matrix(addend, {kN, kD}));
    stream->synchronize();
    engine = context.take_engine();
    emulator::set_refusing_products(before);
    return {values(y), values(dx), values(dw), values(db)};
  }
  std::string_view engine;
};

TEST_F(RefusedProductsTest, AreComputedAllTheSame) {
  const Results expected = run(false);
  EXPECT_EQ(engine, "emulated library");
  const Results found = run(true);
  EXPECT_EQ(engine, "");
  const auto expect_near = [](const std::vector<float>& actual,
                              const std::vector<float>& wanted) {
    ASSERT_EQ(actual.size(), wanted.size());
    for (size_t i = 0; i < wanted.size(); ++i)
      EXPECT_NEAR(actual[i], wanted[i], 1e-5) << i;
  };
  expect_near(found.y, expected.y);
  expect_near(found.dx, expected.dx);
  expect_near(found.dw, expected.dw);
  expect_near(found.db, expected.db);
}

}  // namespace
}  // namespace syncopate::test
