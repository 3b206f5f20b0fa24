#include "comm/traced_endpoint.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "comm/collectives.h"
#include "comm/states.h"
#include "comm/tags.h"

namespace syncopate {
namespace {

constexpr const char* kPerformed = "collective";

// "bucket 3" says more than the name of the task that sums it.
std::string name_of(const std::string& task, Tag tag) {
  return tag >= tags::kBucket || task.empty() || task == kPerformed
             ? tags::name_of(tag)
             : task;
}

}  // namespace

// A message to oneself takes no time.
bool TracedEndpoint::is_shown(int peer, Tag tag) const {
  return peer != rank() && tags::carries_payload(tag) && !trace_.is_over();
}

void TracedEndpoint::open(const std::string& name) {
  if (exchange_ || !trace_.is_on()) return;
  exchange_ = trace_.begin(name, of_ == Of::kService ? name_ : "", now());
}

void TracedEndpoint::close() {
  if (exchange_) trace_.end(*exchange_, of_ == Of::kSlice ? passed_at_ : now());
  exchange_.reset();
}

Request TracedEndpoint::isend(ConstBytes data, int to, Tag tag, Traffic kind) {
  if (!is_shown(to, tag)) return inner_.isend(data, to, tag, kind);
  const uint64_t message = trace_.next_sent(rank(), to, tag);
  open(name_of(name_, tag));
  if (exchange_) {
    trace_.sends(message, *exchange_, now());
    exchange_->bytes_sent += data.bytes;
    ++exchange_->messages;
  }
  const Request request = inner_.isend(data, to, tag, kind);
  if (of_ == Of::kWorker) close();
  return request;
}

Request TracedEndpoint::irecv(Bytes data, int from, Tag tag) {
  const Request request = inner_.irecv(data, from, tag);
  if (!is_shown(from, tag)) return request;
  request->message = trace_.next_received(from, rank(), tag);
  if (of_ != Of::kWorker) open(name_of(name_, tag));
  if (exchange_) exchange_->bytes_received += data.bytes;
  return request;
}

void TracedEndpoint::took(const Request& request, Time at) {
  if (request == nullptr || request->message == 0) return;
  trace_.receives(std::exchange(request->message, 0),
                  exchange_ ? &*exchange_ : nullptr, at);
}

Time TracedEndpoint::wait(const Request& request) {
  const Time completed_at = inner_.wait(request);
  // The worker may have come to wait for it later.
  passed_at_ = std::max(passed_at_, completed_at);
  took(request, of_ == Of::kSlice ? completed_at : now());
  return completed_at;
}

bool TracedEndpoint::test(const Request& request) {
  const bool is_done = inner_.test(request);
  if (is_done) took(request, now());
  return is_done;
}

Message TracedEndpoint::recv_any(TagRange tags) {
  if (of_ == Of::kService) close();
  Message message = inner_.recv_any(tags);
  if (!is_shown(message.from, message.tag)) return message;
  const uint64_t number =
      trace_.next_received(message.from, rank(), message.tag);
  open(
      fmt::format("{} of worker {}", tags::name_of(message.tag), message.from));
  if (exchange_)
    exchange_->bytes_received += static_cast<int64_t>(message.payload.size());
  trace_.receives(number, exchange_ ? &*exchange_ : nullptr, now());
  return message;
}

std::function<void(Endpoint&)> TracedEndpoint::traced(
    Of of,
    const std::string& name,
    std::function<void(Endpoint&)> body) const {
  return [&trace = trace_, of, name, body = std::move(body)](Endpoint& own) {
    TracedEndpoint endpoint(own, trace, of, name);
    body(endpoint);
  };
}

std::unique_ptr<Endpoint> TracedEndpoint::slice(const std::string& name) {
  return std::unique_ptr<Endpoint>(
      new TracedEndpoint(inner_, trace_, Of::kSlice, name));
}

Task TracedEndpoint::start(std::string name,
                           std::function<void(Endpoint&)> body) {
  auto own = traced(Of::kTask, name, std::move(body));
  return inner_.start(std::move(name), std::move(own));
}

Task TracedEndpoint::serve(std::string name,
                           std::function<void(Endpoint&)> body) {
  auto own = traced(Of::kService, name, std::move(body));
  return inner_.serve(std::move(name), std::move(own));
}

Task TracedEndpoint::serve_apart(std::string name,
                                 std::function<void(Endpoint&)> body) {
  const char* where = has_servers_apart() ? ", own machine" : "";
  auto own = traced(Of::kService, name + where, std::move(body));
  return inner_.serve_apart(std::move(name), std::move(own));
}

// In a task, everything is performed where the task is.
void TracedEndpoint::perform(const std::function<void(Endpoint&)>& body) {
  if (of_ == Of::kWorker)
    inner_.perform(traced(Of::kTask, kPerformed, body));
  else
    body(*this);
}

void TracedEndpoint::native_all_reduce(std::span<float> values,
                                       const Group& group,
                                       Traffic kind) {
  open(name_.empty() ? "all-reduce" : name_);
  if (exchange_) {  // what the sum counts
    const int64_t bytes =
        all_reduce_bytes(CollectiveAlgorithm::kNative, group.size(),
                         group.position, std::ssize(values), Wire::kF32);
    exchange_->bytes_sent += bytes;
    exchange_->bytes_received += bytes;
    exchange_->messages += 2 * (group.size() - 1);
  }
  inner_.native_all_reduce(values, group, kind);
  if (of_ == Of::kWorker) close();
}

}  // namespace syncopate
