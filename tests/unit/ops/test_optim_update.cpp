#include "ops/optim_update.h"

#include "cpu_fixture.h"
#include "support/guarded_tensor.h"
#include "support/tolerance.h"

namespace syncopate {
namespace {

using namespace test;

GuardedTensor flat(int64_t elems, uint64_t seed) {
  return {DType::kF32, Shape{elems}, Layout::kRowMajor,
          random_values(elems, seed)};
}
std::span<float> span_of(const GuardedTensor& t) {
  return {t.tensor().f32(), static_cast<size_t>(t.tensor().elems())};
}

TEST(OptimUpdate, SgdFollowsItsFormula) {
  for (const int64_t n : {1, 15, 16, 17, 8193, 40007})
    for (const float momentum : {0.0f, 0.9f})
      for (const bool nesterov : {false, true}) {
        Cpu cpu;
        const SgdParams params{0.1f, momentum, 5e-4f, 0.25f, nesterov};
        const GuardedTensor x = flat(n, 1), m = flat(n, 2), g = flat(n, 3);
        auto xs = x.get(), ms = m.get();
        const auto gs = g.get();
        for (int step = 0; step < 2; ++step) {
          sgd_update(cpu.context, span_of(x), span_of(m), span_of(g), params);
          for (size_t i = 0; i < xs.size(); ++i) {
            const double gradient = 0.25 * gs[i] + double{5e-4f} * xs[i];
            double move = gradient;
            if (momentum != 0) {
              ms[i] = double{momentum} * ms[i] + gradient;
              move = nesterov ? gradient + double{momentum} * ms[i] : ms[i];
            }
            xs[i] -= double{0.1f} * move;
          }
        }
        // Two steps of a few roundings of values below 2.
        EXPECT_TRUE(all_near(x.get(), xs, {8 * kEpsilonF32, 0}));
        EXPECT_TRUE(all_near(m.get(), ms, {8 * kEpsilonF32, 0}));
        EXPECT_TRUE(x.guards_are_intact() && m.guards_are_intact());
      }
}

TEST(OptimUpdate, WithoutMomentumTheBufferMayBeEmpty) {
  Cpu cpu;
  const GuardedTensor x = flat(40, 1), g = flat(40, 2), y = flat(40, 1),
                      unused = flat(40, 3);
  const auto before = unused.bytes();
  sgd_update(cpu.context, span_of(x), {}, span_of(g), {0.1f, 0, 0});
  sgd_update(cpu.context, span_of(y), span_of(unused), span_of(g),
             {0.1f, 0, 0});
  EXPECT_EQ(x.bytes(), y.bytes());
  EXPECT_EQ(unused.bytes(), before);
}

// A server shard updates a slice: the bits must be those of the whole range.
TEST(OptimUpdate, SlicesAndThreadsHaveTheBitsOfTheWhole) {
  Cpu cpu, one(1);
  const SgdParams params{0.1f, 0.9f, 5e-4f, 1.0f / 3, true};
  const int64_t n = 30011;
  const GuardedTensor x = flat(n, 1), m = flat(n, 2), g = flat(n, 3);
  const GuardedTensor x_sliced = flat(n, 1), m_sliced = flat(n, 2);
  sgd_update(cpu.context, span_of(x), span_of(m), span_of(g), params);
  for (const auto& [begin, count] :
       {std::pair<size_t, size_t>{0, 1}, {1, 9999}, {10000, 20011}})
    sgd_update(one.context, span_of(x_sliced).subspan(begin, count),
               span_of(m_sliced).subspan(begin, count),
               span_of(g).subspan(begin, count), params);
  EXPECT_EQ(x_sliced.bytes(), x.bytes());
  EXPECT_EQ(m_sliced.bytes(), m.bytes());
}

}  // namespace
}  // namespace syncopate
