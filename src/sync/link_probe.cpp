#include "sync/link_probe.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <tuple>
#include <utility>

#include "base/check.h"
#include "comm/collectives.h"
#include "comm/tags.h"
#include "device/device.h"

namespace syncopate {
namespace {

constexpr double kUnanswered = std::numeric_limits<double>::infinity();

struct Announcement {
  int64_t probe;        // its index at the sender; kEnd ends the service
  int64_t chunk_bytes;  // of a message that follows; 0: none does
};
constexpr int64_t kEnd = -1;  // sent to itself

}  // namespace

LinkProbe::LinkProbe(Endpoint& endpoint, Group members, int64_t chunk_bytes)
    : endpoint_(endpoint),
      members_(std::move(members)),
      chunk_bytes_(endpoint.has_virtual_time() ? chunk_bytes : 0) {}

// Ends once this worker has been told that no member sends any more.
void LinkProbe::serve(Endpoint& endpoint) {
  for (;;) {
    const Message message = endpoint.recv_any({tags::kProbe, tags::kProbe});
    Announcement said{};
    CHECK(message.payload.size() == sizeof said);
    std::memcpy(&said, message.payload.data(), sizeof said);
    if (said.probe == kEnd) return;
    const auto index = static_cast<Tag>(said.probe);
    if (said.chunk_bytes > 0)
      endpoint.wait(endpoint.irecv({without_values(), said.chunk_bytes},
                                   message.from, tags::kProbeChunk + index));
    endpoint.wait(endpoint.isend({&said.probe, sizeof said.probe}, message.from,
                                 tags::kProbeAnswer + index, Traffic::kProbe));
  }
}

// Returns when the peer has answered.
void LinkProbe::ping(Endpoint& endpoint,
                     int index,
                     int peer,
                     int64_t chunk_bytes) {
  const Announcement said = {index, chunk_bytes};
  int64_t answer = 0;
  const Request back = endpoint.irecv({&answer, sizeof answer}, peer,
                                      tags::kProbeAnswer + index);
  endpoint.wait(endpoint.isend({&said, sizeof said}, peer, tags::kProbe,
                               Traffic::kProbe));
  if (chunk_bytes > 0)
    endpoint.wait(endpoint.isend({without_values(), chunk_bytes}, peer,
                                 tags::kProbeChunk + index, Traffic::kProbe));
  endpoint.wait(back);
}

void LinkProbe::begin(const Segment& segment) {
  CHECK(!service_);
  round_ = num_sent_ = 0;
  recent_s_.fill(kUnanswered);
  service_ = start_service(endpoint_, segment, "link probe",
                           [](Endpoint& endpoint) { serve(endpoint); });
}

void LinkProbe::send() {
  for (int i = 0; i < num_sent_; ++i)
    if (!endpoint_.done(probes_[i].task)) return;
  round_trip_s();  // late answers count for the next round
  for (int i = 0; i < num_sent_; ++i) endpoint_.join(probes_[i].task);
  const int others = members_.size() - 1;
  num_sent_ = std::min(kPeers, others);
  recent_s_[static_cast<size_t>(++round_ % kRounds)] = kUnanswered;
  round_began_ = endpoint_.now();
  for (int i = 0; i < num_sent_; ++i) {
    const auto step = static_cast<int>((round_ * kPeers + i) % others);
    const int peer =
        members_.members[(members_.position + 1 + step) % members_.size()];
    Probe& probe = probes_[i];
    probe.fastest_s = kUnanswered;
    probe.task = endpoint_.start(
        "link probe",
        [&probe, peer, i, chunk_bytes = chunk_bytes_](Endpoint& endpoint) {
          for (int done = 0; done < kPings; ++done) {
            const Time begin = endpoint.now();
            ping(endpoint, i, peer, chunk_bytes);
            probe.fastest_s =
                std::min(probe.fastest_s.load(), endpoint.now() - begin);
          }
        });
  }
}

std::optional<double> LinkProbe::round_trip_s() {
  double& last_s = recent_s_[static_cast<size_t>(round_ % kRounds)];
  for (int i = 0; i < num_sent_; ++i) {
    // In virtual time this lets those run first that are behind this worker.
    std::ignore = endpoint_.done(probes_[i].task);
    last_s = std::min(last_s, probes_[i].fastest_s.load());
  }
  const double fastest = *std::ranges::min_element(recent_s_);
  if (fastest == kUnanswered) return std::nullopt;
  if (last_s < kUnanswered) return fastest;
  return std::max(fastest, endpoint_.now() - round_began_);
}

void LinkProbe::quiesce() {
  if (!service_) return;
  for (int i = 0; i < num_sent_; ++i) endpoint_.join(probes_[i].task);
  round_trip_s();
  num_sent_ = 0;
  barrier(endpoint_, members_, tags::kProbeEnd);
  const Announcement end = {kEnd, 0};
  endpoint_.wait(endpoint_.isend({&end, sizeof end}, endpoint_.rank(),
                                 tags::kProbe, Traffic::kControl));
  endpoint_.join(service_);
  service_ = nullptr;
}

}  // namespace syncopate
