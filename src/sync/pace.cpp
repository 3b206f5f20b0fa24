#include "sync/pace.h"

#include <algorithm>
#include <cstring>
#include <deque>

#include "base/check.h"
#include "comm/collectives.h"
#include "comm/tags.h"

namespace syncopate {

void Pace::visit_state(StateVisitor& visitor) {
  visitor.visit(Owner::kWorker, "steps", std::span(&steps_, 1));
}

// --- Lockstep ----------------------------------------------------------------

Lockstep::Lockstep(Endpoint& endpoint,
                   Group group,
                   int64_t period,
                   int steppers,
                   StepSeconds told)
    : endpoint_(endpoint),
      group_(std::move(group)),
      period_(period),
      steppers_(steppers > 0 ? steppers : group_.size()),
      told_(told) {
  CHECK(period >= 1);
  if (told == StepSeconds::kOfAll) step_seconds_.assign(endpoint.size(), 0);
}

void Lockstep::begin(const Segment& segment) {
  CHECK(!agreement_);
  segment_ = segment;
  taken_ = 0;
  const int64_t work = std::max<int64_t>(0, segment.until - segment.from);
  steps_in_segment_ = (work + steppers_ - 1) / steppers_;
}

Turn Lockstep::next(const Word& mine) {
  if (taken_ % period_ == 0 && taken_ < steps_in_segment_) {
    if (agreement_) {
      quiesce();
      if (said_[0] > 0) steps_in_segment_ = taken_;
    }
  }
  if (taken_ >= steps_in_segment_) return {.stop = true};
  if (taken_ % period_ == 0) {
    said_.assign(1 + step_seconds_.size(), 0);
    said_[0] = mine.stop > 0 || mine.has_diverged ? 1 : 0;
    if (told_ == StepSeconds::kOfAll) said_[1 + endpoint_.rank()] = mine.step_s;
    agreement_ = endpoint_.start("agreement", [this](Endpoint& endpoint) {
      agree(endpoint, group_, said_, Combine::kMax, tags::kControl);
    });
  }
  const int64_t before = segment_.from + taken_ * steppers_;
  ++taken_;
  return {.stop = false, .step = steps_++, .worker_steps = before};
}

void Lockstep::quiesce() {
  if (!agreement_) return;
  endpoint_.join(agreement_);
  agreement_ = nullptr;
  std::copy(said_.begin() + 1, said_.end(), step_seconds_.begin());
}

// --- Tickets -----------------------------------------------------------------

namespace {

struct Wish {
  int64_t taken;  // steps handed out in this segment
  int64_t ends;   // 1: the segment is to end
  double step_s;
};
constexpr int64_t kOver = -1;

}  // namespace

Task start_service(Endpoint& endpoint,
                   const Segment& segment,
                   std::string name,
                   std::function<void(Endpoint&)> body) {
  const Time here = endpoint.now();
  endpoint.set_clock(segment.earliest);
  Task service = endpoint.serve(std::move(name), std::move(body));
  endpoint.set_clock(here);
  return service;
}

Tickets::Tickets(Endpoint& endpoint, int64_t bound)
    : endpoint_(endpoint), bound_(bound) {}

void Tickets::begin(const Segment& segment) {
  CHECK(!is_open_);
  segment_ = segment;
  taken_ = 0;
  is_open_ = true;
  is_over_ = false;
  if (endpoint_.rank() == 0)
    service_ = start_service(endpoint_, segment, "tickets",
                             [this](Endpoint& endpoint) { serve(endpoint); });
}

Turn Tickets::next(const Word& mine) {
  CHECK(is_open_);
  if (is_over_) return {.stop = true};
  const Wish wish{taken_, mine.stop > 0 || mine.has_diverged ? 1 : 0,
                  mine.step_s};
  int64_t ticket = kOver;
  const auto answer =
      endpoint_.irecv({&ticket, sizeof ticket}, 0, tags::kTicketAnswer);
  endpoint_.wait(endpoint_.isend({&wish, sizeof wish}, 0, tags::kTicketRequest,
                                 Traffic::kControl));
  endpoint_.wait(answer);
  is_over_ = ticket == kOver;
  if (is_over_) return {.stop = true};
  ++taken_;
  return {.stop = false, .step = steps_++, .worker_steps = ticket};
}

// Ends once every worker has been told that the segment is over.
void Tickets::serve(Endpoint& endpoint) {
  const int workers = endpoint.size();
  int64_t ticket = segment_.from;
  bool is_closed = false;
  int num_told = 0;
  std::vector<int64_t> taken(workers, 0);
  std::deque<int> waiting;
  const auto may_go = [&](int rank) {
    if (replay_ != nullptr)
      return ticket < std::ssize(*replay_) && (*replay_)[ticket] == rank;
    return bound_ < 0 ||
           taken[rank] - *std::min_element(taken.begin(), taken.end()) <=
               bound_;
  };
  while (num_told < workers) {
    const Message message =
        endpoint.recv_any({tags::kTicketRequest, tags::kTicketRequest});
    Wish wish;
    CHECK(message.payload.size() == sizeof wish);
    std::memcpy(&wish, message.payload.data(), sizeof wish);
    taken[message.from] = wish.taken;
    is_closed |= wish.ends != 0;
    if (ends_early_) is_closed |= ends_early_(message.from, wish.step_s);
    waiting.push_back(message.from);
    for (bool has_changed = true; has_changed;) {
      has_changed = false;
      for (auto it = waiting.begin(); it != waiting.end(); ++it) {
        const int rank = *it;
        const bool is_over = is_closed || ticket >= segment_.until;
        if (!is_over && !may_go(rank)) continue;
        const int64_t answer = is_over ? kOver : ticket++;
        if (is_over) ++num_told;
        if (!is_over && record_ != nullptr) record_->push_back(rank);
        endpoint.wait(endpoint.isend({&answer, sizeof answer}, rank,
                                     tags::kTicketAnswer, Traffic::kControl));
        waiting.erase(it);
        has_changed = true;
        break;
      }
    }
  }
}

void Tickets::quiesce() {
  if (!is_open_) return;
  CHECK(is_over_);
  if (service_) endpoint_.join(service_);
  service_ = nullptr;
  is_open_ = false;
}

}  // namespace syncopate
