// HDF5 files of others: read as Hdf5Reader reads them, but in a child.
#include "base/hdf5_foreign.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <cstdlib>
#include <fstream>
#include <vector>

#include "base/error.h"
#include "support/scratch_folder.h"

namespace syncopate {
namespace {

class ForeignHdf5Test : public testing::Test {
 protected:
  std::string error_of(const std::function<void()>& act) const {
    try {
      act();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kBadInput) << error.what();
      EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
      return error.what();
    }
    ADD_FAILURE() << "no error";
    return "";
  }

  // Runs h5py on the file as `f`; false where there is no h5py.
  bool h5py(const std::string& script) const {
    const fs::path program = directory_ / "script.py";
    std::ofstream(program) << "import h5py, numpy as np\nf = h5py.File('"
                           << path_.string() << "', 'w')\n"
                           << script << "\nf.close()\n";
    return std::system(("/usr/bin/python3 " + program.string() + " 2>/dev/null")
                           .c_str()) == 0;
  }

  ScratchFolder directory_;
  fs::path path_ = directory_ / "a.h5";
};

TEST_F(ForeignHdf5Test, WhatIsThereIsRead) {
  Hdf5Writer writer(path_);
  const std::vector<int64_t> dims = {3, 2};
  const std::vector<float> values = {0, 1, 2, 3, 4, 5};
  writer.write("a/x", dims, std::span(values));
  const double one = 1.5;
  writer.write("scalar", {}, std::span(&one, 1));
  writer.attribute("/", "names", "cat,dog");
  writer.attribute("/", "none", "");
  writer.close();
  const ForeignHdf5 file(path_);
  const auto found = file.find("a/x");
  ASSERT_TRUE(found);
  EXPECT_EQ(describe(*found), "float32 (3, 2)");
  std::vector<float> back(6);
  file.read<float>(*found, back);
  EXPECT_EQ(back, values);
  double scalar = 0;
  file.read(*file.find("scalar"), std::span(&scalar, 1));
  EXPECT_EQ(scalar, one);
  EXPECT_FALSE(file.find("a/y"));
  EXPECT_EQ(file.text_attribute("/", "names"), "cat,dog");
  EXPECT_EQ(file.text_attribute("/", "none"), "");
  EXPECT_FALSE(file.text_attribute("/", "other"));
  std::vector<int64_t> wrong(6);
  error_of([&] { file.read<int64_t>(*found, wrong); });
}

TEST_F(ForeignHdf5Test, TextsOfEveryKindAreRead) {
  if (!h5py("f.attrs['text'] = 'zwölf'\n"
            "f.attrs['fixed'] = np.bytes_('cat')\n"
            "f.attrs['list'] = ['cat', '', ' elephant ']\n"
            "f.attrs['array'] = np.array([b'cat', b'', b' elephant '])\n"
            "f.attrs['few'] = np.array([], 'S3')\n"
            "f.attrs['number'] = 3\n"
            "f.attrs['table'] = np.array([[b'cat'], [b'dog']])\n"
            "f.attrs['null'] = h5py.Empty('S3')"))
    GTEST_SKIP() << "no h5py";
  using Texts = std::vector<std::string>;
  const ForeignHdf5 file(path_);
  EXPECT_FALSE(file.texts_attribute("/", "other"));
  EXPECT_EQ(file.texts_attribute("/", "text"), Texts{"zwölf"});
  EXPECT_EQ(file.texts_attribute("/", "fixed"), Texts{"cat"});
  for (const std::string name : {"list", "array"})
    EXPECT_EQ(file.texts_attribute("/", name),
              (Texts{"cat", "", " elephant "}));
  EXPECT_EQ(file.texts_attribute("/", "few"), Texts{});
  for (const std::string name : {"number", "table", "null"})
    EXPECT_EQ(error_of([&] { file.texts_attribute("/", name); }),
              path_.string() + ": attribute /@" + name +
                  ": neither a text nor a list of texts");
}

TEST_F(ForeignHdf5Test, IntegersOfEveryTypeAreRead) {
  if (!h5py("for kind in 'i1 u1 i2 u2 i4 u4 i8'.split():\n"
            "  f[kind] = np.array([0, 1, 127], kind)\n"
            "f['u8'] = np.array([0, 2**63, 2**64 - 1], 'u8')\n"
            "f['>u8'] = np.array([0, 2**63, 2**64 - 1], '>u8')"))
    GTEST_SKIP() << "no h5py";
  const ForeignHdf5 file(path_);
  std::vector<int64_t> values(3);
  for (const char* const kind : {"i1", "u1", "i2", "u2", "i4", "u4", "i8"}) {
    file.read<int64_t>(*file.find(kind), values);
    EXPECT_EQ(values, (std::vector<int64_t>{0, 1, 127})) << kind;
  }
  std::vector<uint64_t> large(3);
  for (const char* const kind : {"u8", ">u8"}) {
    const Hdf5Dataset found = *file.find(kind);
    EXPECT_EQ(describe(found), "uint64 (3)");
    file.read<uint64_t>(found, large);
    EXPECT_EQ(large, (std::vector<uint64_t>{0, uint64_t{1} << 63, UINT64_MAX}));
    error_of([&] { file.read<int64_t>(found, values); });
  }
}

// More than one block of 64 MiB.
TEST_F(ForeignHdf5Test, LargeOnesAreReadInBlocks) {
  constexpr int64_t kRows = 80, kRowBytes = 1 << 20;
  {
    std::vector<uint8_t> values(kRows * kRowBytes);
    for (int64_t i = 0; i < std::ssize(values); ++i)
      values[i] = static_cast<uint8_t>(i / kRowBytes);
    Hdf5Writer writer(path_);
    const std::vector<int64_t> dims = {kRows, kRowBytes};
    writer.write("x", dims, std::span<const uint8_t>(values));
    writer.close();
  }
  const ForeignHdf5 file(path_);
  std::vector<uint8_t> back(kRows * kRowBytes);
  file.read<uint8_t>(*file.find("x"), back);
  for (int64_t row = 0; row < kRows; ++row) {
    ASSERT_EQ(back[row * kRowBytes], static_cast<uint8_t>(row));
    ASSERT_EQ(back[(row + 1) * kRowBytes - 1], static_cast<uint8_t>(row));
  }
}

TEST_F(ForeignHdf5Test, AHeaderCannotAllocateTheWorld) {
  for (const char* const script :
       {"f.create_dataset('x', (1 << 40,), 'u1', chunks=(1 << 20,))",
        "f.create_dataset('x', (1 << 40,), 'u1')",
        "d = f.create_dataset('x', (1 << 40,), 'u1', chunks=(1 << 20,), "
        "compression='gzip')\nd[0] = 1"}) {
    if (!h5py(script)) GTEST_SKIP() << "no h5py";
    const std::string line = error_of([&] { ForeignHdf5(path_).find("x"); });
    EXPECT_NE(line.find("1099511627776 bytes of values"), std::string::npos)
        << line;
  }
}

TEST_F(ForeignHdf5Test, WhatLeadsOutOfTheFileIsRefused) {
  const auto expect_refused = [&](const char* script, const char* reason) {
    if (!h5py(script)) return false;
    const std::string line = error_of([&] { ForeignHdf5(path_).find("x"); });
    EXPECT_NE(line.find(reason), std::string::npos) << line;
    return true;
  };
  const bool has_h5py =
      expect_refused("f['x'] = h5py.SoftLink('/y')\nf['y'] = np.zeros(3, 'f4')",
                     "x: is a soft or external link") &&
      expect_refused("f['x'] = h5py.ExternalLink('/etc/passwd', '/y')",
                     "x: is a soft or external link") &&
      expect_refused(
          "f.create_dataset('x', (3,), 'f4', "
          "external=[('/etc/passwd', 0, 12)])",
          "x: data outside the file is refused") &&
      expect_refused(
          "v = h5py.VirtualLayout((3,), 'f4')\n"
          "v[:] = h5py.VirtualSource('/tmp/none.h5', 'y', (3,))\n"
          "f.create_virtual_dataset('x', v)",
          "x: data outside the file is refused");
  if (!has_h5py) GTEST_SKIP() << "no h5py";
}

TEST_F(ForeignHdf5Test, WhatIsNoHdf5FileIsOneLine) {
  EXPECT_THROW(ForeignHdf5(path_).find("x"), Error);  // kInputMissing
  std::ofstream(path_) << "text";
  const std::string line = error_of([&] { ForeignHdf5(path_).find("x"); });
  EXPECT_TRUE(line.starts_with(path_.string() + ": ")) << line;
  error_of([&] { ForeignHdf5(directory_.path()).find("x"); });
}

}  // namespace
}  // namespace syncopate
