// SPDX-License-Identifier: Apache-2.0
#include "comm/collectives.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace syncopate {
namespace {

void wait_all(Endpoint& endpoint, const std::vector<Request>& requests) {
  for (const Request& request : requests) endpoint.wait(request);
}

std::vector<std::vector<std::byte>> gather_here(Endpoint& endpoint,
                                                const Group& group,
                                                ConstBytes data,
                                                int root,
                                                Tag tag,
                                                Traffic kind) {
  const int n = group.size();
  std::vector<std::vector<std::byte>> all;
  std::vector<Request> requests;
  if (group.position != root) {
    const int to = group.members[root];
    requests.push_back(
        endpoint.isend({&data.bytes, sizeof data.bytes}, to, tag, kind));
    requests.push_back(endpoint.isend(data, to, tag, kind));
    wait_all(endpoint, requests);
    return all;
  }
  std::vector<int64_t> sizes(n);
  all.resize(n);
  for (int p = 0; p < n; ++p) {
    if (p == root) continue;
    requests.push_back(
        endpoint.irecv({&sizes[p], sizeof sizes[p]}, group.members[p], tag));
  }
  wait_all(endpoint, requests);
  requests.clear();
  for (int p = 0; p < n; ++p) {
    if (p == root) continue;
    all[p].resize(static_cast<size_t>(sizes[p]));
    requests.push_back(
        endpoint.irecv({all[p].data(), sizes[p]}, group.members[p], tag));
  }
  const auto* first = static_cast<const std::byte*>(data.data);
  all[root].assign(first, first + data.bytes);
  wait_all(endpoint, requests);
  return all;
}

// Broadcasts down a binomial tree: with positions counted from the root,
// position p gets the data from p without its lowest set bit, and sends it to p
// + 2^k for all 2^k below that bit, the largest subtree first.
void broadcast_here(Endpoint& endpoint,
                    const Group& group,
                    Bytes data,
                    int root,
                    Tag tag,
                    Traffic kind) {
  const int n = group.size();
  const int place = (group.position - root + n) % n;
  const auto member = [&](int p) { return group.members[(p + root) % n]; };
  int bit = 1;
  while (bit < n && (place & bit) == 0) bit <<= 1;
  if (place != 0) endpoint.wait(endpoint.irecv(data, member(place - bit), tag));
  std::vector<Request> requests;
  for (bit >>= 1; bit > 0; bit >>= 1) {
    if (place + bit >= n) continue;
    requests.push_back(endpoint.isend({data.data, data.bytes},
                                      member(place + bit), tag, kind));
  }
  wait_all(endpoint, requests);
}

double combined(double a, double b, Combine combine) {
  switch (combine) {
    case Combine::kSum:
    case Combine::kCount:
      return a + b;
    case Combine::kMin:
      return std::min(a, b);
    case Combine::kMax:
      return std::max(a, b);
  }
  return a;
}

// The broadcast's tree, upwards: position 0 ends with all members' values
// combined, in an order that suits everything but rounded sums.
void reduce_here(Endpoint& endpoint,
                 const Group& group,
                 std::span<double> values,
                 Combine combine,
                 Tag tag,
                 Traffic kind) {
  std::vector<double> others(values.size());
  for (int bit = 1; bit < group.size(); bit <<= 1) {
    if ((group.position & bit) != 0) {
      const std::span<const double> own = values;
      endpoint.wait(endpoint.isend(
          bytes_view(own), group.members[group.position - bit], tag, kind));
      return;
    }
    if (group.position + bit >= group.size()) continue;
    endpoint.wait(endpoint.irecv(bytes_span(std::span<double>(others)),
                                 group.members[group.position + bit], tag));
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = combined(values[i], others[i], combine);
  }
}

}  // namespace

void check_group(const Endpoint& endpoint, const Group& group, int root) {
  CHECK(group.position >= 0 && group.position < group.size());
  CHECK(group.members[group.position] == endpoint.rank());
  CHECK(root >= 0 && root < group.size());
}

