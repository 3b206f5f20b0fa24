// HDF5 files that this program did not write, or whose digest nobody checked:
// what Hdf5Reader gives, asked for in a child process with limits.
//
// HDF5 1.10 crashes or loops on some damaged files; here that is one line. No
// call of this class lets HDF5 touch the file in the process that asks.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>

#include "base/hdf5_file.h"

namespace syncopate {

class ForeignHdf5 {
 public:
  explicit ForeignHdf5(const fs::path& path);

  // nullopt if there is no dataset, nor anything else, of this name. Errors,
  // here and below: those of Hdf5Reader, and kBadInput where HDF5 crashes,
  // needs more than 2 s and 1 s for each 20 MB of file and values, or more
  // memory than 256 MiB and what the values account for.
  std::optional<Hdf5Dataset> find(const std::string& name) const;
  std::optional<std::string> text_attribute(const std::string& object,
                                            const std::string& name) const;

  // As Hdf5Reader::read, of what find() found.
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
  // What `work` returns in the child, given the opened file.
  std::string ask(
      int64_t value_bytes,
      const std::function<std::string(const Hdf5Reader&)>& work) const;

  fs::path path_;
};

}  // namespace syncopate
