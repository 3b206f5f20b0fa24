// What prepared images and prepared clicks share: a folder with a sealed HDF5
// header and files of samples of one size, with a digest of each block.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/hdf5_file.h"
#include "data/mapped_file.h"
#include "data/work_folder.h"

namespace syncopate {

// Writes a file in blocks and digests each of them.
class BlockWriter {
 public:
  BlockWriter(const fs::path& path, int64_t block_bytes)
      : file_(path), block_bytes_(static_cast<size_t>(block_bytes)) {}
  void write(std::string_view bytes);
  void finish();  // flushes the file to disk and closes it
  // Writes the digests as dataset `name` of the header.
  void write_digests(Hdf5Writer& header,
                     const std::string& name,
                     const std::string& description) const;

 private:
  void flush();

  OutputFile file_;
  size_t block_bytes_;
  std::string block_;
  std::string digests_;  // concatenated
};

// Reads a header. Errors: kInputMissing; kBadInput "PATH: what, expected what
// `writer` writes" for anything else but such a header.
class PreparedHeader {
 public:
  PreparedHeader(const fs::path& path,
                 const std::string& writer,  // "prepare images"
                 const std::string& kind,
                 int64_t version);

  const Hdf5Reader& file() const { return file_; }
  // An attribute of the file, which must be at least 1.
  int64_t number(const std::string& name) const;
  // A dataset of T with shape `dims`, where -1 stands for any length.
  template <typename T>
  std::vector<T> values(const std::string& name,
                        const std::vector<int64_t>& dims) const {
    if (!file_.has(name)) fail_in("no dataset " + name);
    const Hdf5Dataset found = file_.dataset(name);
    check_type(found, element_type_of<T>(), dims);
    std::vector<T> result(static_cast<size_t>(found.elems()));
    file_.read<T>(name, result);
    return result;
  }
  // The file at `path`, whose digests are dataset `name`. Fails if it does not
  // hold `samples` of them, each of which is a `sample` ("images of 3 bytes").
  MappedBlocks map(const fs::path& path,
                   const std::string& name,
                   int64_t samples,
                   int64_t sample_bytes,
                   int64_t block_samples,
                   const std::string& sample) const;

  [[noreturn]] void fail_in(const std::string& what) const;

 private:
  void check_type(const Hdf5Dataset& found,
                  ElementType type,
                  const std::vector<int64_t>& dims) const;

  std::string path_, writer_;
  Hdf5Reader file_;
};

// A dataset of bytes with the letters of `text`.
void write_text(Hdf5Writer& file,
                const std::string& name,
                std::vector<int64_t> dims,
                std::string_view text);

}  // namespace syncopate