void broadcast(Endpoint& endpoint,
               const Group& group,
               Bytes data,
               int root,
               Tag tag,
               Traffic kind) {
  check_group(endpoint, group, root);
  if (group.size() == 1) return;
  endpoint.perform([&](Endpoint& here) {
    broadcast_here(here, group, data, root, tag, kind);
  });
}

std::vector<std::vector<double>> all_gather(Endpoint& endpoint,
                                            const Group& group,
                                            std::span<const double> values,
                                            Tag tag,
                                            Traffic kind) {
  check_group(endpoint, group);
  const int n = group.size();
  std::vector<std::vector<double>> all(n);
  endpoint.perform([&](Endpoint& here) {
    const auto parts =
        gather_here(here, group, bytes_view(values), 0, tag, kind);
    std::vector<int64_t> sizes(n);
    std::vector<double> flat;
    for (size_t p = 0; p < parts.size(); ++p) {
      sizes[p] = static_cast<int64_t>(parts[p].size() / sizeof(double));
      const size_t old = flat.size();
      flat.resize(old + sizes[p]);
      if (sizes[p] > 0)
        std::memcpy(flat.data() + old, parts[p].data(), parts[p].size());
    }
    broadcast_here(here, group, bytes_span(std::span<int64_t>(sizes)), 0, tag,
                   kind);
    int64_t total = 0;
    for (const int64_t size : sizes) total += size;
    flat.resize(static_cast<size_t>(total));
    broadcast_here(here, group, bytes_span(std::span<double>(flat)), 0, tag,
                   kind);
    auto next = flat.begin();
    for (int p = 0; p < n; ++p) {
      all[p].assign(next, next + sizes[p]);
      next += sizes[p];
    }
  });
  return all;
}

std::vector<std::vector<std::byte>> gather_bytes(Endpoint& endpoint,
                                                 const Group& group,
                                                 ConstBytes data,
                                                 int root,
                                                 Tag tag,
                                                 Traffic kind) {
  check_group(endpoint, group, root);
  std::vector<std::vector<std::byte>> all;
  endpoint.perform([&](Endpoint& here) {
    all = gather_here(here, group, data, root, tag, kind);
  });
  return all;
}

void agree(Endpoint& endpoint,
           const Group& group,
           std::span<double> values,
           Combine combine,
           Tag tag,
           Traffic kind) {
  check_group(endpoint, group);
  const int n = group.size();
  if (n == 1) return;
  endpoint.perform([&](Endpoint& here) {
    if (combine != Combine::kSum) {
      reduce_here(here, group, values, combine, tag, kind);
      broadcast_here(here, group, bytes_span(values), 0, tag, kind);
      return;
    }
    const size_t count = values.size();
    if (group.position == 0) {
      std::vector<double> others(count * n);
      std::vector<Request> requests;
      for (int p = 1; p < n; ++p) {
        const std::span<double> part(others.data() + p * count, count);
        requests.push_back(here.irecv(bytes_span(part), group.members[p], tag));
      }
      wait_all(here, requests);
      for (int p = 1; p < n; ++p) {
        for (size_t i = 0; i < count; ++i)
          values[i] = combined(values[i], others[p * count + i], combine);
      }
    } else {
      const std::span<const double> own = values;
      here.wait(here.isend(bytes_view(own), group.members[0], tag, kind));
    }
    broadcast_here(here, group, bytes_span(values), 0, tag, kind);
  });
}

// Dissemination barrier (Hensgen, Finkel & Manber 1988): after round k, a
// member knows of the 2^(k+1) - 1 members before it.
void barrier(Endpoint& endpoint, const Group& group, Tag tag) {
  check_group(endpoint, group);
  const int n = group.size();
  if (n == 1) return;
  endpoint.perform([&](Endpoint& here) {
    for (int distance = 1; distance < n; distance *= 2) {
      const int to = group.members[(group.position + distance) % n];
      const int from = group.members[(group.position - distance + n) % n];
      const Request send = here.isend({}, to, tag, Traffic::kControl);
      here.wait(here.irecv({}, from, tag));
      here.wait(send);
    }
  });
}

}  // namespace syncopate
