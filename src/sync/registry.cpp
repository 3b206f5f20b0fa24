// Every scheme by its keyword. An explicit table: self-registration is dropped
// from static libraries.
#include <algorithm>

#include "sync/asp.h"
#include "sync/bsp.h"
#include "sync/choco.h"
#include "sync/d_psgd.h"
#include "sync/dcd_psgd.h"
#include "sync/deep_squeeze.h"
#include "sync/dgc.h"
#include "sync/ds_sync.h"
#include "sync/easgd.h"
#include "sync/ecd_psgd.h"
#include "sync/ef_sign_sgd.h"
#include "sync/esync.h"
#include "sync/local_sgd.h"
#include "sync/power_sgd.h"
#include "sync/scheme.h"
#include "sync/sgp.h"
#include "sync/ssp.h"
#include "sync/sync_switch.h"

namespace syncopate {

namespace {

// All workers average together, or in variations of that.
std::vector<SchemeInfo> averaging_schemes() {
  return {
      {.keyword = "bsp",
       .description =
           "bulk-synchronous: gradients averaged over all workers every step",
       .make = &make_bsp,
       .keys = &bsp_keys,
       .planned_bytes = &bsp_bytes,
       .uses_wire = true,
       .reduces_ranges = true,
       .sends_rows = true,
       .uses_collectives = true,
       .keeps_replicas_equal = true,
       .averages_gradients = true},
      {.keyword = "ds_sync",
       .description =
           "divide and shuffle: parameters averaged in changing groups",
       .make = &make_ds_sync,
       .obstacle = &ds_sync_obstacle,
       .keys = &ds_sync_keys,
       .planned_bytes = &ds_sync_bytes,
       .reduces_ranges = true},
      {.keyword = "local_sgd",
       .description = "steps of each worker's own, then a mean of parameters",
       .make = &make_local_sgd,
       .obstacle = &local_sgd_obstacle,
       .keys = &local_sgd_keys,
       .planned_bytes = &local_sgd_bytes,
       .reduces_ranges = true,
       .uses_collectives = true},
      {.keyword = "easgd",
       .description = "elastic averaging: parameters drawn towards a common "
                      "centre",
       .make = &make_easgd,
       .keys = &easgd_keys,
       .planned_bytes = &easgd_bytes,
       .reduces_ranges = true,
       .has_centre = true,
       .uses_collectives = true},
      {.keyword = "ef_sign_sgd",
       .description = "signs of gradients averaged, with error feedback",
       .make = &make_ef_sign_sgd,
       .obstacle = &ef_sign_sgd_obstacle,
       .planned_bytes = &ef_sign_sgd_bytes,
       .keeps_replicas_equal = true,
       .averages_gradients = true},
      {.keyword = "dgc",
       .description =
           "deep gradient compression: some coordinates averaged, with error "
           "feedback",
       .make = &make_dgc,
       .obstacle = &dgc_obstacle,
       .keys = &dgc_keys,
       .planned_bytes = &dgc_bytes,
       .uses_compressor = true,
       .keeps_replicas_equal = true,
       .averages_gradients = true},
      {.keyword = "power_sgd",
       .description = "gradients averaged as matrices of low rank, with error "
                      "feedback",
       .make = &make_power_sgd,
       .obstacle = &power_sgd_obstacle,
       .keys = &power_sgd_keys,
       .planned_bytes = &power_sgd_bytes,
       .uses_wire = true,
       .reduces_ranges = true,
       .uses_collectives = true,
       .keeps_replicas_equal = true,
       .averages_gradients = true},
  };
}

// Each worker at its own speed.
std::vector<SchemeInfo> free_schemes() {
  return {
      {.keyword = "asp",
       .description = "asynchronous: every worker pushes to and pulls from a "
                      "sharded parameter server at its own speed",
       .make = &make_asp,
       .obstacle = &asp_obstacle,
       .keys = &asp_keys,
       .planned_bytes = &asp_bytes,
       .uses_wire = true,
       .keeps_replicas_equal = true,
       .is_free_running = true},
      {.keyword = "ssp",
       .description = "asp with a bound on how far a worker may be ahead of "
                      "the slowest",
       .make = &make_ssp,
       .obstacle = &ssp_obstacle,
       .keys = &ssp_keys,
       .planned_bytes = &asp_bytes,
       .uses_wire = true,
       .keeps_replicas_equal = true,
       .is_free_running = true},
      {.keyword = "esync",
       .description = "ESync: as many local steps as fit before the slowest "
                      "worker, then an average",
       .make = &make_esync,
       .keys = &esync_keys,
       .uses_wire = true,
       .reduces_ranges = true,
       .uses_collectives = true,
       .keeps_replicas_equal = true,
       .is_free_running = true},
      {.keyword = "sync_switch",
       .description = "Sync-Switch: schemes one after the other, bsp then asp "
                      "as published",
       .make = &make_sync_switch,
       .obstacle = &sync_switch_obstacle,
       .keys = &sync_switch_keys,
       .is_composite = true,
       .uses_collectives = true},
  };
}

// Communication with neighbours only.
std::vector<SchemeInfo> gossip_schemes() {
  return {
      {.keyword = "d_psgd",
       .description = "decentralised: a local step, then a weighted average "
                      "with neighbours",
       .make = &make_d_psgd,
       .obstacle = &topology_obstacle,
       .planned_bytes = &d_psgd_bytes,
       .uses_topology = true,
       .uses_wire = true},
      {.keyword = "choco",
       .description = "gossip of compressed differences to public copies, "
                      "under the next step",
       .make = &make_choco,
       .obstacle = &choco_obstacle,
       .keys = &choco_keys,
       .planned_bytes = &compressed_gossip_bytes,
       .uses_topology = true,
       .uses_compressor = true},
      {.keyword = "dcd_psgd",
       .description = "gossip with neighbours' copies kept by compressed "
                      "differences",
       .make = &make_dcd_psgd,
       .obstacle = &compression_obstacle,
       .planned_bytes = &compressed_gossip_bytes,
       .uses_topology = true,
       .uses_compressor = true},
      {.keyword = "ecd_psgd",
       .description = "gossip with neighbours' copies kept by compressed "
                      "extrapolations",
       .make = &make_ecd_psgd,
       .obstacle = &compression_obstacle,
       .planned_bytes = &compressed_gossip_bytes,
       .uses_topology = true,
       .uses_compressor = true},
      {.keyword = "deep_squeeze",
       .description = "gossip of compressed models with error feedback",
       .make = &make_deep_squeeze,
       .obstacle = &deep_squeeze_obstacle,
       .keys = &choco_keys,
       .planned_bytes = &compressed_gossip_bytes,
       .uses_topology = true,
       .uses_compressor = true},
      {.keyword = "sgp",
       .description = "stochastic gradient push: half of a model to one peer a "
                      "step",
       .make = &make_sgp,
       .planned_bytes = &sgp_bytes,
       .uses_wire = true},
  };
}

}  // namespace

const std::vector<SchemeInfo>& scheme_table() {
  static const std::vector<SchemeInfo> table = [] {
    std::vector<SchemeInfo> all;
    for (const auto part : {averaging_schemes, free_schemes, gossip_schemes})
      for (SchemeInfo& info : part()) all.push_back(std::move(info));
    return all;
  }();
  return table;
}

const SchemeInfo& scheme_info(const std::string& keyword) {
  for (const SchemeInfo& info : scheme_table())
    if (info.keyword == keyword) return info;
  CHECK_MSG(false, "sync.scheme = {}", keyword);
}

std::vector<std::string> phase_schemes(const SyncSwitchOptions& options) {
  std::vector<std::string> phases;
  for (const std::string& word : options.order) {
    if (word.find_first_not_of("01") != std::string::npos)
      phases.push_back(word);
    else
      for (const char digit : word)
        phases.push_back(digit == '1' ? "bsp" : "asp");
  }
  return phases;
}

std::vector<std::string> schemes_in_use(const SyncOptions& sync) {
  if (!scheme_info(sync.scheme).is_composite) return {sync.scheme};
  std::vector<std::string> all = {sync.scheme};
  for (const std::string& phase : phase_schemes(sync.sync_switch))
    if (std::find(all.begin(), all.end(), phase) == all.end())
      all.push_back(phase);
  return all;
}

std::string scheme_obstacle(const SchemeRequest& request) {
  for (const std::string& keyword : schemes_in_use(request.sync)) {
    const SchemeInfo& info = scheme_info(keyword);
    if (info.obstacle == nullptr) continue;
    const std::string obstacle = info.obstacle(request);
    if (!obstacle.empty()) return obstacle;
  }
  return "";
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
  return scheme_info(parts.sync.scheme).make(parts);
}

}  // namespace syncopate
