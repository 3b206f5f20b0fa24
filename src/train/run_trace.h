// The trace of a run: output.trace.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <string>

#include "comm/traced_endpoint.h"
#include "run/session.h"
#include "train/engine.h"

namespace syncopate {

class RunTrace {
 public:
  // Writes FOLDER/trace.json, if output.trace is on. kNew: the run does not
  // resume.
  enum class Start : uint8_t { kNew, kPerhapsResumed };
  RunTrace(const Session& session,
           const Engine& engine,
           const fs::path& folder,
           Start start);

  // Returns an endpoint that records, or `plain`, which must outlive this
  // object. Under MPI collective.
  Endpoint& attach(Endpoint& plain);
  // Under MPI collective, at the end of the run: joins the ranks' parts.
  void finish(Endpoint& plain);
  // Returns where the trace is, for the log; "" if there is none to tell of.
  std::string description() const;

 private:
  void align(Endpoint& plain);
  TraceFacts facts() const;

  const Session& session_;
  const Engine& engine_;
  const bool is_on_;
  const fs::path path_;
  const Start start_;
  TraceSteps steps_;
  double clock_error_s_ = 0;  // of any rank's clock relative to another's
  int64_t num_recorded_ = 0;  // rank 0: by all ranks
  std::unique_ptr<Trace> trace_;
  std::map<int, std::unique_ptr<TracedEndpoint>> endpoints_;  // by rank
};

}  // namespace syncopate
