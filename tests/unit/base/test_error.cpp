#include <cerrno>

#include <gtest/gtest.h>

#include "base/check.h"

namespace syncopate {
namespace {

// The error that `act` throws.
template <typename Act>
Error error_of(const Act& act) {
  try {
    act();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "nothing thrown";
  return {ExitCode::kDone, ""};
}

TEST(Error, CarriesCodeAndLine) {
  const Error error = error_of(
      [] { fail(ExitCode::kBadInput, "{}: {} bytes", "data.bin", 7); });
  EXPECT_EQ(error.code(), ExitCode::kBadInput);
  EXPECT_STREQ(error.what(), "data.bin: 7 bytes");
}

TEST(Error, ErrnoIsSpeltOut) {
  const Error error = error_of([] {
    errno = ENOSPC;
    fail_errno(ExitCode::kIoError, "file", "write");
  });
  EXPECT_EQ(error.code(), ExitCode::kIoError);
  EXPECT_STREQ(error.what(), "file: write: No space left on device");
}

TEST(Check, NamesExpressionPlaceAndDetail) {
  const int n = -1;
  const Error error = error_of([&] { CHECK_MSG(n > 0, "n = {}", n); });
  EXPECT_EQ(error.code(), ExitCode::kInternal);
  const std::string line = error.what();
  EXPECT_NE(line.find("n > 0"), std::string::npos) << line;
  EXPECT_NE(line.find("n = -1"), std::string::npos) << line;
  EXPECT_NE(line.find("test_error.cpp"), std::string::npos) << line;
  EXPECT_NO_THROW(CHECK(n < 0));
}

}  // namespace
}  // namespace syncopate
