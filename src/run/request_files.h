// The files STOP and SAVE, by which a user sends a request to a run.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "base/file.h"
#include "run/signals.h"

namespace syncopate {

// Returns "STOP", "SAVE", or nullptr if no file makes this request.
const char* request_file(StopRequest request);
// Returns the greatest request whose file is in `folder`. May block on storage.
StopRequest look_for_request(const fs::path& folder);

// Polls for these files twice a second on its own thread, so that stalled
// storage never blocks a training step.
class RequestWatch {
 public:
  // Takes the first look itself. The thread calls `beat` after every later look
  // until it returns false.
  RequestWatch(const fs::path& folder, std::function<bool()> beat);
  // Waits at most a second for the thread, so that stalled storage cannot
  // block it.
  ~RequestWatch();
  RequestWatch(const RequestWatch&) = delete;
  RequestWatch& operator=(const RequestWatch&) = delete;

  StopRequest seen() const;
  struct Removal {
    const char* file;
    bool is_gone;  // if not, the file is ignored until it is touched again
  };
  // Removes the file that made the request `granted`, and SAVE in any case.
  // Returns an entry for each of them that existed.
  std::vector<Removal> remove(StopRequest granted);

 private:
  struct State;
  std::shared_ptr<State> state_;  // shared with the thread
};

}  // namespace syncopate
