// Every scheme by its keyword. An explicit table: self-registration is dropped
// from static libraries.
#include <algorithm>

#include "sync/kinds.h"

namespace syncopate {

const std::vector<SchemeInfo>& scheme_table() {
  static const std::vector<SchemeInfo> table = {
      // All workers average together, or in variations of that.
      bsp_scheme(), ds_sync_scheme(), local_sgd_scheme(), easgd_scheme(),
      ef_sign_sgd_scheme(), dgc_scheme(), power_sgd_scheme(),
      // Each worker at its own speed.
      asp_scheme(), ssp_scheme(), esync_scheme(), sync_switch_scheme(),
      // Communication with neighbours only.
      d_psgd_scheme(), choco_scheme(), dcd_psgd_scheme(), ecd_psgd_scheme(),
      deep_squeeze_scheme(), sgp_scheme()};
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
    if (std::ranges::count(all, phase) == 0) all.push_back(phase);
  return all;
}

bool any_scheme(const SyncOptions& sync, bool (*is_so)(const SchemeInfo&)) {
  return std::ranges::any_of(schemes_in_use(sync), [&](const auto& keyword) {
    return is_so(scheme_info(keyword));
  });
}

bool uses_servers(const SyncOptions& sync) {
  return any_scheme(sync, [](const auto& info) { return info.has_servers; }) ||
         (sync.collective == CollectiveAlgorithm::kParameterServer &&
          any_scheme(sync,
                     [](const auto& info) { return info.reduces_ranges; }));
}

int64_t steps_of_round(const SyncOptions& sync) {
  const auto of_scheme = scheme_info(sync.scheme).steps_of_round;
  return of_scheme != nullptr ? of_scheme(sync) : 1;
}

std::string scheme_obstacle(const SchemeRequest& request) {
  try {
    if (const auto check = scheme_info(request.sync.scheme).check)
      check(request);
  } catch (const Error& error) {
    if (error.code() != ExitCode::kBadInput) throw;
    return error.what();
  }
  return "";
}

std::vector<SchemeDefault> own_defaults(
    const std::string& scheme,
    const std::function<bool(const std::string&)>& is_set) {
  std::vector<SchemeDefault> own = scheme_info(scheme).defaults;
  std::erase_if(own, [&](const SchemeDefault& one) {
    return is_set(one.key) || std::ranges::any_of(one.unless, is_set);
  });
  return own;
}

Replica::Replica(Context& context,
                 const Model& model,
                 const OptimizerOptions& options,
                 const ShadowTable* copies)
    : parameters(context, model.parameters().num_elems(), copies),
      gradients(context, model),
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
