// An endpoint that does what another one does, and records in a trace the
// messages of schemes that pass it. A run without a trace has none.
//
// A task, or what perform() runs, is one slice of communication, from its first
// message with payload to its end; if it has none, it leaves no slice. So does
// what the worker itself does with slice(), until its last message has passed.
// A service has a row of its own, with a slice for each message it handles.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "comm/trace.h"

namespace syncopate {

class TracedEndpoint final : public Endpoint {
 public:
  TracedEndpoint(Endpoint& inner, WorkerTrace& trace)
      : TracedEndpoint(inner, trace, Of::kWorker, "") {}

  int rank() const override { return inner_.rank(); }
  int size() const override { return inner_.size(); }
  int server_rank(int index) const override {
    return inner_.server_rank(index);
  }
  int host_of(int rank) const override { return inner_.host_of(rank); }
  bool takes_device_memory() const override {
    return inner_.takes_device_memory();
  }
  bool sums_device_memory() const override {
    return inner_.sums_device_memory();
  }
  Request isend(ConstBytes data, int to, Tag tag, Traffic kind) override;
  Request irecv(Bytes data, int from, Tag tag) override;
  Message recv_any(TagRange tags) override;
  Time wait(const Request& request) override;
  bool test(const Request& request) override;
  void wait_for(Event& event) override { inner_.wait_for(event); }
  Time now() const override { return inner_.now(); }
  bool has_virtual_time() const override { return inner_.has_virtual_time(); }
  void advance(Time seconds) override { inner_.advance(seconds); }
  void advance_ahead(Time seconds) override { inner_.advance_ahead(seconds); }
  void set_clock(Time now) override { inner_.set_clock(now); }
  void come_to_boundary() override { inner_.come_to_boundary(); }
  void leave_boundary(Time earliest) override {
    inner_.leave_boundary(earliest);
  }
  LinkClocks link_clocks() const override { return inner_.link_clocks(); }
  void set_link_clocks(const LinkClocks& clocks) override {
    inner_.set_link_clocks(clocks);
  }
  void yield() override { inner_.yield(); }
  Task start(std::string name, std::function<void(Endpoint&)> body) override;
  Task serve(std::string name, std::function<void(Endpoint&)> body) override;
  Task serve_apart(std::string name,
                   std::function<void(Endpoint&)> body) override;
  void join(const Task& task) override { inner_.join(task); }
  bool done(const Task& task) const override { return inner_.done(task); }
  void abandon_tasks() noexcept override { inner_.abandon_tasks(); }
  void perform(const std::function<void(Endpoint&)>& body) override;
  void native_all_reduce(std::span<float> values,
                         const Group& group,
                         Traffic kind) override;
  ModelledSums* modelled_sums() override { return inner_.modelled_sums(); }
  TrafficCounters& traffic() override { return inner_.traffic(); }
  WorkerTrace* trace() const override { return &trace_; }
  std::unique_ptr<Endpoint> slice(const std::string& name) override;
  ~TracedEndpoint() override { close(); }

 private:
  enum class Of : uint8_t { kWorker, kSlice, kTask, kService };
  TracedEndpoint(Endpoint& inner,
                 WorkerTrace& trace,
                 Of of,
                 const std::string& name)
      : inner_(inner), trace_(trace), of_(of), name_(name) {}
  std::function<void(Endpoint&)> traced(
      Of of,
      const std::string& name,
      std::function<void(Endpoint&)> body) const;
  bool is_shown(int peer, Tag tag) const;
  void open(const std::string& name);
  void close();
  void took(const Request& request, Time at);

  Endpoint& inner_;
  WorkerTrace& trace_;
  const Of of_;
  const std::string name_;
  std::optional<WorkerTrace::Exchange> exchange_;
  Time passed_at_ = 0;  // kSlice: the last message so far
};

}  // namespace syncopate
