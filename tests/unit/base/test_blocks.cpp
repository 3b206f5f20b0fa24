#include "base/blocks.h"

#include <sys/resource.h>

#include <cstdint>
#include <cstring>
#include <fstream>
#include <string>

#include <gtest/gtest.h>

namespace syncopate {
namespace {

constexpr size_t kMib = size_t{1} << 20;

int64_t page_faults() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_minflt;
}

TEST(Blocks, AreAligned) {
  for (const size_t alignment : {size_t{1}, size_t{64}})
    for (const size_t bytes : {size_t{0}, size_t{100}, 9 * kMib}) {
      void* const block = allocate_block(bytes, alignment);
      ASSERT_NE(block, nullptr);
      const size_t expected = bytes > 8 * kMib ? 2 * kMib : alignment;
      EXPECT_EQ(reinterpret_cast<uintptr_t>(block) % expected, 0U) << bytes;
      std::memset(block, 1, bytes);
      std::free(block);
    }
  EXPECT_EQ(allocate_block(SIZE_MAX / 2, 64), nullptr);
}

// 64 MiB are 16,384 pages of 4 KiB, or 32 huge ones.
TEST(Blocks, LargeMessagesFaultByHugePages) {
  std::string mode;
  std::getline(std::ifstream("/sys/kernel/mm/transparent_hugepage/enabled"),
               mode);
  if (mode.empty() || mode.find("[never]") != std::string::npos)
    GTEST_SKIP() << "this system has no transparent huge pages";
  const int64_t before = page_faults();
  MessageBytes message(64 * kMib);
  EXPECT_LT(page_faults() - before, 100) << "elements were set";
  std::memset(message.data(), 1, message.size());
  const int64_t faults = page_faults() - before;
  if (faults > 16000) GTEST_SKIP() << "no huge page was free";
  EXPECT_LT(faults, 8000);
}

TEST(Blocks, MessagesBehaveLikeVectors) {
  MessageBytes bytes(3, std::byte{7});
  bytes.resize(5);
  EXPECT_EQ(bytes[2], std::byte{7});
  const MessageBytes copy = bytes;
  EXPECT_EQ(copy.size(), 5U);
  EXPECT_EQ(MessageBytes(std::move(bytes)).size(), 5U);
}

}  // namespace
}  // namespace syncopate
