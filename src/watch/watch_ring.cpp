#include "watch/watch_ring.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/clock.h"

namespace syncopate {
namespace {

// An unanswered call is retried at the next address.
constexpr double kCallS = 2, kPauseS = 0.2;
constexpr double kIntroductionS = 5;  // for a caller to identify itself
constexpr size_t kMostCallers = 16;   // unidentified at any one time

}  // namespace

WatchRing::WatchRing(int rank, std::vector<RankCard> cards, int listener)
    : rank_(rank),
      cards_(std::move(cards)),
      listener_(listener),
      wake_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  const auto size = static_cast<int>(cards_.size());
  links_[kLeft].about.rank = (rank + size - 1) % size;
  links_[kRight].about.rank = (rank + 1) % size;
  for (Link& link : links_) link.about.heard_s = watch_clock().now_s();
}

WatchRing::~WatchRing() {
  ::close(listener_);
  ::close(wake_);
}

void WatchRing::wake() const {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(wake_, &one, sizeof one);
}

std::array<WatchRing::Neighbour, 2> WatchRing::neighbours() const {
  return {links_[kLeft].about, links_[kRight].about};
}

Note WatchRing::hello() const {
  return {
      {.kind = NoteKind::kHello, .origin = rank_, .token = cards_[0].token}};
}

bool WatchRing::is_of_this_run(const Note& note, int rank) const {
  return note.kind == NoteKind::kHello && note.token == cards_[0].token &&
         note.origin == rank;
}

// --- connections -------------------------------------------------------------

void WatchRing::call_right() {
  Link& link = links_[kRight];
  if (link.about.was_up) return;  // a lost connection stays lost
  const double now_s = monotonic_s();
  const double patience_s = link.connection.is_open() ? kCallS : kPauseS;
  if (link.tried_s >= 0 && now_s - link.tried_s < patience_s) return;
  const RankCard& card = cards_[link.about.rank];
  do {
    link.next_address = (link.next_address + 1) % card.addresses.size();
  } while (card.addresses[link.next_address] == 0);
  link.connection = Connection(card.addresses[link.next_address], card.port);
  link.is_answered = false;
  link.connection.put(hello());
  link.tried_s = now_s;
}

void WatchRing::accept_callers() {
  for (;;) {
    const int descriptor =
        ::accept4(listener_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (descriptor < 0) return;
    if (callers_.size() == kMostCallers) callers_.erase(callers_.begin());
    callers_.push_back({Connection(descriptor), monotonic_s()});
  }
}

void WatchRing::hear_callers() {
  Link& link = links_[kLeft];
  for (Caller& caller : callers_) {
    caller.connection.exchange();
    const std::optional<Note> first = caller.connection.take();
    if (first && !link.about.was_up &&
        is_of_this_run(*first, link.about.rank)) {
      link.connection = std::move(caller.connection);
      link.connection.put(hello());
      link.is_answered = true;
    } else if (first || monotonic_s() - caller.since_s > kIntroductionS) {
      caller.connection.close();
    }
  }
  std::erase_if(callers_, [](const Caller& caller) {
    return !caller.connection.is_open();
  });
}

// --- notes -------------------------------------------------------------------

void WatchRing::deliver(int side, const Note& note, const Receive& receive) {
  if (goes_round(note.kind)) {
    if (note.origin == rank_ || !seen_.emplace(note.origin, note.serial).second)
      return;
    links_[1 - side].connection.put(note);
  }
  receive(links_[side].about.rank, note);
}

// Handles a hello on a link. The called rank answers the caller's hello, and
// counts the link as up only at the caller's second one, because a caller that
// has waited too long hangs up and calls again. Returns false for a stranger.
bool WatchRing::meet(Link& link, const Note& note) {
  if (!is_of_this_run(note, link.about.rank)) return false;
  const bool is_caller = &link == &links_[kRight];
  if (is_caller && !link.about.was_up) link.connection.put(hello());
  link.is_answered = true;
  link.about.is_up = link.about.was_up = true;
  return true;
}

void WatchRing::hear(Link& link, const Receive& receive) {
  const int side = &link == &links_[kLeft] ? kLeft : kRight;
  link.connection.exchange();
  while (const std::optional<Note> note = link.connection.take()) {
    link.about.heard_s = watch_clock().now_s();
    if (note->kind == NoteKind::kHello) {
      if (meet(link, *note)) continue;
      link.connection.close();
      break;
    }
    if (!link.about.was_up) continue;
    if (note->kind == NoteKind::kBeat) link.about.state = note->state;
    if (note->kind == NoteKind::kGoodbye) link.about.has_said_goodbye = true;
    deliver(side, *note, receive);
  }
  if (!link.connection.is_open()) link.about.is_up = false;
}

void WatchRing::turn(double limit_s, const Receive& receive) {
  call_right();
  std::vector<pollfd> waits = {{listener_, POLLIN, 0}, {wake_, POLLIN, 0}};
  for (const Link& link : links_)
    if (link.connection.is_open())
      waits.push_back(
          {link.connection.descriptor(), link.connection.events(), 0});
  for (const Caller& caller : callers_)
    waits.push_back({caller.connection.descriptor(), POLLIN, 0});
  ::poll(waits.data(), waits.size(), static_cast<int>(1e3 * limit_s));
  uint64_t ignored = 0;
  [[maybe_unused]] const ssize_t count =
      ::read(wake_, &ignored, sizeof ignored);
  accept_callers();
  hear_callers();
  for (Link& link : links_) hear(link, receive);
  for (Link& link : links_) link.connection.exchange();
}

void WatchRing::send_to_neighbours(const Note& note) {
  for (Link& link : links_)
    if (link.is_answered) link.connection.put(note);
}

void WatchRing::send_round(Note note) {
  note.origin = rank_;
  note.serial = ++serial_;
  send_to_neighbours(note);
}

void WatchRing::flush(double limit_s) {
  const double end_s = monotonic_s() + limit_s;
  for (;;) {
    bool is_done = true;
    for (Link& link : links_) {
      link.connection.exchange();
      is_done &= !link.connection.has_output();
    }
    if (is_done || monotonic_s() > end_s) return;
    ::usleep(1000);
  }
}

}  // namespace syncopate
