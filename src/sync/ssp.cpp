#include "sync/ssp.h"

namespace syncopate {

std::unique_ptr<Scheme> make_ssp(const SchemeParts& parts) {
  return std::make_unique<Ssp>(parts);
}

std::string ssp_obstacle(const SchemeRequest& request) {
  const int64_t bound = request.sync.ssp.bound;
  if (bound < 0) return fmt::format("ssp.bound: {}, expected 0 or more", bound);
  return server_obstacle(request, bound);
}

}  // namespace syncopate
