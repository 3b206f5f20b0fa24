#include "sync/pace.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <utility>

#include "base/check.h"
#include "comm/collectives.h"
#include "comm/tags.h"
#include "tensor/visit_numbers.h"

namespace syncopate {

void Pace::visit_state(StateVisitor& visitor) {
  visit_number(visitor, Owner::kWorker, "steps", steps_);
}

// --- Lockstep ----------------------------------------------------------------

Lockstep::Lockstep(Endpoint& endpoint,
                   Group group,
                   int64_t period,
                   int steppers,
                   SharedStop* shared)
    : endpoint_(endpoint),
      group_(std::move(group)),
      period_(period),
      steppers_(steppers > 0 ? steppers : group_.size()),
      shared_(shared) {
  CHECK(period >= 1);
}

void Lockstep::begin(const Segment& segment) {
  CHECK(!agreement_);
  segment_ = segment;
  taken_ = 0;
  const int64_t work = std::max<int64_t>(0, segment.until - segment.from);
  steps_in_segment_ = (work + steppers_ - 1) / steppers_;
  if (shared_ != nullptr && shared_->from != segment.from)
    *shared_ = {.from = segment.from, .most_begun = segment.from};
}

// A segment has a step of each worker at least.
void Lockstep::heed_shared_stop(bool is_asked) {
  if (is_asked && !shared_->until)
    shared_->until = std::max(shared_->most_begun, segment_.from + steppers_);
  const int64_t here = segment_.from + taken_ * steppers_;
  if (shared_->until && here >= *shared_->until) steps_in_segment_ = taken_;
}

Turn Lockstep::next(const StepRequest& mine) {
  if (taken_ % period_ == 0 && taken_ < steps_in_segment_) {
    if (agreement_) {
      quiesce();
      if (asks_to_stop_ > 0) steps_in_segment_ = taken_;
    }
  }
  if (shared_ != nullptr) heed_shared_stop(mine.stop > 0);
  if (taken_ >= steps_in_segment_) return {.stop = true};
  if (taken_ % period_ == 0) {
    asks_to_stop_ = mine.stop > 0 || mine.has_diverged ? 1 : 0;
    agreement_ = endpoint_.start("agreement", [this](Endpoint& endpoint) {
      agree(endpoint, group_, std::span(&asks_to_stop_, 1), Combine::kMax,
            tags::kControl);
    });
  }
  const int64_t before = segment_.from + taken_ * steppers_;
  if (shared_ != nullptr)
    shared_->most_begun = std::max(shared_->most_begun, before + steppers_);
  ++taken_;
  return {.stop = false, .step = steps_++, .worker_steps = before};
}

void Lockstep::quiesce() {
  if (!agreement_) return;
  endpoint_.join(agreement_);
  agreement_ = nullptr;
}

// --- Tickets -----------------------------------------------------------------

namespace {

constexpr int64_t kOver = -1;

// Workers that wait for a step, in the order of their requests.
class Line {
 public:
  // `taken`: by rank.
  Line(std::vector<int64_t> taken, int64_t bound)
      : bound_(bound), taken_(std::move(taken)), places_(taken_.size(), -1) {
    for (const int64_t steps : taken_) ++workers_at_[steps];
  }

  bool is_empty() const { return ranks_.empty(); }

  // A worker that has taken `taken` steps asks for another.
  void join(int rank, int64_t taken) {
    if (--workers_at_.at(taken_[rank]) == 0) workers_at_.erase(taken_[rank]);
    ++workers_at_[taken];
    taken_[rank] = taken;
    places_[rank] = num_places_;
    ranks_[num_places_] = rank;
    held_[taken].push_back(num_places_++);
  }
  void leave(int rank) {
    ranks_.erase(places_[rank]);
    free_.erase(places_[rank]);
    places_[rank] = -1;
  }

  bool has(int rank) const { return places_[rank] >= 0; }
  int first() const { return ranks_.begin()->second; }
  // Returns the first worker within the bound; -1: there is none.
  int first_within_bound() {
    while (!held_.empty() &&
           (bound_ < 0 ||
            held_.begin()->first - workers_at_.begin()->first <= bound_)) {
      const auto held = held_.extract(held_.begin());
      free_.insert(held.mapped().begin(), held.mapped().end());
    }
    return free_.empty() ? -1 : ranks_.at(*free_.begin());
  }

