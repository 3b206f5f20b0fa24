#include "sync/ssp.h"

#include "keys/key.h"

namespace syncopate {

std::unique_ptr<Scheme> make_ssp(const SchemeParts& parts) {
  return std::make_unique<Ssp>(parts);
}

std::string ssp_obstacle(const SchemeRequest& request) {
  const int64_t bound = request.sync.ssp.bound;
  if (bound < 0) return fmt::format("ssp.bound: {}, expected 0 or more", bound);
  return server_obstacle(request, bound);
}

Keys ssp_keys() {
  Keys keys = asp_keys();
  append(keys,
         within(&SyncOptions::ssp,
                {
                    {.name = "ssp.bound",
                     .place = &SspOptions::bound,
                     .doc = "Steps that a worker may be ahead of the slowest.",
                     .low = 0},
                }));
  return keys;
}

}  // namespace syncopate
