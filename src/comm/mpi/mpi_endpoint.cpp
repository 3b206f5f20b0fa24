// SPDX-License-Identifier: Apache-2.0
#include "comm/mpi/mpi_endpoint.h"

#include <utility>

#include "base/check.h"
#include "base/clock.h"
#include "comm/collectives.h"
#include "comm/tags.h"
#include "watch/operations.h"

namespace syncopate::mpi {
namespace {

Operation& state_of(const Request& request) {
  return static_cast<Operation&>(*request);
}

TaskOnThread& state_of(const Task& task) {
  return static_cast<TaskOnThread&>(*task);
}

}  // namespace

MpiEndpoint::MpiEndpoint(Progress& progress,
                         Communicators& communicators,
                         TrafficCounters& traffic,
                         TaskOnThread* task)
    : progress_(progress),
      communicators_(communicators),
      traffic_(traffic),
      task_(task) {}

void MpiEndpoint::check_here() const {
  CHECK_MSG(progress_.is_this_thread() == (task_ != nullptr),
            "the endpoint of worker {} and that of a task are mixed up",
            rank());
}

std::shared_ptr<Operation> MpiEndpoint::new_operation(
    Operation::Kind kind) const {
  check_here();
  auto operation = std::make_shared<Operation>();
  operation->kind = kind;
  operation->comm = communicators_.messages;
  operation->rank = communicators_.rank;
  return operation;
}

Request MpiEndpoint::post_message(Operation::Kind kind,
                                  Bytes data,
                                  int peer,
                                  Tag tag) {
  CHECK(peer >= 0 && peer < size() && data.bytes >= 0);
  CHECK_MSG(tag >= 0 && tag <= tags::kMaxTag, "tag {}", tag);
  auto operation = new_operation(kind);
  operation->data = static_cast<std::byte*>(data.data);
  operation->bytes = data.bytes;
  operation->peer = peer;
  operation->tag = tag;
  operation->record = operations().begin(kind == Operation::Kind::kSend
                                             ? OperationLog::Kind::kSend
                                             : OperationLog::Kind::kReceive,
                                         peer, tag, data.bytes);
  progress_.post(operation);
  return operation;
}

Request MpiEndpoint::isend(ConstBytes data, int to, Tag tag, Traffic kind) {
  // A message to the sender itself is not traffic.
  if (to != rank()) traffic_.count(kind, data.bytes);
  // A send only reads.
  return post_message(Operation::Kind::kSend,
                      {const_cast<void*>(data.data), data.bytes}, to, tag);
}

Request MpiEndpoint::irecv(Bytes data, int from, Tag tag) {
  return post_message(Operation::Kind::kReceive, data, from, tag);
}

Message MpiEndpoint::recv_any(TagRange tags) {
  CHECK_MSG(
      tags.first >= 0 && tags.first <= tags.last && tags.last <= tags::kMaxTag,
      "tags {}..{}", tags.first, tags.last);
  auto operation = new_operation(Operation::Kind::kReceiveAny);
  operation->tags = tags;
  operation->record =
      operations().begin(OperationLog::Kind::kReceiveAny, -1, tags.first, 0);
  progress_.post(operation);
  wait(operation);
  return std::move(operation->message);
}

Time MpiEndpoint::wait(const Request& request) {
  if (request == nullptr) return now();
  check_here();
  Operation& operation = state_of(request);
  progress_.await(operation.done, task_);
  if (operation.error != nullptr) std::rethrow_exception(operation.error);
  return now();
}

bool MpiEndpoint::test(const Request& request) {
  if (request == nullptr) return true;
  const Operation& operation = state_of(request);
  if (!operation.done) return false;
  if (operation.error != nullptr) std::rethrow_exception(operation.error);
  return true;
}

Time MpiEndpoint::now() const {
  return monotonic_s();
}

void MpiEndpoint::advance(Time seconds) {
  CHECK(seconds >= 0);
}

void MpiEndpoint::yield() {
  check_here();
  progress_.yield(task_);
}

Task MpiEndpoint::start(std::string name, std::function<void(Endpoint&)> body) {
  return post_task(std::move(name), std::move(body), Kind::kTask);
}

Task MpiEndpoint::serve(std::string name, std::function<void(Endpoint&)> body) {
  return post_task(std::move(name), std::move(body), Kind::kService);
}

Task MpiEndpoint::post_task(std::string name,
                            std::function<void(Endpoint&)> body,
                            Kind kind) {
  check_here();
  auto task = std::make_shared<TaskOnThread>();
  task->name = std::move(name);
  task->record = operations().begin_task(task->name);
  task->is_service = kind == Kind::kService;
  TrafficCounters& traffic = task->is_service ? traffic_ : task->sent;
  task->body = [&progress = progress_, &communicators = communicators_,
                &traffic, &task = *task, body = std::move(body)] {
    MpiEndpoint endpoint(progress, communicators, traffic, &task);
    body(endpoint);
  };
  progress_.post(task);
  return task;
}

void MpiEndpoint::join(const Task& handle) {
  check_here();
  TaskOnThread& task = state_of(handle);
  progress_.await(task.done, task_);
  if (task.is_joined) return;
  task.is_joined = true;
  traffic_.add(task.sent);
  if (task.error != nullptr) std::rethrow_exception(task.error);
}

bool MpiEndpoint::done(const Task& task) const {
  return state_of(task).done;
}

void MpiEndpoint::abandon_tasks() noexcept {
  progress_.stop(Progress::Stop::kAbandon);
}

void MpiEndpoint::perform(const std::function<void(Endpoint&)>& body) {
  if (task_ != nullptr)
    body(*this);
  else
    join(start("collective", body));
}

void MpiEndpoint::native_all_reduce(std::span<float> values,
                                    const Group& group,
                                    Traffic kind) {
  const auto elems = static_cast<int64_t>(values.size());
  traffic_.count(kind,
                 all_reduce_bytes(CollectiveAlgorithm::kNative, group.size(),
                                  group.position, elems, Wire::kF32),
                 2 * (group.size() - 1));
  traffic_.is_modelled = true;
  perform([&](Endpoint& here) {
    static_cast<MpiEndpoint&>(here).native_all_reduce_here(values, group);
  });
}

void MpiEndpoint::native_all_reduce_here(std::span<float> values,
                                         const Group& group) {
  auto operation = new_operation(Operation::Kind::kAllReduce);
  operation->comm = progress_.native_communicator(group, task_);
  operation->data = reinterpret_cast<std::byte*>(values.data());
  operation->bytes = static_cast<int64_t>(values.size_bytes());
  operation->record = operations().begin(OperationLog::Kind::kAllReduce, -1, 0,
                                         operation->bytes);
  progress_.post(operation);
  wait(operation);
}

}  // namespace syncopate::mpi
