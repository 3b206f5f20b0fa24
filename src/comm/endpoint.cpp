// SPDX-License-Identifier: Apache-2.0
#include "comm/endpoint.h"

#include <algorithm>

#include "base/check.h"
#include "comm/states.h"

namespace syncopate {

Group Endpoint::world_group() const {
  Group result;
  for (int i = 0; i < size(); ++i) result.members.push_back(i);
  result.position = rank();
  return result;
}

Group Endpoint::group(std::span<const int> members) const {
  Group result;
  result.members.assign(members.begin(), members.end());
  for (size_t i = 0; i < members.size(); ++i) {
    CHECK(members[i] >= 0 && members[i] < size());
    CHECK_MSG(std::count(members.begin(), members.end(), members[i]) == 1,
              "worker {} is twice in a group", members[i]);
    if (members[i] == rank()) result.position = static_cast<int>(i);
  }
  CHECK_MSG(result.position >= 0, "worker {} is not in its group", rank());
  return result;
}

void Endpoint::wait_for(Event& event) {
  while (!event.is_done()) yield();
}

void Endpoint::perform(const std::function<void(Endpoint&)>& body) {
  body(*this);
}

std::string describe_wait(int from, Tag tag) {
  return fmt::format("a message from {} with tag {}", from, tag);
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
