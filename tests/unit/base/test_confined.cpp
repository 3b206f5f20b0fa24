// Work in a child process: however it ends, the parent gets a result or an
// error.
#include "base/confined.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <vector>

#include "base/error.h"

namespace syncopate {
namespace {

constexpr Confinement kLimits = {.memory_bytes = 64 << 20, .cpu_s = 1};

std::string answer(const std::function<std::string()>& work) {
  return run_confined("a.h5", "the library", kLimits, work);
}

Error error_of(const std::function<std::string()>& work) {
  try {
    answer(work);
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "no error";
  return Error(ExitCode::kDone, "");
}

TEST(Confined, AnswersComeBack) {
  EXPECT_EQ(answer([] { return std::string(); }), "");
  const std::string text = std::string(100'000, 'x') + '\0' + "end";
  EXPECT_EQ(answer([&] { return text; }), text);
  const std::string kept = "before";
  EXPECT_EQ(answer([&] { return kept; }), "before");
  const Error error = error_of([]() -> std::string {
    fail(ExitCode::kInputMissing, "a.h5: no such file");
  });
  EXPECT_EQ(error.code(), ExitCode::kInputMissing);
  EXPECT_EQ(std::string(error.what()), "a.h5: no such file");
}

TEST(Confined, TooLongATextIsRefused) {
  const Error error = error_of([] { return std::string(16 << 20, 'x'); });
  EXPECT_EQ(std::string(error.what()),
            "a.h5: a text of 16777216 bytes, at most 16777215 expected");
}

TEST(Confined, ACrashIsOneLine) {
  const Error error = error_of([] {
    ::raise(SIGSEGV);
    return std::string();
  });
  EXPECT_EQ(error.code(), ExitCode::kBadInput);
  EXPECT_EQ(std::string(error.what()),
            "a.h5: cannot be read: the library crashed (Segmentation fault)");
  EXPECT_EQ(std::string(error_of([]() -> std::string { ::_exit(3); }).what()),
            "a.h5: cannot be read: the library ended without an answer");
}

TEST(Confined, ALoopEnds) {
  const Error error = error_of([] {
    for (volatile int turns = 0;;) turns = turns + 1;
    return std::string();
  });
  EXPECT_EQ(std::string(error.what()),
            "a.h5: cannot be read: the library did not end within 1 s");
}

TEST(Confined, MemoryIsLimited) {
  const auto take = [](size_t bytes) {
    const std::vector<char> much(bytes, 'x');
    return std::string(1, much[bytes / 2]);
  };
  EXPECT_EQ(answer([&] { return take(16 << 20); }), "x");
  EXPECT_EQ(error_of([&] { return take(size_t{1} << 30); }).code(),
            ExitCode::kBadInput);
}

TEST(Confined, SharedBytesAreSeen) {
  const SharedBytes shared(5000);
  EXPECT_EQ(shared.bytes().size(), 5000u);
  EXPECT_EQ(shared.bytes()[4999], 0);
  answer([&] {
    shared.bytes()[4999] = 7;
    return std::string();
  });
  EXPECT_EQ(shared.bytes()[4999], 7);
}

}  // namespace
}  // namespace syncopate
