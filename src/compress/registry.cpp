#include "compress/compressor.h"
#include "compress/identity.h"
#include "compress/qsgd.h"
#include "compress/random_k.h"
#include "compress/sign.h"
#include "compress/top_k.h"

namespace syncopate {
namespace {

struct Kind {
  const char* keyword;
  const char* description;
  std::unique_ptr<Compressor> (*make)(Context& context,
                                      const CompressOptions& options,
                                      const ParameterTable& table);
  int64_t (*words)(const CompressOptions& options, const ParameterTable& table);
};

template <typename T>
constexpr Kind kind(const char* keyword, const char* description) {
  return {keyword, description,
          [](Context& context, const CompressOptions& options,
             const ParameterTable& table) -> std::unique_ptr<Compressor> {
            return std::make_unique<T>(context, options, table);
          },
          T::words};
}

constexpr Kind kKinds[] = {
    kind<Identity>("identity", "every value as it is: 32 bits an element"),
    kind<Sign>("sign", "signs, the mean magnitude a tensor: 1 bit an element"),
    kind<TopK>("top_k", "a tensor's largest values: 64 bits a value kept"),
    kind<RandomK>("random_k", "values at random places: 64 bits a value kept"),
    kind<Qsgd>("qsgd",
               "levels of a tensor's norm, rounded at random: 1 + "
               "compress.bits bits an element"),
};

const Kind& kind_of(const CompressOptions& options) {
  std::string keywords;
  for (const Kind& kind : kKinds) {
    if (options.kind == kind.keyword) return kind;
    keywords += std::string(" ") + kind.keyword;
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
    for (const Kind& kind : kKinds)
      rows.emplace_back(kind.keyword, kind.description);
    return rows;
  }();
  return table;
}

}  // namespace syncopate
