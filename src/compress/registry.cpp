#include "compress/compressor.h"
#include "compress/kinds.h"

namespace syncopate {
namespace {

constexpr const CompressorKind* kKinds[] = {&kIdentity, &kSign, &kTopK,
                                            &kRandomK, &kQsgd};

const CompressorKind& kind_of(const CompressOptions& options) {
  std::string keywords;
  for (const CompressorKind* kind : kKinds) {
    if (options.kind == kind->keyword) return *kind;
    keywords += std::string(" ") + kind->keyword;
  }
  fail(ExitCode::kBadInput, "compress.kind = {}: expected one of{}",
       options.kind, keywords);
}

}  // namespace

std::unique_ptr<Compressor> make_compressor(Context& context,
                                            const CompressOptions& options,
                                            const ParameterTable& table) {
  return kind_of(options).make(context, options, table);
}

int64_t message_bytes(const CompressOptions& options,
                      const ParameterTable& table) {
  return kind_of(options).words(options, table) * int64_t{sizeof(uint32_t)};
}

const std::vector<std::pair<std::string, std::string>>& compressor_table() {
  static const std::vector<std::pair<std::string, std::string>> table = [] {
    std::vector<std::pair<std::string, std::string>> rows;
    for (const CompressorKind* kind : kKinds)
      rows.emplace_back(kind->keyword, kind->description);
    return rows;
  }();
  return table;
}

}  // namespace syncopate
