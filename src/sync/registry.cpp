// Every scheme by its keyword. An explicit table: self-registration is dropped
// from static libraries.
#include "sync/bsp.h"
#include "sync/scheme.h"

namespace syncopate {

const std::vector<SchemeInfo>& scheme_table() {
  static const std::vector<SchemeInfo> table = {
      {"bsp",
       "bulk-synchronous: gradients averaged over all workers every step",
       &make_bsp},
  };
  return table;
}

Replica::Replica(Context& context,
                 const Model& model,
                 const OptimizerOptions& options)
    : parameters(context.device(),
                 context.stream(),
                 model.parameters().num_elems()),
      gradients(context.device(), context.stream(), parameters.size()),
      buffers(context.device(), context.stream(), model.buffers().num_elems()),
      optimizer(make_optimizer(context,
                               options,
                               model.parameters(),
                               0,
                               parameters.size())) {}

std::unique_ptr<Scheme> make_scheme(const SchemeParts& parts) {
  for (const SchemeInfo& info : scheme_table())
    if (info.keyword == parts.sync.scheme) return info.make(parts);
  CHECK_MSG(false, "sync.scheme = {}", parts.sync.scheme);
}

}  // namespace syncopate
