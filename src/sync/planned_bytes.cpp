#include "sync/planned_bytes.h"

#include <algorithm>
#include <functional>
#include <map>

#include "sync/ds_sync.h"
#include "sync/power_sgd.h"

namespace syncopate {
namespace {

struct Formulas {
  const SchemeRequest& request;
  int64_t buffers;
  int64_t D = request.parameters.num_elems();
  int N = request.workers;
  Wire wire = request.sync.wire == "bf16" ? Wire::kBf16 : Wire::kF32;

  double all_reduce(int group, int64_t elems, Wire format) const {
    return static_cast<double>(
        all_reduce_bytes(collective_algorithm(request.sync.collective), group,
                         0, elems, format));
  }
  // Buffers travel with the parameters where the key says averaged.
  int64_t with_buffers(const std::string& batchnorm) const {
    return D + (batchnorm == "averaged" ? buffers : 0);
  }
  double message() const {
    return static_cast<double>(
        message_bytes(request.sync.compress, request.parameters));
  }
  double neighbours() const {
    const Topology topology = make_topology(request.sync.topology, N);
    double sum = 0;
    for (int rank = 0; rank < N; ++rank) sum += topology.scaling(rank) - 1;
    return sum / N;
  }
  double value_bytes() const { return wire == Wire::kBf16 ? 2 : 4; }

  double bsp() const {
    return all_reduce(N, D, wire) + (request.sync.bsp.batchnorm == "averaged"
                                         ? all_reduce(N, buffers, Wire::kF32)
                                         : 0);
  }
  double ds_sync() const {
    const DsSyncOptions& options = request.sync.ds_sync;
    const auto phases = ds_sync_phases(options, N);
    double bytes = 0;
    for (const Partition& phase : phases)
      for (const std::vector<int>& group : phase)
        if (std::find(group.begin(), group.end(), 0) != group.end())
          bytes += all_reduce(static_cast<int>(group.size()),
                              with_buffers(options.batchnorm), Wire::kF32);
    return bytes / static_cast<double>(phases.size());
  }
  double local_sgd() const {
    const LocalSgdOptions& options = request.sync.local_sgd;
    return all_reduce(N, with_buffers(options.batchnorm), Wire::kF32) /
           static_cast<double>(options.steps);
  }
  double easgd() const {
    return all_reduce(N, D, Wire::kF32) /
           static_cast<double>(request.sync.easgd.steps);
  }
  double power_sgd() const {
    const PowerSgdLayout layout(request.parameters,
                                request.sync.power_sgd.rank);
    return all_reduce(N, layout.p_elems, wire) +
           all_reduce(N, layout.q_elems, wire);
  }
  // Pushes to the shards of others, and answers from the own one: of the whole
  // model all but what stays with its worker, 1/N, wherever the shards are.
  double server() const {
    double model = static_cast<double>(D) * value_bytes();
    if (request.sync.asp.batchnorm == "shared")
      model += static_cast<double>(buffers) * sizeof(float);
    return 2.0 * model * (N - 1) / N;
  }
};

bool has_tables(const ParameterTable& parameters) {
  const auto& entries = parameters.entries();
  return std::any_of(entries.begin(), entries.end(), [](const auto& entry) {
    return entry.role == Role::kEmbedding;
  });
}

}  // namespace

std::optional<double> planned_bytes(const SchemeRequest& request,
                                    int64_t buffer_elems) {
  if (request.workers == 1) return 0;
  if (request.sync.scheme == "local_sgd" &&
      request.sync.local_sgd.start.value > 0)
    return std::nullopt;
  if (request.sync.scheme == "bsp" && request.sync.tables == "rows" &&
      has_tables(request.parameters))
    return std::nullopt;
  const Formulas plan{request, buffer_elems};
  const double others = request.workers - 1;
  const std::map<std::string, std::function<double()>> formulas = {
      {"bsp", [&] { return plan.bsp(); }},
      {"ds_sync", [&] { return plan.ds_sync(); }},
      {"local_sgd", [&] { return plan.local_sgd(); }},
      {"easgd", [&] { return plan.easgd(); }},
      {"power_sgd", [&] { return plan.power_sgd(); }},
      {"asp", [&] { return plan.server(); }},
      {"ssp", [&] { return plan.server(); }},
      {"ef_sign_sgd",
       [&] {
         return others * static_cast<double>(message_bytes({.kind = "sign"},
                                                           request.parameters));
       }},
      {"dgc", [&] { return others * plan.message(); }},
      {"d_psgd",
       [&] {
         return plan.neighbours() * plan.value_bytes() *
                static_cast<double>(plan.D);
       }},
      {"sgp",
       [&] { return plan.value_bytes() * static_cast<double>(plan.D) + 8; }},
  };
  const auto formula = formulas.find(request.sync.scheme);
  if (formula != formulas.end()) return formula->second();
  const SchemeInfo& info = scheme_info(request.sync.scheme);
  if (info.uses_topology && info.uses_compressor)
    return plan.neighbours() * plan.message();
  return std::nullopt;
}

}  // namespace syncopate
