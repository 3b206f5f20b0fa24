// The endpoint of a worker of an MPI world (on its own thread), or of one of
// its tasks (a fiber of the communication thread).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "comm/mpi/progress.h"
#include "comm/traffic.h"

namespace syncopate::mpi {

class MpiEndpoint : public Endpoint {
 public:
  // A null `task` means the worker.
  MpiEndpoint(Progress& progress,
              Communicators& communicators,
              TrafficCounters& traffic,
              TaskOnThread* task);

  int rank() const override { return communicators_.rank; }
  int size() const override { return communicators_.size; }
  int host_of(int rank) const override { return communicators_.hosts[rank]; }
  bool takes_device_memory() const override {
    return communicators_.device_memory.messages;
  }
  bool sums_device_memory() const override {
    return communicators_.device_memory.sums;
  }
  Request isend(ConstBytes data, int to, Tag tag, Traffic kind) override;
  Request irecv(Bytes data, int from, Tag tag) override;
  Message recv_any(TagRange tags) override;
  Time wait(const Request& request) override;
  bool test(const Request& request) override;
  Time now() const override;
  bool has_virtual_time() const override { return false; }
  void advance(Time seconds) override;
  void set_clock(Time) override {}
  void yield() override;
  Task start(std::string name, std::function<void(Endpoint&)> body) override;
  Task serve(std::string name, std::function<void(Endpoint&)> body) override;
  void join(const Task& task) override;
  bool done(const Task& task) const override;
  void abandon_tasks() noexcept override;
  void perform(const std::function<void(Endpoint&)>& body) override;
  void native_all_reduce(std::span<float> values,
                         const Group& group,
                         Traffic kind) override;
  TrafficCounters& traffic() override { return traffic_; }

 private:
  enum class Kind : uint8_t { kTask, kService };
  Task post_task(std::string name,
                 std::function<void(Endpoint&)> body,
                 Kind kind);
  Request post_message(Operation::Kind kind, Bytes data, int peer, Tag tag);
  std::shared_ptr<Operation> new_operation(Operation::Kind kind) const;
  void check_here() const;
  void native_all_reduce_here(std::span<float> values, const Group& group);

  Progress& progress_;
  Communicators& communicators_;
  TrafficCounters& traffic_;
  TaskOnThread* task_;
};

}  // namespace syncopate::mpi
