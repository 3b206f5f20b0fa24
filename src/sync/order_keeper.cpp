#include "sync/order_keeper.h"

#include <algorithm>
#include <tuple>

#include "base/file.h"
#include "base/shared_table.h"
#include "comm/tags.h"
#include "sync/shard_exchange.h"
#include "tensor/visit_numbers.h"

namespace syncopate {

OrderKeeper::OrderKeeper(const SchemeParts& parts,
                         int num_shards,
                         int64_t bound)
    : parts_(parts),
      shape_{.workers = parts.endpoint.size(),
             .shards = num_shards,
             .worker_steps = parts.total_steps * parts.endpoint.size(),
             .bound = bound} {
  recorded_.updates.resize(1);
  const std::string& path = parts.sync.asp.replay;
  if (!path.empty())
    replayed_ = shared_table<ArrivalOrder>(
        std::tuple(path, shape_.workers, shape_.shards, shape_.worker_steps,
                   shape_.bound),
        [&] { return read_order(path, shape_); });
}

void OrderKeeper::attach(Tickets& tickets, ParameterShard* shard) {
  if (parts_.sync.asp.record) {
    if (parts_.endpoint.rank() == 0)
      recorded_.tickets.reserve(shape_.worker_steps);
    tickets.record(&recorded_.tickets);
    if (shard != nullptr) {
      recorded_.updates[0].reserve(shape_.worker_steps);
      shard->record(&recorded_.updates[0]);
    }
  }
  if (replayed_) {
    tickets.replay(&replayed_->tickets);
    if (shard != nullptr)
      shard->replay(&replayed_->updates[parts_.endpoint.rank()]);
  }
}

Segment OrderKeeper::until_recorded(Segment segment) const {
  if (!replayed_ || segment.until <= segment.from) return segment;
  const std::vector<int64_t>& met = replayed_->boundaries;
  const auto next = std::upper_bound(met.begin(), met.end(), segment.from);
  if (next == met.end())
    fail(ExitCode::kBadInput,
         "asp.replay: {}: ends at worker step {}, where its run reached "
         "run.target; expected a run that reaches its target there, too",
         parts_.sync.asp.replay, met.back());
  if (*next > segment.until)
    fail(ExitCode::kBadInput,
         "asp.replay: {}: recorded with a boundary at worker step {}, this run "
         "has one at {}, expected eval.every and checkpoint.every as recorded",
         parts_.sync.asp.replay, *next, segment.until);
  segment.until = *next;
  return segment;
}

void OrderKeeper::note_boundary(int64_t worker_steps) {
  std::vector<int64_t>& met = recorded_.boundaries;
  if (parts_.sync.asp.record && worker_steps > (met.empty() ? 0 : met.back()))
    met.push_back(worker_steps);
}

void OrderKeeper::visit_state(StateVisitor& visitor) {
  if (!parts_.sync.asp.record) return;
  const int64_t all = shape_.worker_steps;
  visit_number(visitor, Owner::kWorker, "order.keeps_leads",
               recorded_.keeps_leads);
  visit_growing(visitor, "order.tickets", recorded_.tickets, all);
  visit_growing(visitor, "order.updates", recorded_.updates[0], all);
  visit_growing(visitor, "order.boundaries", recorded_.boundaries, all);
}

void OrderKeeper::write() {
  if (!parts_.sync.asp.record) return;
  Endpoint& endpoint = parts_.endpoint;
  const std::span<const int64_t> own(recorded_.updates[0]);
  const auto updates =
      gather_bytes(endpoint, endpoint.world_group(), bytes_view(own), 0,
                   tags::kCollective, Traffic::kControl);
  if (endpoint.rank() != 0) return;
  ArrivalOrder order = recorded_;
  order.updates.clear();
  for (int64_t shard = 0; shard < shape_.shards; ++shard) {
    const auto* ranks = reinterpret_cast<const int64_t*>(updates[shard].data());
    order.updates.emplace_back(ranks,
                               ranks + updates[shard].size() / sizeof(int64_t));
  }
  const fs::path folder = parts_.directory.empty() ? "." : parts_.directory;
  write_order((folder / "order.h5").string(), order, shape_);
}

void refuse_order(const AspOptions& asp,
                  const char* why,
                  const char* otherwise) {
  if (!asp.record && asp.replay.empty()) return;
  fail(ExitCode::kBadInput, "asp.{}: {}, but {}, expected {}, or {}",
       asp.record ? "record" : "replay", asp.record ? "yes" : asp.replay, why,
       asp.record ? "no" : "none", otherwise);
}

void check_server(const SchemeRequest& request, int64_t bound) {
  const AspOptions& asp = request.sync.asp;
  if (asp.servers < 0 || asp.servers > request.workers)
    fail(ExitCode::kBadInput,
         "asp.servers: {}, expected auto (one per worker) or 1 to {}",
         asp.servers, request.workers);
  if (asp.pull == Pulling::kBeforeStep)
    refuse_order(asp, "no order of pulls is kept", "asp.pull = after_push");
  if (asp.replay.empty()) return;
  try {
    read_order(asp.replay,
               {.workers = request.workers,
                .shards = num_shards(request.sync, request.workers,
                                     request.parameters.num_elems()),
                .worker_steps = request.total_steps * request.workers,
                .bound = bound});
  } catch (const Error& error) {
    if (error.code() == ExitCode::kInputMissing)
      fail(error.code(),
           "asp.replay: {}, expected none or an order.h5 that asp.record wrote",
           error.what());
    fail(ExitCode::kBadInput, "asp.replay: {}", error.what());
  }
}

}  // namespace syncopate
