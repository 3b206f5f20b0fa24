// The compressors behind compressor_table(), one file each.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compress/compressor.h"

namespace syncopate {

struct CompressorKind {
  const char* keyword;
  const char* description;  // one line
  std::unique_ptr<Compressor> (*make)(Context& context,
                                      const CompressOptions& options,
                                      const ParameterTable& table);
  // Returns the words of a message.
  int64_t (*words)(const CompressOptions& options, const ParameterTable& table);
};

// The kind of a class with that constructor and a static words().
template <typename T>
constexpr CompressorKind compressor_kind(const char* keyword,
                                         const char* description) {
  return {keyword, description,
          [](Context& context, const CompressOptions& options,
             const ParameterTable& table) -> std::unique_ptr<Compressor> {
            return std::make_unique<T>(context, options, table);
          },
          T::words};
}

extern const CompressorKind kIdentity;
extern const CompressorKind kSign;
extern const CompressorKind kTopK;
extern const CompressorKind kRandomK;
extern const CompressorKind kQsgd;

}  // namespace syncopate
