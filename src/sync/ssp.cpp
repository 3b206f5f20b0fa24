#include "sync/ssp.h"

#include "keys/key.h"

namespace syncopate {

void check_ssp(const SchemeRequest& request) {
  const int64_t bound = request.sync.ssp.bound;
  if (bound < 0)
    fail(ExitCode::kBadInput, "ssp.bound: {}, expected 0 or more", bound);
  check_server(request, bound);
}

Keys ssp_keys() {
  Keys keys = asp_keys();
  append(
      keys,
      within(&SyncOptions::ssp,
             {
                 {.name = "ssp.bound",
                  .place = &SspOptions::bound,
                  .doc = "Steps by which a worker may be ahead of the slowest.",
                  .low = 0},
             }));
  return keys;
}

}  // namespace syncopate
