#include "optim/handover.h"

namespace syncopate {
namespace {

bool makes_the_same(const OptimizerOptions& a, const OptimizerOptions& b) {
  return a.kind == b.kind && (a.momentum > 0) == (b.momentum > 0) &&
         a.nesterov == b.nesterov && a.beta1 == b.beta1 && a.beta2 == b.beta2 &&
         a.eps == b.eps && a.embedding == b.embedding &&
         a.weight_decay == b.weight_decay &&
         a.decay_batchnorm == b.decay_batchnorm && a.decay_bias == b.decay_bias;
}

}  // namespace

std::unique_ptr<Optimizer> hand_over(Context& context,
                                     std::unique_ptr<Optimizer> before,
                                     const OptimizerOptions& were,
                                     const OptimizerOptions& options,
                                     const ParameterTable& table) {
  if (before && makes_the_same(options, were)) return before;
  std::unique_ptr<Optimizer> renewed =
      make_optimizer(context, options, table, 0, table.num_elems());
  if (!before || before->state().size() != renewed->state().size())
    return renewed;
  const auto from = before->state(), to = renewed->state();
  for (size_t i = 0; i < from.size(); ++i)
    context.device().copy(to[i].data(), from[i].data(),
                          static_cast<int64_t>(to[i].size_bytes()),
                          context.stream());
  context.stream().synchronize();
  renewed->set_steps(before->steps());
  return renewed;
}

}  // namespace syncopate
