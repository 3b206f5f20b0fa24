// Expects an Error with a given code and message.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include <gtest/gtest.h>

#include "base/error.h"

namespace syncopate {

// The Error that `act` ends in; fails the test if there is none, or if it has
// several lines.
template <typename Act>
Error error_of(const Act& act) {
  try {
    act();
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos)
        << error.what();
    return error;
  }
  ADD_FAILURE() << "no error";
  return Error(ExitCode::kDone, "");
}

template <typename Act>
void expect_error(ExitCode code, const std::string& line, const Act& act) {
  const Error error = error_of(act);
  EXPECT_EQ(error.code(), code) << error.what();
  EXPECT_EQ(std::string(error.what()), line);
}

// The line has this part.
template <typename Act>
void expect_error_has(ExitCode code, const std::string& part, const Act& act) {
  const Error error = error_of(act);
  EXPECT_EQ(error.code(), code) << error.what();
  EXPECT_NE(std::string(error.what()).find(part), std::string::npos)
      << error.what() << "\n  lacks: " << part;
}

}  // namespace syncopate
