#include "optim/decay_runs.h"

namespace syncopate {
namespace {

bool is_exempt(const OptimizerOptions& options, Role role) {
  switch (role) {
    case Role::kBatchNorm:
    case Role::kLayerNorm:
      return !options.decay_batchnorm;
    case Role::kBias:
      return !options.decay_bias;
    default:
      return false;
  }
}

}  // namespace

std::vector<DecayRun> decay_runs(const OptimizerOptions& options,
                                 const ParameterTable& table,
                                 bool tables_apart) {
  std::vector<DecayRun> runs;
  for (const ParameterEntry& entry : table.entries()) {
    const float decay = is_exempt(options, entry.role)
                            ? 0.0f
                            : static_cast<float>(options.weight_decay);
    const bool is_table = tables_apart && entry.role == Role::kEmbedding;
    CHECK_MSG(!is_table || entry.shape.rank() == 2, "{} {}", entry.name,
              entry.shape.text());
    const int64_t row = is_table ? entry.shape[1] : 0;
    const int64_t end = entry.offset + entry.elems();
    const bool goes_on = !runs.empty() && runs.back().row == 0 && row == 0 &&
                         runs.back().weight_decay == decay;
    if (goes_on)
      runs.back().end = end;
    else
      runs.push_back({entry.offset, end, decay, row});
  }
  return runs;
}

}  // namespace syncopate
