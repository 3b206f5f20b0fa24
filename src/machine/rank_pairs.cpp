#include "machine/rank_pairs.h"

#include <algorithm>
#include <cstdint>
#include <set>

namespace syncopate {
namespace {

int rounds_of(int members) {
  if (members < 2) return 0;
  return members % 2 == 0 ? members - 1 : members;
}

// Over rounds 0 to rounds_of(members) - 1, every member is paired once with
// every other one (the circle method); -1: it sits out.
int partner_of(int member, int round, int members) {
  const int rounds = rounds_of(members);
  const bool is_even = members % 2 == 0;
  // Members 0 to rounds - 1 meet where the sum of two is the round; the one
  // that would meet itself meets the last member, if there is one more.
  if (is_even && member == rounds)  // 2 x = round, modulo an odd number
    return static_cast<int>(int64_t{round} * (rounds + 1) / 2 % rounds);
  const int other = ((round - member) % rounds + rounds) % rounds;
  if (other != member) return other;
  return is_even ? rounds : -1;
}

// Returns the ranks per host if each host has as many successive ones, else 1.
int ranks_per_host(std::span<const int> hosts) {
  const auto ranks = static_cast<int>(hosts.size());
  const auto end =
      std::ranges::find_if(hosts, [&](int host) { return host != hosts[0]; });
  const auto per_host = static_cast<int>(end - hosts.begin());
  if (per_host == ranks || ranks % per_host != 0) return 1;
  std::set<int> seen;
  for (int rank = 0; rank < ranks; ++rank) {
    const bool is_first = rank % per_host == 0;
    if (is_first ? !seen.insert(hosts[rank]).second
                 : hosts[rank] != hosts[rank - 1])
      return 1;
  }
  return per_host;
}

}  // namespace

RankPairs::RankPairs(std::span<const int> hosts)
    : ranks_(static_cast<int>(hosts.size())),
      per_host_(ranks_per_host(hosts)) {}

int RankPairs::rounds_between() const {
  return rounds_of(hosts()) * per_host_;
}

int RankPairs::rounds_inside() const {
  return rounds_of(per_host_);
}

// Two hosts meet in as many successive rounds as they have ranks, in each of
// which the second one's ranks are shifted by one more place.
int RankPairs::between(int rank, int round) const {
  const int host = rank / per_host_, place = rank % per_host_;
  const int other = partner_of(host, round / per_host_, hosts());
  if (other < 0) return -1;
  const int shift = round % per_host_;
  const int there =
      (host < other ? place + shift : place - shift + per_host_) % per_host_;
  return other * per_host_ + there;
}

int RankPairs::inside(int rank, int round) const {
  const int place = rank % per_host_;
  const int other = partner_of(place, round, per_host_);
  return other < 0 ? -1 : rank - place + other;
}

}  // namespace syncopate
