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

template <typename T>
std::unique_ptr<Scheme> make(const SchemeParts& parts) {
  return std::make_unique<T>(parts);
}

// All workers average together, or in variations of that.
std::vector<SchemeInfo> averaging_schemes() {
  return {
      {.keyword = "bsp",
       .description =
           "bulk-synchronous: gradients averaged over all workers every step",
       .make = &make<Bsp>,
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
       .make = &make<DsSync>,
       .check = &check_ds_sync,
       .keys = &ds_sync_keys,
       .planned_bytes = &ds_sync_bytes,
       .reduces_ranges = true,
       .uses_collectives = true},
      {.keyword = "local_sgd",
       .description = "steps of each worker's own, then a mean of parameters",
       .make = &make<LocalSgd>,
       .check = &check_local_sgd,
       .keys = &local_sgd_keys,
       .planned_bytes = &local_sgd_bytes,
       .reduces_ranges = true,
       .uses_collectives = true},
      {.keyword = "easgd",
       .description = "elastic averaging: parameters drawn towards a common "
                      "centre",
       .make = &make<Easgd>,
       .keys = &easgd_keys,
       .planned_bytes = &easgd_bytes,
       .reduces_ranges = true,
       .has_centre = true,
       .uses_collectives = true},
      {.keyword = "ef_sign_sgd",
       .description = "signs of gradients averaged, with error feedback",
       .make = &make<EfSignSgd>,
       .check = &check_ef_sign_sgd,
       .planned_bytes = &ef_sign_sgd_bytes,
       .keeps_replicas_equal = true,
       .averages_gradients = true},
      {.keyword = "dgc",
       .description =
           "deep gradient compression: some coordinates averaged, with error "
           "feedback",
       .make = &make<Dgc>,
       .check = &check_dgc,
       .keys = &dgc_keys,
       .planned_bytes = &dgc_bytes,
       .uses_compressor = true,
       .keeps_replicas_equal = true,
       .averages_gradients = true},
      {.keyword = "power_sgd",
       .description = "gradients averaged as matrices of low rank, with error "
                      "feedback",
       .make = &make<PowerSgd>,
       .check = &check_power_sgd,
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
       .make = &make<Asp>,
       .check = &check_asp,
       .keys = &asp_keys,
       .planned_bytes = &asp_bytes,
       .uses_wire = true,
       .keeps_replicas_equal = true,
       .is_free_running = true},
      {.keyword = "ssp",
       .description = "asp with a bound on how far a worker may be ahead of "
                      "the slowest",
       .make = &make<Ssp>,
       .check = &check_ssp,
       .keys = &ssp_keys,
       .planned_bytes = &asp_bytes,
       .uses_wire = true,
       .keeps_replicas_equal = true,
       .is_free_running = true},
      {.keyword = "esync",
       .description = "ESync: as many local steps as fit before the slowest "
                      "worker, then an average",
       .make = &make<Esync>,
       .keys = &esync_keys,
       .uses_wire = true,
       .reduces_ranges = true,
       .uses_collectives = true,
       .keeps_replicas_equal = true,
       .is_free_running = true},
      {.keyword = "sync_switch",
       .description = "Sync-Switch: schemes one after the other, bsp then asp "
                      "as published",
       .make = &make<SyncSwitch>,
       .check = &check_sync_switch,
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
       .make = &make<DPsgd>,
       .check = &check_topology,
       .planned_bytes = &d_psgd_bytes,
       .uses_topology = true,
       .uses_wire = true,
       .uses_collectives = true},
      {.keyword = "choco",
       .description = "gossip of compressed differences to public copies, "
                      "under the next step",
       .make = &make<Choco>,
       .check = &check_choco,
       .keys = &choco_keys,
       .planned_bytes = &compressed_gossip_bytes,
       .uses_topology = true,
       .uses_compressor = true,
       .uses_collectives = true},
      {.keyword = "dcd_psgd",
       .description = "gossip with neighbours' copies kept by compressed "
                      "differences",
       .make = &make<DcdPsgd>,
       .check = &check_compression,
       .planned_bytes = &compressed_gossip_bytes,
       .uses_topology = true,
       .uses_compressor = true,
       .uses_collectives = true},
      {.keyword = "ecd_psgd",
       .description = "gossip with neighbours' copies kept by compressed "
                      "extrapolations",
       .make = &make<EcdPsgd>,
       .check = &check_compression,
       .planned_bytes = &compressed_gossip_bytes,
       .uses_topology = true,
       .uses_compressor = true,
       .uses_collectives = true},
      {.keyword = "deep_squeeze",
       .description = "gossip of compressed models with error feedback",
       .make = &make<DeepSqueeze>,
       .check = &check_deep_squeeze,
       .keys = &choco_keys,
       .planned_bytes = &compressed_gossip_bytes,
       .uses_topology = true,
       .uses_compressor = true,
       .uses_collectives = true},
      {.keyword = "sgp",
       .description = "stochastic gradient push: half of a model to one peer a "
                      "step",
       .make = &make<Sgp>,
       .planned_bytes = &sgp_bytes,
       .uses_wire = true,
       .uses_collectives = true},
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

bool any_scheme(const SyncOptions& sync, bool (*is_so)(const SchemeInfo&)) {
  return std::ranges::any_of(schemes_in_use(sync), [&](const auto& keyword) {
    return is_so(scheme_info(keyword));
  });
}

std::string scheme_obstacle(const SchemeRequest& request) {
  try {
    for (const std::string& keyword : schemes_in_use(request.sync))
      if (const auto check = scheme_info(keyword).check) check(request);
  } catch (const Error& error) {
    if (error.code() != ExitCode::kBadInput) throw;
    return error.what();
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
