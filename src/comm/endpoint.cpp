// SPDX-License-Identifier: Apache-2.0
#include "comm/endpoint.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <numeric>

#include "base/check.h"
#include "comm/states.h"

namespace syncopate {

Ranks Ranks::all(int size) {
  static std::mutex mutex;
  static std::map<int, Ranks> made;
  const std::scoped_lock lock(mutex);
  Ranks& ranks = made[size];
  if (ranks.size() == 0) {
    std::vector<int> numbers(size);
    std::iota(numbers.begin(), numbers.end(), 0);
    ranks = Ranks(std::move(numbers));
  }
  return ranks;
}

Group Endpoint::world_group() const {
  return {Ranks::all(size()), rank()};
}

Group Endpoint::group(const Ranks& members) const {
  Group result{members};
  for (size_t i = 0; i < members.size(); ++i) {
    CHECK(members[i] >= 0 && members[i] < size());
    if (members[i] == rank()) result.position = static_cast<int>(i);
  }
  std::vector<int> sorted(members.begin(), members.end());
  std::ranges::sort(sorted);
  const auto twice = std::ranges::adjacent_find(sorted);
  CHECK_MSG(twice == sorted.end(), "worker {} is twice in a group", *twice);
  CHECK_MSG(result.position >= 0, "worker {} is not in its group", rank());
  return result;
}

void Endpoint::wait_for(Event& event) {
  while (!event.is_done()) yield();
}

void Endpoint::perform(const std::function<void(Endpoint&)>& body) {
  body(*this);
}

std::string describe_size_mismatch(int to,
                                   int from,
                                   Tag tag,
                                   int64_t expected_bytes,
                                   int64_t sent_bytes) {
  return fmt::format(
      "worker {} expected {} bytes from worker {} with tag {}, and {} came", to,
      expected_bytes, from, tag, sent_bytes);
}

}  // namespace syncopate
