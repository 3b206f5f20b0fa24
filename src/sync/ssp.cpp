// Stale synchronous parallel (Ho et al. 2013): asp, with a limit on how far a
// worker may be ahead. A worker's clock is the number of its updates, as a
// shard has seen them. With s = ssp.bound,
//
//   the pull after update c of a worker is answered once every other worker
//   has clock >= c - s, or is at the boundary (with asp.pull = before_step, a
//   clock advances when the worker requests that pull, at first to 0);
//   step c + 1 is handed out once no worker has taken fewer than c - s.
//
// A worker at clock c thus sees all updates of clocks up to c - s and maybe
// more, and the fastest is never more than s + 1 steps ahead of the slowest. A
// worker with the lowest clock is never held back, so there is always progress.
//
// With s = 0, updates of a clock are hidden until all workers have made theirs:
// without momentum, and with the rate divided by N, that is bsp up to rounding.
#include "keys/key.h"
#include "sync/asp.h"
#include "sync/kinds.h"

namespace syncopate {
namespace {

class Ssp final : public Asp {
 public:
  explicit Ssp(const SchemeParts& parts) : Asp(parts, parts.sync.ssp.bound) {}
};

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

}  // namespace

SchemeInfo ssp_scheme() {
  return {.keyword = "ssp",
          .description =
              "asp with a bound on how far ahead of the slowest a "
              "worker may run",
          .make = &make<Ssp>,
          .check = &check_ssp,
          .keys = &ssp_keys,
          .planned_bytes = &asp_bytes,
          .uses_wire = true,
          .keeps_replicas_equal = true,
          .is_free_running = true,
          .sends_to_all = true,
          .has_servers = true};
}

}  // namespace syncopate
