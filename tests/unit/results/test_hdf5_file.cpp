// The HDF5 wrapper: what is written comes back, what is foreign is refused.
#include "base/hdf5_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <functional>
#include <numeric>

#include <gtest/gtest.h>

#include "base/error.h"
#include "support/scratch_folder.h"

namespace syncopate {
namespace {

class Hdf5FileTest : public testing::Test {
 protected:
  fs::path path() const { return directory_ / "a.h5"; }

  template <typename T>
  void expect_round_trip(const std::vector<int64_t>& dims) {
    int64_t elems = 1;
    for (int64_t dim : dims) elems *= dim;
    std::vector<T> values(static_cast<size_t>(elems));
    std::iota(values.begin(), values.end(), T{3});
    Hdf5Writer writer(path());
    writer.write("a/b/x", dims, std::span<const T>(values));
    writer.close();
    const Hdf5Reader reader(path());
    const Hdf5Dataset found = reader.dataset("a/b/x");
    EXPECT_EQ(found.type, element_type_of<T>());
    EXPECT_EQ(found.dims, dims);
    std::vector<T> back(values.size());
    reader.read("a/b/x", std::span<T>(back));
    EXPECT_EQ(back, values);
  }

  static std::string error_of(ExitCode code, const std::function<void()>& act) {
    try {
      act();
    } catch (const Error& error) {
      EXPECT_EQ(static_cast<int>(error.code()), static_cast<int>(code))
          << error.what();
      EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
      return error.what();
    }
    ADD_FAILURE() << "no error";
    return "";
  }

  // Runs h5py on the file as `f`; false where there is no h5py.
  bool h5py(const std::string& script) const {
    if (std::system("/usr/bin/python3 -c 'import h5py' 2>/dev/null") != 0)
      return false;
    std::ofstream(directory_ / "script.py")
        << "import h5py, numpy as np\nf = h5py.File('" << path().string()
        << "', 'w')\n"
        << script << "\nf.close()\n";
    const std::string command =
        "/usr/bin/python3 " + (directory_ / "script.py").string();
    EXPECT_EQ(std::system(command.c_str()), 0);
    return true;
  }

