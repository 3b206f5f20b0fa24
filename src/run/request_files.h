// Files by which a user asks a run for something: STOP and SAVE in its folder.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "base/file.h"
#include "run/signals.h"

namespace syncopate {

// "STOP", "SAVE" or nullptr.
const char* request_file(StopRequest request);
// What there is in `folder` now; may wait for storage.
StopRequest look_for_request(const fs::path& folder);

// Looks for them twice a second on a thread of its own, so that a step never
// waits for storage that stalls.
class RequestWatch {
 public:
  // The first look is here. `beat` is called by the thread at every look, until
  // it returns false.
  RequestWatch(const fs::path& folder, std::function<bool()> beat);
  // Does not wait for a look that stalls.
  ~RequestWatch();
  RequestWatch(const RequestWatch&) = delete;
  RequestWatch& operator=(const RequestWatch&) = delete;

  StopRequest seen() const;
  struct Removal {
    const char* file;
    bool is_gone;  // else it is no request until it is touched again
  };
  // Takes away the file that asked for `granted`, and SAVE in any case; of
  // those that were there.
  std::vector<Removal> remove(StopRequest granted);

 private:
  struct State;
  std::shared_ptr<State> state_;  // the thread's too
};

}  // namespace syncopate
