// No compression: the baseline for the others.
#include "compress/kinds.h"
#include "compress/message.h"
#include "ops/combine.h"

namespace syncopate {
namespace {

// Message: D floats.
class Identity final : public Compressor {
 public:
  Identity(Context&, const CompressOptions&, const ParameterTable& table)
      : elems_(table.num_elems()) {}
  static int64_t words(const CompressOptions&, const ParameterTable& table) {
    return table.num_elems();
  }
  int64_t message_words() const override { return elems_; }
  bool is_sparse() const override { return false; }

  void encode(Context& context,
              std::span<uint32_t> message,
              std::span<const float> x,
              const Draw&) override {
    CHECK(std::ssize(message) == elems_ && std::ssize(x) == elems_);
    context.device().copy(message.data(), x.data(),
                          static_cast<int64_t>(x.size_bytes()),
                          context.stream());
  }

  void blend(Context& context,
             std::span<float> y,
             std::span<const uint32_t> message,
             float a,
             float b) override {
    CHECK(std::ssize(message) == elems_ && std::ssize(y) == elems_);
    if (a == 0)
      combine(context, y, {{b, as_floats(message)}});
    else
      combine(context, y, {{a, y}, {b, as_floats(message)}});
  }

 private:
  int64_t elems_;
};

}  // namespace

const CompressorKind kIdentity =
    compressor_kind<Identity>("identity",
                              "every value unchanged: 32 bits per element");

}  // namespace syncopate
