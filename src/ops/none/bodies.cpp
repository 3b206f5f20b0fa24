// Bodies of ops on a device without values: they do nothing, and results that
// the host would read are zero.
#include "ops/bodies.h"

namespace syncopate {
namespace {

template <typename Op>
struct Nothing;
template <typename Result, typename... Args>
struct Nothing<Result(Args...)> {
  static Result body(Args...) { return Result(); }
};

}  // namespace

const OpBodies& none_bodies() {
  static constexpr OpBodies kBodies = {
#define OP(name) .name = &Nothing<decltype(syncopate::name)>::body,
#include "ops/all_ops.inc"
  };
  return kBodies;
}

}  // namespace syncopate
