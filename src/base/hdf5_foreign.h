// Reads HDF5 files that this program did not write, or whose digest was not
// checked: Hdf5Reader's operations, run in a child process with limits.
//
// HDF5 1.10 crashes or loops on some damaged files; here that becomes one line
// of error text. This class never lets HDF5 touch the file in the calling
// process.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/hdf5_file.h"

namespace syncopate {

class ForeignHdf5 {
 public:
  explicit ForeignHdf5(const fs::path& path);

  // Returns nullopt if nothing has this name. Errors, here and below: those of
  // Hdf5Reader, and kBadInput if HDF5 crashes, needs more than 2 s plus 1 s per
  // 20 MB of file and values, or needs more memory than 256 MiB plus what the
  // values account for.
  std::optional<Hdf5Dataset> find(const std::string& name) const;
  std::optional<std::string> text_attribute(const std::string& object,
                                            const std::string& name) const;
  std::optional<std::vector<std::string>> texts_attribute(
      const std::string& object,
      const std::string& name) const;
  // Returns a line for each dataset: name, type and extents, description.
  std::string listing() const;

  // Like Hdf5Reader::read, for a dataset that find() returned.
  template <typename T>
  void read(const Hdf5Dataset& dataset, std::span<T> values) const {
    read_blocks(dataset, std::as_writable_bytes(values), sizeof(T),
                [&](const Hdf5Reader& file, const Block& block, uint8_t* out) {
                  const std::span<T> to(reinterpret_cast<T*>(out),
                                        static_cast<size_t>(block.num_elems));
                  if (dataset.dims.empty())
                    file.read<T>(dataset.name, to);
                  else
                    file.read_rows<T>(dataset.name, block.first_row,
                                      block.num_rows, to);
                });
  }

 private:
  struct Block {
    int64_t first_row, num_rows, num_elems;
  };
  using ReadBlock =
      std::function<void(const Hdf5Reader&, const Block&, uint8_t*)>;
  void read_blocks(const Hdf5Dataset& dataset,
                   std::span<std::byte> out,
                   int64_t elem_bytes,
                   const ReadBlock& read_block) const;
  // Returns what `work` returns in the child, given the opened file.
  std::string ask(
      int64_t value_bytes,
      const std::function<std::string(const Hdf5Reader&)>& work) const;

  fs::path path_;
};

}  // namespace syncopate
