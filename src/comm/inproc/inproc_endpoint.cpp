// SPDX-License-Identifier: Apache-2.0
#include "comm/inproc/inproc_endpoint.h"

#include <utility>

#include "base/check.h"

namespace syncopate::inproc {

InprocEndpoint::InprocEndpoint(InprocRun& run, Strand& strand)
    : run_(run), strand_(strand) {}

void InprocEndpoint::check_here() const {
  CHECK_MSG(&run_.scheduler().current() == &strand_,
            "the endpoint of {} is used by {}", strand_.name,
            run_.scheduler().current().name);
}

Request InprocEndpoint::isend(ConstBytes data, int to, Tag tag, Traffic kind) {
  check_here();
  return run_.isend(rank(), data, to, tag, kind);
}

Request InprocEndpoint::irecv(Bytes data, int from, Tag tag) {
  check_here();
  return run_.irecv(rank(), data, from, tag);
}

Message InprocEndpoint::recv_any(TagRange tags) {
  check_here();
  return run_.recv_any(rank(), tags);
}

void InprocEndpoint::wait(const Request& request) {
  check_here();
  run_.wait(request);
}

bool InprocEndpoint::test(const Request& request) {
  check_here();
  return run_.test(request);
}

void InprocEndpoint::advance(Time seconds) {
  check_here();
  CHECK_MSG(seconds >= 0, "a clock cannot go back by {} s", -seconds);
  run_.scheduler().sleep_until(strand_.time + seconds);
}

void InprocEndpoint::set_clock(Time now) {
  check_here();
  strand_.time = now;
  run_.forget_link_use(rank(), now);
}

void InprocEndpoint::yield() {
  check_here();
  run_.scheduler().yield(run_.next_event(rank()));
}

Task InprocEndpoint::start(std::string name,
                           std::function<void(Endpoint&)> body) {
  check_here();
  return run_.start_task(rank(), std::move(name), std::move(body));
}

void InprocEndpoint::join(const Task& task) {
  check_here();
  run_.join(task);
}

bool InprocEndpoint::done(const Task& task) const {
  check_here();
  const auto& state = static_cast<const InprocTask&>(*task);
  return state.has_ended && state.ended_at <= strand_.time;
}

void InprocEndpoint::native_all_reduce(std::span<float> values,
                                       const Group& group,
                                       Traffic kind) {
  check_here();
  run_.native_all_reduce(values, group, kind);
}

}  // namespace syncopate::inproc
