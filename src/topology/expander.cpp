#include "topology/kinds.h"

namespace syncopate {
namespace {

bool is_prime(int n) {
  if (n < 2) return false;
  for (int64_t d = 2; d * d <= n; ++d)
    if (n % d == 0) return false;
  return true;
}

// A chord from i to 1/i coincides with an edge of the cycle if i^2 +- i - 1 =
// 0, which has roots if 5 is a square modulo N: for N = 5 and primes +-1 modulo
// 5.
bool suits(int workers) {
  const int rest = workers % 5;
  return workers > 2 && is_prime(workers) && (rest == 2 || rest == 3);
}

// Returns 1/i modulo a prime as i^(prime - 2) (Fermat); 0 for 0, a self-loop.
int inverse(int i, int prime) {
  int64_t power = i, product = 1;
  for (int exponent = prime - 2; exponent > 0; exponent /= 2) {
    if (exponent % 2 == 1) product = product * power % prime;
    power = power * power % prime;
  }
  return static_cast<int>(product);
}

MixingRow row(int workers, int rank) {
  return equal_row({(rank + 1) % workers, (rank + workers - 1) % workers,
                    inverse(rank, workers)},
                   rank, 1.0 / 3.0);
}

}  // namespace

const TopologyKind kExpander{
    "expander", "a cycle with chords from i to 1/i modulo a prime: 1/3 each",
    "an odd prime with remainder 2 or 3 modulo 5", &suits, &row};

}  // namespace syncopate
