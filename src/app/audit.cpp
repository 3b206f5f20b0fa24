#include "app/audit.h"

#include <algorithm>

namespace syncopate {

bool keeps_replicas_equal(const SyncOptions& sync) {
  const std::vector<std::string> schemes = schemes_in_use(sync);
  return std::all_of(schemes.begin(), schemes.end(), [](const auto& keyword) {
    return keyword == "sync_switch" ||
           scheme_info(keyword).keeps_replicas_equal;
  });
}

std::string audit_replicas(const Engine&, Endpoint&, const Replica&, int64_t) {
  return "";
}

}  // namespace syncopate
