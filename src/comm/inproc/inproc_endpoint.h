// The endpoint of a worker, or of one of its tasks, in an in-process world.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>

#include "comm/inproc/inproc_run.h"

namespace syncopate::inproc {

class InprocEndpoint : public Endpoint {
 public:
  InprocEndpoint(InprocRun& run, Strand& strand) : run_(run), strand_(strand) {}

  int rank() const override { return strand_.rank; }
  int size() const override { return run_.size(); }
  int server_rank(int index) const override { return run_.server_rank(index); }
  int host_of(int rank) const override { return run_.network().host_of(rank); }
  Request isend(ConstBytes data, int to, Tag tag, Traffic kind) override {
    return checked_run().isend(rank(), data, to, tag, kind);
  }
  Request irecv(Bytes data, int from, Tag tag) override {
    return checked_run().irecv(rank(), data, from, tag);
  }
  Message recv_any(TagRange tags) override {
    return checked_run().recv_any(rank(), tags);
  }
  Time wait(const Request& request) override {
    return checked_run().wait(request);
  }
  bool test(const Request& request) override {
    return checked_run().test(request);
  }
  Time now() const override { return std::max(strand_.time, ahead_); }
  bool has_virtual_time() const override { return true; }
  void advance(Time seconds) override;
  void advance_ahead(Time seconds) override;
  void set_clock(Time now) override;
  void come_to_boundary() override {
    checked_run().network().come_to_boundary();
  }
  void leave_boundary(Time earliest) override {
    checked_run().network().leave_boundary(earliest);
  }
  LinkClocks link_clocks() const override {
    return checked_run().network().clocks(rank());
  }
  void set_link_clocks(const LinkClocks& clocks) override {
    checked_run().network().set_clocks(rank(), clocks);
  }
  void yield() override {
    checked_run().scheduler().yield(run_.next_event(rank()));
  }
  void wait_for(Event& event) override { event.synchronize(); }
  Task start(std::string name, std::function<void(Endpoint&)> body) override {
    return checked_run().start_task(rank(), std::move(name), std::move(body));
  }
  Task serve_apart(std::string name,
                   std::function<void(Endpoint&)> body) override {
    return checked_run().start_task(server_rank(rank()), std::move(name),
                                    std::move(body));
  }
  void join(const Task& task) override { checked_run().join(task); }
  bool done(const Task& task) const override;
  void native_all_reduce(std::span<float> values,
                         const Group& group,
                         Traffic kind) override {
    checked_run().native_all_reduce(values, group, kind);
  }
  ModelledSums* modelled_sums() override { return &run_.sums(); }
  TrafficCounters& traffic() override { return run_.traffic(rank()); }

 private:
  // Checks that each strand uses its own endpoint, and lets others run up to
  // its time.
  InprocRun& checked_run() const;

  InprocRun& run_;
  Strand& strand_;
  mutable Time ahead_ = 0;  // the endpoint's time, if the strand's is behind it
};

}  // namespace syncopate::inproc
