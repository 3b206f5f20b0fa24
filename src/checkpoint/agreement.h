// Lets all workers agree on the outcome of what each does with its files.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <filesystem>
#include <string>
#include <vector>

#include "base/error.h"
#include "comm/endpoint.h"

namespace syncopate {

// Success (kDone), or the Error with which an action of this worker ended.
// Actions are attempted first and their outcomes shared afterwards, because a
// worker that threw at once would leave its peers waiting, and no worker may
// wait inside a catch.
struct Outcome {
  ExitCode code = ExitCode::kDone;
  std::string line;
  bool ok() const { return code == ExitCode::kDone; }
  void rethrow_if_failed() const {
    if (!ok()) throw Error(code, line);
  }
};

// What the standard library says of a path: kInputMissing if it does not lead
// to a file that this user may see, otherwise kIoError.
Outcome outcome_of(const std::filesystem::filesystem_error& error);

template <typename Act>
Outcome attempt(const Act& act) {
  try {
    act();
    return {};
  } catch (const Error& error) {
    return {error.code(), error.what()};
  } catch (const std::filesystem::filesystem_error& error) {
    return outcome_of(error);
  } catch (const std::exception& error) {
    return {ExitCode::kInternal, error.what()};
  }
}

// All are collective over the whole world.
std::string share_text(Endpoint& endpoint, const std::string& text_of_root);
// Returns every worker's text, by rank, at rank 0; empty elsewhere.
std::vector<std::string> gather_texts(Endpoint& endpoint,
                                      const std::string& text);
Outcome share_outcome(Endpoint& endpoint, const Outcome& outcome_of_root);
// Returns the first failure by rank, or success; the same at every worker.
Outcome agree_on_outcome(Endpoint& endpoint, const Outcome& mine);

}  // namespace syncopate
