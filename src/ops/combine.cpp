#include "ops/combine.h"

#include <cmath>

#include "ops/bodies.h"

namespace syncopate {

void combine(Context& context,
             std::span<float> y,
             std::initializer_list<Term> terms) {
  CHECK_MSG(terms.size() >= 1 && terms.size() <= 4, "{} terms", terms.size());
  for (const Term& term : terms) CHECK(term.values.size() == y.size());
  bodies_of(context).combine(context, y, terms);
}

void compensate(Context& context,
                std::span<float> g,
                std::span<const float> x,
                std::span<const float> backup,
                float lambda) {
  CHECK(x.size() == g.size() && backup.size() == g.size());
  bodies_of(context).compensate(context, g, x, backup, lambda);
}

void add_in_units(Context& context,
                  std::span<float> y,
                  int factor,
                  std::span<const float> x,
                  float unit) {
  CHECK(x.size() == y.size());
  int exponent;
  CHECK_MSG(std::frexp(unit, &exponent) == 0.5f, "unit {}", unit);
  bodies_of(context).add_in_units(context, y, factor, x, unit);
}

void orthonormalize(Context& context,
                    std::span<float> p,
                    int64_t rows,
                    int64_t rank) {
  CHECK_MSG(rows >= 0 && rank >= 0 && std::ssize(p) == rows * rank,
            "{} elements as ({}, {})", p.size(), rows, rank);
  bodies_of(context).orthonormalize(context, p, rows, rank);
}

}  // namespace syncopate
