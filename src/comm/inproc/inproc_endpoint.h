// The endpoint of a worker, or of one of its tasks, in an in-process world.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "comm/inproc/inproc_run.h"

namespace syncopate::inproc {

class InprocEndpoint : public Endpoint {
 public:
  InprocEndpoint(InprocRun& run, Strand& strand);

  int rank() const override { return strand_.rank; }
  int size() const override { return run_.size(); }
  Request isend(ConstBytes data, int to, Tag tag, Traffic kind) override;
  Request irecv(Bytes data, int from, Tag tag) override;
  Message recv_any(TagRange tags) override;
  void wait(const Request& request) override;
  bool test(const Request& request) override;
  Time now() const override { return strand_.time; }
  bool has_virtual_time() const override { return true; }
  void advance(Time seconds) override;
  void set_clock(Time now) override;
  void yield() override;
  void wait_for(Event& event) override { event.synchronize(); }
  Task start(std::string name, std::function<void(Endpoint&)> body) override;
  void join(const Task& task) override;
  bool done(const Task& task) const override;
  void native_all_reduce(std::span<float> values,
                         const Group& group,
                         Traffic kind) override;
  TrafficCounters& traffic() override { return run_.traffic(strand_.rank); }

 private:
  void check_here() const;  // each strand uses its own endpoint

  InprocRun& run_;
  Strand& strand_;
};

}  // namespace syncopate::inproc
