// SPDX-License-Identifier: Apache-2.0
#include "comm/inproc/ring_ends.h"

#include <algorithm>

#include "comm/ring.h"

namespace syncopate::inproc {
namespace {

// A phase of the ring, message by message.
void run_phase(const Network::AlikeLinks& links,
               const RingLayout& layout,
               RingLayout::Phase phase,
               Wire wire,
               std::span<Time> in_free,
               std::span<Time> times) {
  const int n = static_cast<int>(times.size());
  const int64_t ahead = layout.ahead();
  std::vector<Time> out_free(times.begin(), times.end());
  std::vector<Time> service(n);  // of message i of each member
  // Arrivals of the last `ahead` messages; at first, when members may send.
  std::vector<std::vector<Time>> arrived(
      ahead, std::vector<Time>(times.begin(), times.end()));
  for (int64_t i = 0; i < layout.messages(); ++i) {
    std::vector<Time>& at = arrived[i % ahead];
    for (int p = 0; p < n; ++p) {
      const int64_t elems = layout.sent(phase, p, i).elems;
      service[p] = links.service_s(wire_bytes(wire, elems));
      out_free[p] = std::max(out_free[p], at[p]) + service[p];
    }
    for (int p = 0; p < n; ++p) {
      const int from = (p + n - 1) % n;
      const Time first = out_free[from] - service[from] + links.latency_s;
      in_free[p] = std::max(first, in_free[p]) + service[from];
      at[p] = in_free[p];
    }
  }
  for (int p = 0; p < n; ++p) times[p] = std::max(in_free[p], out_free[p]);
}

// times[p] = (N - 1) service + max over k of times[p - k] + k latency.
void run_alike_phase(Time latency, Time service, std::span<Time> times) {
  const auto n = static_cast<int64_t>(times.size());
  // k is p - q for a member q <= p, and p - q + N for one behind p.
  std::vector<Time> behind(n + 1, 0);
  for (int64_t q = n - 1; q >= 0; --q) {
    const Time own = times[q] - static_cast<double>(q) * latency;
    behind[q] = q == n - 1 ? own : std::max(own, behind[q + 1]);
  }
  Time before = behind[0];
  for (int64_t p = 0; p < n; ++p) {
    const Time own = times[p] - static_cast<double>(p) * latency;
    before = p == 0 ? own : std::max(before, own);
    Time latest = before + static_cast<double>(p) * latency;
    if (p + 1 < n)
      latest = std::max(latest,
                        behind[p + 1] + static_cast<double>(p + n) * latency);
    times[p] = static_cast<double>(n - 1) * service + latest;
  }
}

}  // namespace

std::vector<Time> ring_ends(const Network::AlikeLinks& links,
                            int64_t elems,
                            Wire wire,
                            bool is_exact,
                            std::span<const Time> begin) {
  std::vector<Time> times(begin.begin(), begin.end());
  const int n = static_cast<int>(begin.size());
  if (n == 1) return times;
  const RingLayout layout(n, elems);
  std::vector<Time> in_free(n, -kNever);  // what arrives early is kept
  using enum RingLayout::Phase;
  for (const RingLayout::Phase phase : {kReduceScatter, kAllGather}) {
    if (is_exact || layout.segments() > 1)
      run_phase(links, layout, phase, wire, in_free, times);
    else
      run_alike_phase(links.latency_s,
                      links.service_s(wire_bytes(wire, layout.longest())),
                      times);
  }
  return times;
}

}  // namespace syncopate::inproc