  ScratchFolder directory_;
};

TEST_F(Hdf5FileTest, EveryTypeComesBack) {
  expect_round_trip<float>({5, 7});
  expect_round_trip<double>({});
  expect_round_trip<int32_t>({3});
  expect_round_trip<int64_t>({2, 1, 4});
  expect_round_trip<uint8_t>({11});
  expect_round_trip<float>({0});
  expect_round_trip<float>({3, 0});
  expect_round_trip<float>({1001, 333});  // more than one chunk, ragged
  expect_round_trip<double>({300001});
}

TEST_F(Hdf5FileTest, ChunksHoldAtMostAMebibyte) {
  for (const std::vector<int64_t>& dims :
       {std::vector<int64_t>{1}, {1 << 20}, {3, 1 << 20}, {1 << 21, 1, 7}}) {
    int64_t bytes = 4;
    const std::vector<int64_t> chunk = chunk_shape(dims, 4);
    for (size_t i = 0; i < dims.size(); ++i) {
      EXPECT_GE(chunk[i], 1);
      EXPECT_LE(chunk[i], dims[i]);
      bytes *= chunk[i];
    }
    EXPECT_LE(bytes, 1 << 20);
  }
}

TEST_F(Hdf5FileTest, AttributesComeBack) {
  const std::string large(100000, 'x');
  Hdf5Writer writer(path());
  writer.make_group("g");
  writer.attribute("/", "name", std::string("zwölf"));
  writer.attribute("g", "large", large);
  writer.attribute("g", "empty", std::string());
  writer.attribute("g", "number", int64_t{-5});
  writer.close();
  const Hdf5Reader reader(path());
  EXPECT_EQ(reader.text_attribute("/", "name"), "zwölf");
  EXPECT_EQ(reader.text_attribute("g", "large"), large);
  EXPECT_EQ(reader.text_attribute("g", "empty"), "");
  EXPECT_EQ(reader.int_attribute("g", "number"), -5);
  EXPECT_EQ(reader.int_attribute("g", "none"), std::nullopt);
  EXPECT_EQ(reader.int_attribute("g", "large"), std::nullopt);
  EXPECT_EQ(reader.text_attribute("g", "number"), std::nullopt);
  EXPECT_EQ(reader.attribute_names("g"),
            (std::vector<std::string>{"empty", "large", "number"}));
}

TEST_F(Hdf5FileTest, RowsAreReadAlone) {
  std::vector<float> values(60);
  std::iota(values.begin(), values.end(), 0.0f);
  const int64_t dims[] = {10, 3, 2};
  Hdf5Writer writer(path());
  writer.write("x", dims, std::span<const float>(values));
  writer.close();
  const Hdf5Reader reader(path());
  std::vector<double> rows(12);
  reader.read_rows("x", 4, 2, std::span<double>(rows));
  EXPECT_EQ(rows.front(), 24);
  EXPECT_EQ(rows.back(), 35);
}

TEST_F(Hdf5FileTest, OnlyExactConversions) {
  const int64_t dims[] = {2};
  const std::vector<double> doubles = {1, 2};
  const std::vector<uint8_t> bytes = {250, 2};
  Hdf5Writer writer(path());
  writer.write("d", dims, std::span<const double>(doubles));
  writer.write("b", dims, std::span<const uint8_t>(bytes));
  writer.close();
  const Hdf5Reader reader(path());
  std::vector<int64_t> integers(2);
  reader.read("b", std::span<int64_t>(integers));
  EXPECT_EQ(integers, (std::vector<int64_t>{250, 2}));
  std::vector<float> floats(2);
  error_of(ExitCode::kBadInput,
           [&] { reader.read("d", std::span<float>(floats)); });
  error_of(ExitCode::kBadInput,
           [&] { reader.read("d", std::span<int64_t>(integers)); });
  error_of(ExitCode::kBadInput,
           [&] { reader.read("b", std::span<float>(floats)); });
  std::vector<uint8_t> three(3);
  error_of(ExitCode::kBadInput,
           [&] { reader.read("b", std::span<uint8_t>(three)); });
  error_of(ExitCode::kBadInput,
           [&] { reader.read("none", std::span<uint8_t>(three)); });
  EXPECT_FALSE(reader.has("none"));
  EXPECT_FALSE(reader.has("none/deeper"));
}

TEST_F(Hdf5FileTest, SealFindsEveryChange) {
  const std::vector<float> values(100, 1.5f);
  const int64_t dims[] = {100};
  Hdf5Writer writer(path(), Seal::kDigest);
  writer.write("x", dims, std::span<const float>(values));
  writer.close();
  check_seal(path());
  std::vector<float> back(100);
  Hdf5Reader(path()).read("x", std::span<float>(back));
  EXPECT_EQ(back, values);
  const std::string bytes = read_file(path());
  for (size_t i = 0; i < bytes.size(); i += 13) {
    std::string changed = bytes;
    changed[i] = static_cast<char>(changed[i] ^ 16);
    std::ofstream(path(), std::ios::binary) << changed;
    EXPECT_THROW(check_seal(path()), Error) << i;
  }
}

TEST_F(Hdf5FileTest, WhatIsNoHdf5FileIsOneLine) {
  error_of(ExitCode::kInputMissing, [&] { Hdf5Reader reader(path()); });
  error_of(ExitCode::kBadInput, [&] { Hdf5Reader reader(directory_.path()); });
  std::ofstream(path()) << "text";
  error_of(ExitCode::kBadInput, [&] { Hdf5Reader reader(path()); });
  fs::remove(path());
  ASSERT_EQ(mkfifo(path().c_str(), 0600), 0);
  error_of(ExitCode::kBadInput, [&] { Hdf5Reader reader(path()); });
}

TEST_F(Hdf5FileTest, FileThatCannotBeMadeIsOneLine) {
  const std::string line = error_of(ExitCode::kCannotCreate, [&] {
    Hdf5Writer writer(directory_ / "none" / "a.h5");
  });
  EXPECT_NE(line.find("No such file or directory"), std::string::npos) << line;
  EXPECT_FALSE(hdf5_has_failed());  // nothing to abandon: others may go on
}

TEST_F(Hdf5FileTest, FilesOfH5pyAreRead) {
  if (!h5py("f['be'] = np.arange(6, dtype='>f4').reshape(2, 3)\n"
            "f['i2'] = np.array([-3, 300], dtype='i2')\n"
            "f['u8'] = np.array([1], dtype='u8')\n"
            "f['text'] = 'abc'\n"
            "f.create_dataset('zip', data=np.arange(99, dtype='u1'), "
            "compression='gzip')"))
    GTEST_SKIP() << "no h5py";
  const Hdf5Reader reader(path());
  std::vector<float> floats(6);
  reader.read("be", std::span<float>(floats));
  EXPECT_EQ(floats, (std::vector<float>{0, 1, 2, 3, 4, 5}));
  std::vector<int64_t> integers(2);
  reader.read("i2", std::span<int64_t>(integers));
  EXPECT_EQ(integers, (std::vector<int64_t>{-3, 300}));
  std::vector<uint8_t> bytes(99);
  reader.read("zip", std::span<uint8_t>(bytes));
  EXPECT_EQ(bytes[98], 98);
  std::vector<int64_t> one(1);
  for (const char* name : {"u8", "text"})
    error_of(ExitCode::kBadInput,
             [&] { reader.read(name, std::span<int64_t>(one)); });
}

TEST_F(Hdf5FileTest, WhatLeadsOutOfTheFileIsRefused) {
  std::vector<float> values(3);
  const char* scripts[] = {
      "f['x'] = h5py.SoftLink('/y')\nf['y'] = np.zeros(3, 'f4')",
      "f['x'] = h5py.ExternalLink('/etc/passwd', '/y')",
      "f.create_dataset('x', (3,), 'f4', external=[('/etc/passwd', 0, 12)])",
      "v = h5py.VirtualLayout((3,), 'f4')\n"
      "v[:] = h5py.VirtualSource('/tmp/none.h5', 'y', (3,))\n"
      "f.create_virtual_dataset('x', v)"};
  for (const char* script : scripts) {
    if (!h5py(script)) GTEST_SKIP() << "no h5py";
    const Hdf5Reader reader(path());
    error_of(ExitCode::kBadInput,
             [&] { reader.read("x", std::span<float>(values)); });
    error_of(ExitCode::kBadInput, [&] { reader.datasets(); });
  }
}

TEST_F(Hdf5FileTest, CyclesEnd) {
  if (!h5py("f.create_group('a')\nf['a/up'] = f['/']\nf['a/up2'] = f['/']"))
    GTEST_SKIP() << "no h5py";
  const Hdf5Reader reader(path());
  error_of(ExitCode::kBadInput, [&] { reader.datasets(); });
}

}  // namespace
}  // namespace syncopate
