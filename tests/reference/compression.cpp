#include "reference/compression.h"

#include <algorithm>
#include <cmath>

namespace syncopate::reference {
namespace {

// Calls visit(tensor, element) for all elements.
template <typename Visit>
void for_elements(const Begins& begins, const Visit& visit) {
  for (size_t tensor = 0; tensor + 1 < begins.size(); ++tensor)
    for (int64_t i = begins[tensor]; i < begins[tensor + 1]; ++i)
      visit(tensor, static_cast<size_t>(i));
}

}  // namespace

Words pack(const Words& codes, int64_t bits) {
  const auto width = static_cast<size_t>(bits);
  Words words((codes.size() + 31) / 32 * width);
  for (size_t i = 0; i < codes.size(); ++i)
    for (size_t bit = 0; bit < width; ++bit) {
      const size_t place = i * width + bit;
      words[place / 32] |= (codes[i] >> bit & 1) << place % 32;
    }
  return words;
}

Words unpack(const Words& words, int64_t bits, int64_t count) {
  const auto width = static_cast<size_t>(bits);
  Words codes(static_cast<size_t>(count));
  for (size_t i = 0; i < codes.size(); ++i)
    for (size_t bit = 0; bit < width; ++bit) {
      const size_t place = i * width + bit;
      codes[i] |= (words[place / 32] >> place % 32 & 1) << bit;
    }
  return codes;
}

Sign sign(const Begins& begins, const Values& x) {
  Sign out{Words(x.size()), Values(begins.size() - 1), Values(x.size())};
  for_elements(begins, [&](size_t tensor, size_t i) {
    out.codes[i] = x[i] < 0 ? 1 : 0;
    out.scales[tensor] +=
        std::fabs(x[i]) /
        static_cast<double>(begins[tensor + 1] - begins[tensor]);
  });
  for_elements(begins, [&](size_t tensor, size_t i) {
    out.q[i] = x[i] < 0 ? -out.scales[tensor] : out.scales[tensor];
  });
  return out;
}

double qsgd_factor(const Qsgd& qsgd, int64_t d) {
  if (!qsgd.is_biased) return 1;
  const auto s = static_cast<double>(qsgd.levels);
  const auto elems = static_cast<double>(d);
  return 1 / (std::min(elems / (s * s), std::sqrt(elems) / s) + 1);
}

Quantized qsgd_encode(const Qsgd& qsgd,
                      const Begins& begins,
                      const Values& x,
                      const Values& u) {
  Quantized out{Words(x.size()), Values(begins.size() - 1), Values(x.size())};
  for_elements(begins, [&](size_t tensor, size_t i) {
    out.norms[tensor] += x[i] * x[i];
  });
  for (double& norm : out.norms) norm = std::sqrt(norm);
  for_elements(begins, [&](size_t tensor, size_t i) {
    const double norm = out.norms[tensor];
    const double l =
        norm > 0 ? static_cast<double>(qsgd.levels) * std::fabs(x[i]) / norm
                 : 0;
    out.to_threshold[i] = l - std::floor(l) - u[i];
    const double level = std::floor(l) + (out.to_threshold[i] > 0 ? 1 : 0);
    out.codes[i] = 2 * static_cast<uint32_t>(level) + (x[i] < 0 ? 1 : 0);
  });
  return out;
}

Values qsgd_decode(const Qsgd& qsgd,
                   const Begins& begins,
                   const Words& codes,
                   const Values& norms) {
  Values q(codes.size());
  for_elements(begins, [&](size_t tensor, size_t i) {
    const double c = qsgd_factor(qsgd, begins[tensor + 1] - begins[tensor]);
    q[i] = c * norms[tensor] * (codes[i] / 2) /
           static_cast<double>(qsgd.levels) * (codes[i] % 2 == 1 ? -1 : 1);
  });
  return q;
}

Values orthonormalize(const Values& p, int64_t rows, int64_t rank) {
  Values q = p;
  const auto at = [&](int64_t row, int64_t column) -> double& {
    return q[static_cast<size_t>(row * rank + column)];
  };
  const auto dot = [&](int64_t a, int64_t b) {
    double sum = 0;
    for (int64_t row = 0; row < rows; ++row) sum += at(row, a) * at(row, b);
    return sum;
  };
  for (int64_t k = 0; k < rank; ++k) {
    const double first = std::sqrt(dot(k, k));
    for (int64_t before = 0; before < k; ++before) {
      const double along = dot(before, k);
      for (int64_t row = 0; row < rows; ++row)
        at(row, k) -= along * at(row, before);
    }
    const double norm = std::sqrt(dot(k, k));
    for (int64_t row = 0; row < rows; ++row)
      at(row, k) = norm <= 1e-8 * first ? 0 : at(row, k) / norm;
  }
  return q;
}

}  // namespace syncopate::reference
