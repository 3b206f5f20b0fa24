#include "reference/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace syncopate::reference {
namespace {

// Locates the elements of one head of one sequence.
struct Place {
  int64_t first_token, length, sequence, head;
};

template <typename Body>
void for_places(const Attention& attention, const Body& body) {
  int64_t first_token = 0;
  for (int64_t n = 0; n < std::ssize(attention.lengths); ++n) {
    const int64_t length = attention.lengths[static_cast<size_t>(n)];
    for (int64_t head = 0; head < attention.heads; ++head)
      body(Place{first_token, length, n, head});
    first_token += length;
  }
}

// Index of element d of a token in part 0, 1 or 2 of (T, 3 H).
size_t in_qkv(const Attention& a,
              const Place& p,
              int part,
              int64_t token,
              int64_t d) {
  return static_cast<size_t>(((p.first_token + token) * 3 + part) * a.H() +
                             p.head * a.D + d);
}
size_t in_out(const Attention& a, const Place& p, int64_t token, int64_t d) {
  return static_cast<size_t>((p.first_token + token) * a.H() + p.head * a.D +
                             d);
}

// S (length, length)
Values scores_of(const Attention& a, const Place& p, const Values& qkv) {
  Values scores;
  for (int64_t query = 0; query < p.length; ++query)
    for (int64_t key = 0; key < p.length; ++key) {
      double score = 0;
      for (int64_t d = 0; d < a.D; ++d)
        score += qkv[in_qkv(a, p, 0, query, d)] * qkv[in_qkv(a, p, 1, key, d)];
      scores.push_back(score / std::sqrt(static_cast<double>(a.D)));
    }
  return scores;
}

double log_sum_exp(const double* row, int64_t length) {
  const double highest = *std::max_element(row, row + length);
  double sum = 0;
  for (int64_t key = 0; key < length; ++key)
    sum += std::exp(row[key] - highest);
  return highest + std::log(sum);
}

}  // namespace

int64_t Attention::tokens() const {
  return std::accumulate(lengths.begin(), lengths.end(), int64_t{0});
}

AttentionResult attention_forward(const Attention& a, const Values& qkv) {
  AttentionResult result;
  result.out.resize(static_cast<size_t>(a.tokens() * a.H()));
  result.lse.resize(static_cast<size_t>(a.tokens() * a.heads));
  for_places(a, [&](const Place& p) {
    const Values scores = scores_of(a, p, qkv);
    for (int64_t query = 0; query < p.length; ++query) {
      const double* row = scores.data() + query * p.length;
      const double lse = log_sum_exp(row, p.length);
      const int64_t token = p.first_token + query;
      result.lse[static_cast<size_t>(token * a.heads + p.head)] = lse;
      for (int64_t key = 0; key < p.length; ++key) {
        const double share =
            std::exp(row[key] - lse) * a.mask(p.sequence, p.head, query, key);
        for (int64_t d = 0; d < a.D; ++d)
          result.out[in_out(a, p, query, d)] +=
              share * qkv[in_qkv(a, p, 2, key, d)];
      }
    }
  });
  return result;
}

Values attention_backward(const Attention& a,
                          const Values& dout,
                          const Values& qkv,
                          const Values& out) {
  Values dqkv(qkv.size());
  const double scale = 1 / std::sqrt(static_cast<double>(a.D));
  for_places(a, [&](const Place& p) {
    const Values scores = scores_of(a, p, qkv);
    for (int64_t query = 0; query < p.length; ++query) {
      const double* row = scores.data() + query * p.length;
      const double lse = log_sum_exp(row, p.length);
      double delta = 0;
      for (int64_t d = 0; d < a.D; ++d)
        delta += dout[in_out(a, p, query, d)] * out[in_out(a, p, query, d)];
      for (int64_t key = 0; key < p.length; ++key) {
        const double share = std::exp(row[key] - lse);
        const double mask = a.mask(p.sequence, p.head, query, key);
        double dshare = 0;
        for (int64_t d = 0; d < a.D; ++d)
          dshare += dout[in_out(a, p, query, d)] *
                    qkv[in_qkv(a, p, 2, key, d)] * mask;
        const double dscore = share * (dshare - delta) * scale;
        for (int64_t d = 0; d < a.D; ++d) {
          dqkv[in_qkv(a, p, 0, query, d)] +=
              dscore * qkv[in_qkv(a, p, 1, key, d)];
          dqkv[in_qkv(a, p, 1, key, d)] +=
              dscore * qkv[in_qkv(a, p, 0, query, d)];
          dqkv[in_qkv(a, p, 2, key, d)] +=
              share * mask * dout[in_out(a, p, query, d)];
        }
      }
    }
  });
  return dqkv;
}

}  // namespace syncopate::reference
