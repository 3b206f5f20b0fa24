// Damaged files either load or end in one line that names the file: every
// header byte is changed to several values, and files are cut at many points.
#include "data_files.h"

namespace syncopate {
namespace {

struct Tally {
  int loaded = 0, refused = 0;
};

void load_or_refuse(const DataOptions& options,
                    const std::string& file,
                    Tally& tally) {
  try {
    const Dataset data = load_dataset(options);
    EXPECT_GT(data.train.samples, 0);
    ++tally.loaded;
  } catch (const Error& error) {
    const std::string line = error.what();
    EXPECT_EQ(error.code(), ExitCode::kBadInput) << line;
    EXPECT_EQ(line.find('\n'), std::string::npos) << line;
    EXPECT_NE(line.find(file), std::string::npos) << line;
    EXPECT_NE(line.find("offset "), std::string::npos) << line;
    ++tally.refused;
  }
}

void change_bytes(const DataOptions& options,
                  const fs::path& path,
                  const std::string& whole,
                  size_t num_bytes,
                  Tally& tally) {
  for (size_t at = 0; at < num_bytes; ++at) {
    for (const int change : {0x01, 0x10, 0x80, 0xff}) {
      write_bytes(path, changed_at(whole, at, change));
      load_or_refuse(options, path.string(), tally);
    }
  }
}

void cut(const DataOptions& options,
         const fs::path& path,
         const std::string& whole,
         size_t step,
         Tally& tally) {
  for (size_t bytes = 0; bytes < whole.size(); bytes += step) {
    write_bytes(path, whole.substr(0, bytes));
    load_or_refuse(options, path.string(), tally);
  }
}

// Every damage of an IDX train file shows, in header and in length; the test
// files' counterparts are read last and complain about their own.
TEST(Damage, IdxNeverCrashes) {
  const ScratchFolder folder;
  write_idx_folder(folder);
  const DataOptions options = options_for("idx", folder.path());
  for (const std::string name : {kIdxFiles[2], kIdxFiles[3]}) {
    const size_t header = name == kIdxFiles[2] ? 16 : 8;
    Tally changed, shortened;
    change_bytes(options, folder / name, idx_content(name), header, changed);
    EXPECT_EQ(changed.loaded, 0);
    EXPECT_EQ(changed.refused, static_cast<int>(4 * header));
    cut(options, folder / name, idx_content(name), 1, shortened);
    EXPECT_EQ(shortened.loaded, 0);
    EXPECT_GT(shortened.refused, 10);
    write_bytes(folder / name, idx_content(name));
  }
}

TEST(Damage, GzipNeverCrashes) {
  const ScratchFolder folder;
  write_idx_folder(folder);
  const std::string name = kIdxFiles[2];
  const fs::path packed = folder / (name + ".gz");
  write_gz(packed, idx_content(name));
  fs::remove(folder / name);
  const std::string whole = read_bytes(packed);
  const DataOptions options = options_for("idx", folder.path());
  Tally changed, shortened;
  change_bytes(options, packed, whole, whole.size(), changed);
  // The header's time stamp and system name are not used.
  EXPECT_GE(changed.refused, static_cast<int>(4 * (whole.size() - 10)));
  EXPECT_LE(changed.loaded, 4 * 10);
  cut(options, packed, whole, 1, shortened);
  EXPECT_EQ(shortened.loaded, 0);
}

TEST(Damage, CifarNeverCrashes) {
  const ScratchFolder folder;
  const std::string whole = std::string(3074 * 3, '\1');
  write_bytes(folder / "train.bin", whole);
  write_bytes(folder / "test.bin", whole);
  const DataOptions options = options_for("cifar100", folder.path());
  Tally changed, shortened;
  change_bytes(options, folder / "test.bin", whole, 2, changed);
  EXPECT_EQ(changed.loaded + changed.refused, 8);
  EXPECT_GE(changed.refused, 2);  // fine labels 0x81 and 0xfe
  cut(options, folder / "test.bin", whole, 97, shortened);
  EXPECT_EQ(shortened.loaded, 0);
}

}  // namespace
}  // namespace syncopate
