#include "sync/link_probe.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "base/check.h"
#include "comm/collectives.h"
#include "comm/tags.h"

namespace syncopate {
namespace {

// Ends the service: sent to itself. Others are the index of the sender's probe.
constexpr int64_t kEnd = -1;

}  // namespace

LinkProbe::LinkProbe(Endpoint& endpoint, Group members)
    : endpoint_(endpoint), members_(std::move(members)) {}

// Ends once this worker has been told that no member sends any more.
void LinkProbe::serve(Endpoint& endpoint) {
  for (;;) {
    const Message message = endpoint.recv_any({tags::kProbe, tags::kProbe});
    int64_t probe = 0;
    CHECK(message.payload.size() == sizeof probe);
    std::memcpy(&probe, message.payload.data(), sizeof probe);
    if (probe == kEnd) return;
    endpoint.wait(endpoint.isend({&probe, sizeof probe}, message.from,
                                 tags::kProbeAnswer + static_cast<Tag>(probe),
                                 Traffic::kProbe));
  }
}

void LinkProbe::begin(const Segment& segment) {
  CHECK(!service_);
  round_ = num_sent_ = 0;
  last_s_.reset();
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
  round_began_ = endpoint_.now();
  for (int i = 0; i < num_sent_; ++i) {
    const auto step = static_cast<int>((round_ * kPeers + i) % others);
    const int peer =
        members_.members[(members_.position + 1 + step) % members_.size()];
    Probe& probe = probes_[i];
    probe.task =
        endpoint_.start("link probe", [&probe, peer, i](Endpoint& endpoint) {
          int64_t mine = i, answer = 0;
          const Request back = endpoint.irecv({&answer, sizeof answer}, peer,
                                              tags::kProbeAnswer + i);
          probe.sent_at = endpoint.now();
          endpoint.wait(endpoint.isend({&mine, sizeof mine}, peer, tags::kProbe,
                                       Traffic::kProbe));
          endpoint.wait(back);
          probe.answered_at = endpoint.now();
        });
  }
  ++round_;
}

std::optional<double> LinkProbe::round_trip_s() {
  if (num_sent_ == 0) return last_s_;
  double fastest = std::numeric_limits<double>::infinity();
  for (int i = 0; i < num_sent_; ++i)
    if (endpoint_.done(probes_[i].task))
      fastest = std::min(fastest, probes_[i].answered_at - probes_[i].sent_at);
  if (std::isfinite(fastest)) return last_s_ = fastest;
  if (!last_s_) return std::nullopt;
  return std::max(*last_s_, endpoint_.now() - round_began_);
}

void LinkProbe::quiesce() {
  if (!service_) return;
  for (int i = 0; i < num_sent_; ++i) endpoint_.join(probes_[i].task);
  round_trip_s();
  num_sent_ = 0;
  barrier(endpoint_, members_, tags::kProbeEnd);
  const int64_t end = kEnd;
  endpoint_.wait(endpoint_.isend({&end, sizeof end}, endpoint_.rank(),
                                 tags::kProbe, Traffic::kControl));
  endpoint_.join(service_);
  service_ = nullptr;
}

}  // namespace syncopate
