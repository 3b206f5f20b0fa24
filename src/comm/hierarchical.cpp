// SPDX-License-Identifier: Apache-2.0
#include "comm/hierarchical.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "comm/ring.h"

namespace syncopate {
namespace {

// Elements that one worker of each host holds after the reduce-scatter.
struct Slice {
  ElemRange range;
  int round = 0;
  std::vector<int> owners;  // positions, by host
};

struct Hosts {
  explicit Hosts(std::span<const int> hosts);

  // Returns the slices that `position` owns, in order of their rounds.
  std::vector<Slice> slices_of(int position, int64_t elems) const;

  std::vector<std::vector<int>> members;  // positions, by host
  std::vector<int> place;                 // by position: its host in members
};

Hosts::Hosts(std::span<const int> hosts) {
  std::map<int, int> places;
  for (int position = 0; position < std::ssize(hosts); ++position) {
    const auto [found, is_new] =
        places.try_emplace(hosts[position], std::ssize(members));
    if (is_new) members.emplace_back();
    members[found->second].push_back(position);
    place.push_back(found->second);
  }
}

std::vector<Slice> Hosts::slices_of(int position, int64_t elems) const {
  const size_t H = members.size();
  std::vector<RingLayout> layouts;
  for (const auto& workers : members)
    layouts.emplace_back(static_cast<int>(workers.size()), elems);
  std::vector<int> chunk(H, 0);             // of each host, that holds `begin`
  std::vector<std::vector<bool>> taken(H);  // rounds of its owner
  std::vector<Slice> own;
  for (int64_t begin = 0; begin < elems;) {
    Slice slice;
    slice.range = {begin, elems - begin};
    for (size_t h = 0; h < H; ++h) {
      const auto left = [&] {
        const ElemRange range = layouts[h].chunk(chunk[h]);
        return range.first + range.elems - begin;
      };
      for (; left() == 0; ++chunk[h]) taken[h].clear();
      slice.range.elems = std::min(slice.range.elems, left());
      slice.owners.push_back(members[h][chunk[h]]);
    }
    const auto is_taken = [&](const std::vector<bool>& rounds) {
      return slice.round < std::ssize(rounds) && rounds[slice.round];
    };
    while (std::ranges::any_of(taken, is_taken)) ++slice.round;
    for (std::vector<bool>& rounds : taken) {
      rounds.resize(std::max<size_t>(rounds.size(), slice.round + 1));
      rounds[slice.round] = true;
    }
    begin += slice.range.elems;
    if (slice.owners[place[position]] == position)
      own.push_back(std::move(slice));
  }
  std::ranges::stable_sort(own, {}, &Slice::round);
  return own;
}

Group group_of(const Group& group, const std::vector<int>& positions) {
  Group part;
  std::vector<int> ranks;
  for (const int position : positions) {
    if (position == group.position) part.position = std::ssize(ranks);
    ranks.push_back(group.members[position]);
  }
  part.members = Ranks(std::move(ranks));
  return part;
}

// What one worker does. Does not hold more than that about the other hosts.
struct Part {
  Part(const Endpoint& endpoint, const Group& group, int64_t elems);

  int num_hosts;
  Group inside;  // its host
  std::vector<std::pair<ElemRange, Group>> between;
};

Part::Part(const Endpoint& endpoint, const Group& group, int64_t elems) {
  std::vector<int> host_of;
  for (const int rank : group.members)
    host_of.push_back(endpoint.host_of(rank));
  const Hosts hosts(host_of);
  num_hosts = static_cast<int>(hosts.members.size());
  inside = group_of(group, hosts.members[hosts.place[group.position]]);
  if (num_hosts == 1) return;
  for (const Slice& slice : hosts.slices_of(group.position, elems))
    between.emplace_back(slice.range, group_of(group, slice.owners));
}

}  // namespace

// There is no deadlock: rounds are the same for all owners of a slice, so that
// of all unfinished slices one of the earliest round has all its owners there.
void hierarchical_all_reduce(Endpoint& endpoint,
                             const Group& group,
                             std::span<float> values,
                             Wire wire,
                             Tag tag,
                             Traffic kind) {
  const Part part(endpoint, group, std::ssize(values));
  if (part.num_hosts == 1)
    return ring_all_reduce(endpoint, group, values, wire, tag, kind);
  ring_reduce_scatter(endpoint, part.inside, values, wire, tag, kind);
  for (const auto& [range, owners] : part.between)
    ring_all_reduce(endpoint, owners, values.subspan(range.first, range.elems),
                    wire, tag, kind);
  ring_all_gather(endpoint, part.inside, values, wire, tag, kind);
}

int64_t hierarchical_elems_sent(std::span<const int> host_of,
                                int position,
                                int64_t elems) {
  const Hosts hosts(host_of);
  const int host = hosts.place[position];
  const std::vector<int>& workers = hosts.members[host];
  const auto place = std::ranges::find(workers, position) - workers.begin();
  int64_t sent = workers.size() == 1
                     ? 0
                     : ring_elems_sent(static_cast<int>(workers.size()),
                                       static_cast<int>(place), elems);
  if (hosts.members.size() == 1) return sent;
  for (const Slice& slice : hosts.slices_of(position, elems))
    sent += ring_elems_sent(static_cast<int>(hosts.members.size()), host,
                            slice.range.elems);
  return sent;
}

}  // namespace syncopate
