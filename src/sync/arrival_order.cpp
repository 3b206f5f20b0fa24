#include "sync/arrival_order.h"

#include <algorithm>

#include "base/check.h"
#include "base/hdf5_file.h"
#include "tensor/visit_numbers.h"

namespace syncopate {
namespace {

void expect(const std::string& path,
            const char* what,
            int64_t found,
            int64_t expected) {
  if (found != expected)
    fail(ExitCode::kBadInput, "{}: recorded with {} = {}, expected {}", path,
         what, found, expected);
}

std::vector<int64_t> steps_by_rank(const std::vector<int64_t>& ranks,
                                   int64_t from,
                                   int64_t until,
                                   int64_t workers) {
  std::vector<int64_t> steps(workers, 0);
  for (int64_t i = from; i < until; ++i)
    if (ranks[i] >= 0 && ranks[i] < workers) ++steps[ranks[i]];
  return steps;
}

// Returns whether, between any two boundaries, each shard has applied the push
// of every step that was handed out and nothing else. Otherwise a run could
// wait for ever.
bool is_complete(const ArrivalOrder& order, const OrderShape& shape) {
  const int64_t all = std::ssize(order.tickets);
  int64_t from = 0;
  for (const int64_t until : order.boundaries) {
    if (until <= from || until > all) return false;
    const std::vector<int64_t> steps =
        steps_by_rank(order.tickets, from, until, shape.workers);
    int64_t total = 0;
    for (const int64_t of_rank : steps) total += of_rank;
    if (total != until - from) return false;
    for (const std::vector<int64_t>& updates : order.updates)
      if (steps_by_rank(updates, from, until, shape.workers) != steps)
        return false;
    from = until;
  }
  return from == all && all <= shape.worker_steps;
}

}  // namespace

void write_order(const std::string& path,
                 const ArrivalOrder& order,
                 const OrderShape& shape) {
  CHECK(is_complete(order, shape));
  replace_file(path, [&](const fs::path& temporary) {
    Hdf5Writer file(temporary, Seal::kDigest);
    file.attribute("/", "content", "arrival order of an asynchronous run");
    file.attribute("/", "workers", shape.workers);
    file.attribute("/", "shards", shape.shards);
    file.attribute("/", "bound", shape.bound);
    file.attribute("/", "planned_worker_steps", shape.worker_steps);
    file.attribute("/", "keeps_leads", order.keeps_leads);
    const int64_t steps = std::ssize(order.tickets);
    file.write<int64_t>("tickets", std::vector{steps}, order.tickets);
    file.attribute("tickets", "description",
                   "rank that was given each step, by worker_steps");
    std::vector<int64_t> updates;
    for (const std::vector<int64_t>& shard : order.updates)
      updates.insert(updates.end(), shard.begin(), shard.end());
    file.write<int64_t>("updates", std::vector{shape.shards, steps}, updates);
    file.attribute("updates", "description",
                   "by shard: rank whose push was applied, in that order");
    file.write<int64_t>("boundaries", std::vector{std::ssize(order.boundaries)},
                        order.boundaries);
    file.attribute("boundaries", "description",
                   "worker_steps at which all workers had met");
    file.close();
  });
}

ArrivalOrder read_order(const std::string& path, const OrderShape& expected) {
  check_seal(path);
  const Hdf5Reader file(path);
  const auto attribute = [&](const char* name) {
    const auto value = file.int_attribute("/", name);
    if (!value)
      fail(
          ExitCode::kBadInput,
          "{}: no attribute \"{}\", expected an order.h5 that asp.record wrote",
          path, name);
    return *value;
  };
  expect(path, "workers", attribute("workers"), expected.workers);
  expect(path, "shards", attribute("shards"), expected.shards);
  expect(path, "bound (-1: asp)", attribute("bound"), expected.bound);
  if (expected.bound >= 0 &&
      file.int_attribute("/", "keeps_leads").value_or(0) == 0)
    fail(ExitCode::kBadInput,
         "{}: recorded by a version of syncopate whose ssp forgot leads at "
         "boundaries, expected an order of today's ssp",
         path);
  ArrivalOrder order;
  const int64_t steps = file.dataset("tickets").elems();
  // Earlier versions wrote complete runs only.
  expect(path, "worker_steps",
         file.int_attribute("/", "planned_worker_steps").value_or(steps),
         expected.worker_steps);
  expect(path, "updates", file.dataset("updates").elems(),
         expected.shards * steps);
  order.tickets.resize(steps);
  file.read<int64_t>("tickets", order.tickets);
  std::vector<int64_t> updates(expected.shards * steps);
  file.read<int64_t>("updates", updates);
  for (int64_t shard = 0; shard < expected.shards; ++shard)
    order.updates.emplace_back(updates.begin() + shard * steps,
                               updates.begin() + (shard + 1) * steps);
  const int64_t boundaries = file.dataset("boundaries").elems();
  if (boundaries <= steps) {
    order.boundaries.resize(boundaries);
    file.read<int64_t>("boundaries", order.boundaries);
  }
  if (!is_complete(order, expected))
    fail(ExitCode::kBadInput,
         "{}: its pushes do not match its steps, expected an order.h5 that "
         "asp.record wrote",
         path);
  return order;
}

void visit_growing(StateVisitor& visitor,
                   const std::string& name,
                   std::vector<int64_t>& values,
                   int64_t full_length) {
  int64_t length = std::ssize(values);
  visit_number(visitor, Owner::kWorker, name + ".length", length);
  values.resize(full_length);
  visitor.visit(Owner::kWorker, name, std::span(values));
  CHECK_MSG(length >= 0 && length <= full_length, "{} of {}", length,
            full_length);
  values.resize(length);
}

}  // namespace syncopate
