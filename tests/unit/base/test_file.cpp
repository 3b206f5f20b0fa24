#include "base/file.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "base/error.h"
#include "support/scratch_folder.h"

namespace syncopate {
namespace {

class FileTest : public testing::Test {
 protected:
  template <typename Act>
  ExitCode code_of(const Act& act) {
    try {
      act();
    } catch (const Error& error) {
      // One line that names the file.
      EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
      EXPECT_NE(std::string(error.what()).find(folder_.path().string()),
                std::string::npos);
      return error.code();
    }
    return ExitCode::kDone;
  }
  ScratchFolder folder_;
};

TEST_F(FileTest, AnAtomicWriteThatFailsLeavesWhatWasThere) {
  const fs::path path = folder_ / "a.json";
  write_file_atomically(path, "old");
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = signal(SIGXFSZ, SIG_IGN);
  const rlimit few{1000, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &few), 0);
  EXPECT_EQ(
      code_of([&] { write_file_atomically(path, std::string(5000, 'x')); }),
      ExitCode::kIoError);
  setrlimit(RLIMIT_FSIZE, &before);
  signal(SIGXFSZ, handler);
  EXPECT_EQ(read_file(path), "old");
  EXPECT_FALSE(fs::exists(folder_ / "a.json.tmp"));
}

TEST_F(FileTest, AtomicWriteReplacesAndLeavesNothingElse) {
  const fs::path path = folder_ / "a.json";
  write_file_atomically(path, "old");
  const std::string content(100000, 'x');
  write_file_atomically(path, content);
  EXPECT_EQ(read_file(path), content);
  write_file_atomically(path, "");
  EXPECT_EQ(read_file(path), "");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_.path()),
                          fs::directory_iterator()),
            1);
}

// A reader that had the old file open keeps the old bytes: never in place.
TEST_F(FileTest, AtomicWriteMakesANewFile) {
  const fs::path path = folder_ / "a";
  write_file_atomically(path, "old");
  const fs::path link = folder_ / "link";
  fs::create_hard_link(path, link);
  write_file_atomically(path, "new");
  EXPECT_EQ(read_file(link), "old");
  EXPECT_EQ(read_file(path), "new");
}

TEST_F(FileTest, WriteWhereThereIsNoFolder) {
  EXPECT_EQ(code_of([&] { write_file_atomically(folder_ / "no/a", "x"); }),
            ExitCode::kCannotCreate);
}

TEST_F(FileTest, ReadRefusals) {
  write_file_atomically(folder_ / "a", "12345");
  EXPECT_EQ(code_of([&] { read_file(folder_ / "b"); }),
            ExitCode::kInputMissing);
  EXPECT_EQ(code_of([&] { read_file(folder_ / "a" / "b"); }),
            ExitCode::kInputMissing);
  EXPECT_EQ(code_of([&] { read_file(folder_.path()); }), ExitCode::kBadInput);
  EXPECT_EQ(code_of([&] { read_file(folder_ / "a", 4); }), ExitCode::kBadInput);
  EXPECT_EQ(read_file(folder_ / "a", 5), "12345");
  ASSERT_EQ(mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  EXPECT_EQ(code_of([&] { read_file(folder_ / "pipe"); }), ExitCode::kBadInput);
}

TEST_F(FileTest, RenameAndFolders) {
  syncopate::create_directories(folder_ / "x/y/z");
  syncopate::create_directories(folder_ / "x/y/z");
  write_file_atomically(folder_ / "x/y/z/a", "1");
  rename_durably(folder_ / "x/y", folder_ / "done");
  EXPECT_EQ(read_file(folder_ / "done/z/a"), "1");
  EXPECT_EQ(code_of([&] { rename_durably(folder_ / "no", folder_ / "b"); }),
            ExitCode::kIoError);
  EXPECT_EQ(
      code_of([&] { syncopate::create_directories(folder_ / "done/z/a/b"); }),
      ExitCode::kCannotCreate);
}

TEST_F(FileTest, OutputsBehindLinks) {
  syncopate::create_directories(folder_ / "store");
  fs::create_symlink("store/b", folder_ / "relative");
  fs::create_symlink(folder_ / "relative", folder_ / "absolute");
  EXPECT_EQ(creatable_file(folder_ / "a"), folder_ / "a");
  for (const char* link : {"relative", "absolute"})
    EXPECT_EQ(creatable_file(folder_ / link), folder_ / "store/b");
  write_file_atomically(folder_ / "store/b", "1");
  EXPECT_EQ(creatable_file(folder_ / "absolute"), folder_ / "store/b");
  EXPECT_EQ(read_file(folder_ / "store/b"), "1");
  ASSERT_EQ(mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  fs::create_symlink("loop", folder_ / "loop");
  for (const char* bad : {"store", "pipe", "none/a", "loop"})
    EXPECT_EQ(code_of([&] { creatable_file(folder_ / bad); }),
              ExitCode::kCannotCreate)
        << bad;
}

TEST_F(FileTest, SecondNames) {
  write_file_atomically(folder_ / "a", "1");
  link_durably(folder_ / "a", folder_ / "b");
  EXPECT_TRUE(fs::equivalent(folder_ / "a", folder_ / "b"));
  write_file_atomically(folder_ / "a", "2");
  EXPECT_EQ(read_file(folder_ / "b"), "1");
  EXPECT_EQ(code_of([&] { link_durably(folder_ / "a", folder_ / "b"); }),
            ExitCode::kCannotCreate);
  EXPECT_EQ(read_file(folder_ / "b"), "1");
  EXPECT_EQ(code_of([&] { link_durably(folder_ / "no", folder_ / "c"); }),
            ExitCode::kCannotCreate);
  EXPECT_FALSE(fs::exists(folder_ / "c"));
}

// There are no hard links from one to another.
TEST_F(FileTest, SecondNameInAnotherFileSystem) {
  struct stat here {
  }, there{};
  if (::stat("/dev/shm", &there) != 0 ||
      ::stat(folder_.path().c_str(), &here) != 0 || here.st_dev == there.st_dev)
    GTEST_SKIP() << "/dev/shm is no other file system";
  const ScratchFolder other("/dev/shm");
  write_file_atomically(other / "a", "1");
  link_durably(other / "a", folder_ / "a");
  EXPECT_EQ(read_file(folder_ / "a"), "1");
  EXPECT_FALSE(fs::exists(folder_ / "a.tmp"));
}

// Digest of nothing: XXH3_128bits(NULL, 0) of the xxHash specification.
TEST_F(FileTest, Digests) {
  EXPECT_EQ(digest_of(""), "99aa06d3014798d86001c324468d497f");
  std::string bytes(3 << 20, 'a');  // several reads
  bytes[1 << 20] = 'b';
  write_file_atomically(folder_ / "a", bytes);
  EXPECT_EQ(digest_of_file(folder_ / "a"), digest_of(bytes));
  bytes[2 << 20] = 'c';
  EXPECT_NE(digest_of_file(folder_ / "a"), digest_of(bytes));
}

}  // namespace
}  // namespace syncopate