 private:
  int64_t bound_;
  std::vector<int64_t> taken_;         // by rank
  std::vector<int64_t> places_;        // by rank; -1: is not in the line
  std::map<int64_t, int> workers_at_;  // how many have taken so many steps
  std::map<int64_t, int> ranks_;       // by place
  std::set<int64_t> free_;             // places within the bound
  std::map<int64_t, std::vector<int64_t>> held_;  // the others, by steps taken
  int64_t num_places_ = 0;
};

template <typename Start>
Task start_at(Endpoint& endpoint, Time at, const Start& start) {
  const Time here = endpoint.now();
  endpoint.set_clock(at);
  Task task = start();
  endpoint.set_clock(here);
  return task;
}

}  // namespace

Task start_service(Endpoint& endpoint,
                   const Segment& segment,
                   std::string name,
                   std::function<void(Endpoint&)> body) {
  return start_at(endpoint, segment.earliest, [&] {
    return endpoint.serve(std::move(name), std::move(body));
  });
}

Task start_server(Endpoint& endpoint,
                  const Segment& segment,
                  std::string name,
                  std::function<void(Endpoint&)> body) {
  return start_at(endpoint, segment.earliest, [&] {
    return endpoint.serve_apart(std::move(name), std::move(body));
  });
}

Tickets::Tickets(Endpoint& endpoint, int64_t bound)
    : endpoint_(endpoint), bound_(bound) {}

void Tickets::begin(const Segment& segment) {
  begin(segment,
        std::vector<int64_t>(endpoint_.rank() == 0 ? endpoint_.size() : 0));
}

void Tickets::begin(const Segment& segment, std::vector<int64_t> steps) {
  CHECK(!is_open_);
  segment_ = segment;
  steps_before_ = std::move(steps);
  is_open_ = true;
  is_over_ = false;
  if (endpoint_.rank() == 0)
    service_ = start_service(endpoint_, segment, "tickets",
                             [this](Endpoint& endpoint) { serve(endpoint); });
}

void Tickets::ask(const StepRequest& mine) {
  CHECK(is_open_ && !answer_);
  if (is_over_) return;
  wanted_ = {steps_, mine.stop > 0 || mine.has_diverged ? 1 : 0, mine.step_s};
  answer_ = endpoint_.irecv({&ticket_, sizeof ticket_}, 0, tags::kTicketAnswer);
  request_ = endpoint_.isend({&wanted_, sizeof wanted_}, 0,
                             tags::kTicketRequest, Traffic::kControl);
}

Turn Tickets::next(const StepRequest& mine) {
  if (!answer_) ask(mine);
  if (is_over_) return {.stop = true};
  endpoint_.wait(std::exchange(request_, nullptr));
  endpoint_.wait(std::exchange(answer_, nullptr));
  is_over_ = ticket_ == kOver;
  if (is_over_) return {.stop = true};
  return {.stop = false, .step = steps_++, .worker_steps = ticket_};
}

// Ends once every worker has been told that the segment is over.
void Tickets::serve(Endpoint& endpoint) {
  int64_t ticket = segment_.from;
  bool is_closed = false;
  Line line(std::move(steps_before_), bound_);
  const auto is_over = [&] { return is_closed || ticket >= segment_.until; };
  const auto next = [&] {
    if (is_over()) return line.first();
    if (replay_ == nullptr) return line.first_within_bound();
    if (ticket >= std::ssize(*replay_)) return -1;
    const auto rank = static_cast<int>((*replay_)[ticket]);
    return line.has(rank) ? rank : -1;
  };
  for (int num_told = 0; num_told < endpoint.size();) {
    const Message message =
        endpoint.recv_any({tags::kTicketRequest, tags::kTicketRequest});
    TicketRequest wanted;
    CHECK(message.payload.size() == sizeof wanted);
    std::memcpy(&wanted, message.payload.data(), sizeof wanted);
    // A recorded push may be held back for that of a step not handed out yet,
    // so a replayed segment ends where the recorded one did.
    is_closed |= wanted.ends != 0 && replay_ == nullptr;
    if (ends_early_) is_closed |= ends_early_(message.from, wanted.step_s);
    line.join(message.from, wanted.steps);
    while (!line.is_empty()) {
      const int rank = next();
      if (rank < 0) break;
      line.leave(rank);
      const int64_t answer = is_over() ? kOver : ticket++;
      if (answer == kOver) ++num_told;
      if (answer != kOver && record_ != nullptr) record_->push_back(rank);
      endpoint.wait(endpoint.isend({&answer, sizeof answer}, rank,
                                   tags::kTicketAnswer, Traffic::kControl));
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
