// The only wrapper around HDF5's C interface: files are written completely and
// closed with every return code checked, and read without trusting their
// content.
//
// Errors are one line with path, what failed and errno's text: kCannotCreate or
// kIoError when writing; kInputMissing, kIoError or kBadInput when reading.
// After a failed write the library's objects are abandoned, never closed,
// because HDF5 1.10 can crash when it closes them on a full disk; every later
// write of the process fails with the same line. Equal content gives equal
// bytes: files contain no times, hosts or paths. Not thread-safe.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/hdf5_seal.h"
#include "base/hdf5_types.h"

namespace syncopate {

// Configures the library. The classes below call it; main() calls it before
// starting threads because it sets HDF5_USE_FILE_LOCKING in the environment.
void initialise_hdf5();

// Returns whether a write has failed in this process. If so, leave with _exit:
// HDF5 must not run its cleanup.
bool hdf5_has_failed();
std::string hdf5_version();  // of the library in use: "1.10.8"

class Hdf5Writer {
 public:
  // Creates the file or truncates an existing one.
  explicit Hdf5Writer(const fs::path& path, Seal seal = Seal::kNone);
  ~Hdf5Writer();  // without close(), the file is incomplete
  Hdf5Writer(const Hdf5Writer&) = delete;
  Hdf5Writer& operator=(const Hdf5Writer&) = delete;

  // Writes dataset "a/b/c" with `dims` (none: a scalar), row-major, in chunks
  // with Fletcher-32 checksums; creates the groups a and a/b as needed.
  template <typename T>
  void write(const std::string& name,
             std::span<const int64_t> dims,
             std::span<const T> values) {
    write_raw(name, dims, element_type_of<T>(), values.data(),
              std::ssize(values));
  }
  void make_group(const std::string& name);

  // Writes an attribute of an existing group or dataset; "/" is the file.
  void attribute(const std::string& object,
                 const std::string& name,
                 const std::string& text);
  void attribute(const std::string& object,
                 const std::string& name,
                 int64_t value);

  // Dimension scales (H5DS), which other programs show as the axes of a series.
  // Makes `dataset` the scale of an axis of another one, or labels an axis. A
  // scale has no scale itself.
  void scale(const std::string& of, int axis, const std::string& dataset);
  void label(const std::string& of, int axis, const std::string& text);

  // Flushes to the operating system; fsync is up to the caller.
  void close();

 private:
  void write_raw(const std::string& name,
                 std::span<const int64_t> dims,
                 ElementType type,
                 const void* values,
                 int64_t num_elems);
  void write_attribute(const std::string& object,
                       const std::string& name,
                       int64_t type,  // hid_t
                       const void* value);

  std::string path_;
  Seal seal_;
  int64_t file_ = -1;  // hid_t
};

// Whether a file has HDF5's signature, which does not say that it is intact.
bool is_hdf5(const fs::path& path);

// Opens a file read-only. External links, virtual and external storage, and
// filter plug-ins are rejected.
class Hdf5Reader {
 public:
  explicit Hdf5Reader(const fs::path& path);
  ~Hdf5Reader();
  Hdf5Reader(const Hdf5Reader&) = delete;
  Hdf5Reader& operator=(const Hdf5Reader&) = delete;

  // Returns all datasets, sorted by name.
  std::vector<Hdf5Dataset> datasets() const;
  bool has(const std::string& name) const;  // dataset or group
  Hdf5Dataset dataset(const std::string& name) const;

  // Reads the whole dataset; the span must have as many elements. The stored
  // type must be T or one that T represents exactly (int64: any integer except
  // uint64; double: float32).
  template <typename T>
  void read(const std::string& name, std::span<T> values) const {
    read_raw(name, std::nullopt, element_type_of<T>(), values.data(),
             std::ssize(values));
  }
  // Reads rows first .. first + count - 1 of the first dimension.
  template <typename T>
  void read_rows(const std::string& name,
                 int64_t first_row,
                 int64_t num_rows,
                 std::span<T> values) const {
    read_raw(name, Rows{first_row, num_rows}, element_type_of<T>(),
             values.data(), std::ssize(values));
  }

  // Returns nullopt if the attribute is absent or of another kind. "/" is the
  // file.
  std::optional<std::string> text_attribute(const std::string& object,
                                            const std::string& name) const;
  std::optional<int64_t> int_attribute(const std::string& object,
                                       const std::string& name) const;
  // Returns the elements of a text or of a list of texts (of any number), each
  // of variable or fixed length, without what follows a NUL byte; nullopt if
  // the attribute is absent. kBadInput if it is of another kind.
  std::optional<std::vector<std::string>> texts_attribute(
      const std::string& object,
      const std::string& name) const;
  std::vector<std::string> attribute_names(const std::string& object) const;

 private:
  struct Rows {
    int64_t first, count;
  };
  void read_raw(const std::string& name,
                const std::optional<Rows>& rows,
                ElementType type,
                void* values,
                int64_t num_elems) const;

  std::string path_;
  int64_t file_ = -1;  // hid_t
};

}  // namespace syncopate
