#include "sync/device_reducer.h"

#include <limits>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "comm/row_exchange.h"
#include "comm/trace.h"
#include "ops/elementwise.h"
#include "sync/device_rows.h"

namespace syncopate {
namespace {

// In the order of the collectives' stream. The host waits only for the previous
// step: limiting the wait for peers and measuring times cost the device
// nothing. Where rows of tables are exchanged, it also waits for the counts of
// this step, on which the sizes of messages depend.
class DeviceReducer final : public Reducer {
 public:
  explicit DeviceReducer(const SchemeParts& parts)
      : parts_(parts),
        collectives_(*parts.collectives),
        ranks_(parts.endpoint.world_group()),
        group_(collectives_.world()) {}

  void prepare(const std::vector<Ranks>& partition) override {
    const int rank = parts_.endpoint.rank();
    for (size_t i = 0; i < partition.size(); ++i)
      if (std::ranges::count(partition[i], rank) > 0)
        groups_[partition[i]] = collectives_.split(static_cast<int>(i), rank);
  }

  void over(const Group& group) override {
    ranks_ = group;
    if (group.size() == parts_.endpoint.size()) {
      group_ = collectives_.world();
      return;
    }
    const auto found = groups_.find(group.members);
    CHECK(found != groups_.end());
    group_ = found->second;
  }

  void start(const RangeSum& sum) override {
    if (sum.is_tables) return start_rows(sum);
    Span& span = next_span();
    void* travels = sum.range.data() + sum.offset;
    span.rounded.reset();
    if (sum.wire == Wire::kBf16) {
      span.rounded = {rounded_of(sum),
                      make_tensor(travels, DType::kF32, Shape{sum.elems})};
      travels = span.rounded->first.data;
      reorder(parts_.context, span.rounded->first, span.rounded->second);
    }
    span.ready->record(parts_.context.stream());
    span.ready->wait_on(collectives_.stream());
    span.begin->record(collectives_.stream());
    collectives_.all_reduce_sum(travels, sum.elems, sum.wire, group_);
    span.end->record(collectives_.stream());
    span.bytes = wire_bytes(sum.wire, sum.elems);
    // A library's own messages cannot be counted; these are a ring's.
    Endpoint& endpoint = parts_.endpoint;
    endpoint.traffic().is_modelled = true;
    endpoint.traffic().count(
        Traffic::kPayload,
        all_reduce_bytes(CollectiveAlgorithm::kRing, group_.size,
                         group_.position, sum.elems, sum.wire),
        2 * (group_.size - 1));
  }

  void close() override {}

  SyncTimes finish() override {
    for (RowSum* const rows : rows_in_flight_) finish_rows(*rows);
    rows_in_flight_.clear();
    Step& step = steps_[now_];
    if (step.used > 0)
      step.spans[step.used - 1].end->wait_on(parts_.context.stream());
    for (size_t i = 0; i < step.used; ++i)
      if (const auto& rounded = step.spans[i].rounded)
        reorder(parts_.context, rounded->second, rounded->first);
    collectives_.check();
    now_ = 1 - now_;
    return finish_step(steps_[now_]);
  }

  SyncTimes quiesce() override { return finish_step(steps_[1 - now_]); }

 private:
  struct Span {
    std::unique_ptr<Event> ready, begin, end;
    // If sent as bf16: the rounded values and their source.
    std::optional<std::pair<Tensor, Tensor>> rounded = {};
    int64_t bytes = 0;
  };
  struct Step {
    std::vector<Span> spans;
    size_t used = 0;
    int64_t traced = 0;  // its number in a trace; 0: in none
  };

  // Tables of which rows are exchanged.
  struct RowSum {
    RowSum(const SchemeParts& parts, const RangeSum& sum)
        : tables(parts.context.device(),
                 row_tables_of(parts, sum),
                 RowMessages::kOnDevice),
          ready(parts.context.device().make_event()) {}
    DeviceRows tables;
    std::unique_ptr<Event> ready;
    RangeSum sum;
    RowPlan plan;
    std::vector<Bytes> messages;  // by position
    Task task;
  };

  Span& next_span() {
    Device& device = parts_.context.device();
    Step& step = steps_[now_];
    if (step.used == step.spans.size())
      step.spans.push_back(
          {device.make_event(), device.make_event(), device.make_event()});
    WorkerTrace* const trace = parts_.endpoint.trace();
    step.traced = trace != nullptr && trace->is_on() ? trace->step() : 0;
    return step.spans[step.used++];
  }

  // A task agrees on what is sent and makes this worker's message.
  void start_rows(const RangeSum& sum) {
    RowSum& rows =
        row_sums_.try_emplace(sum.range.data() + sum.offset, parts_, sum)
            .first->second;
    rows.sum = sum;
    rows.tables.set_touched(sum.touched);
    rows.ready->record(parts_.context.stream());
    rows.task =
        parts_.endpoint.start(sum.name, [this, &rows](Endpoint& endpoint) {
          endpoint.wait_for(*rows.ready);
          const std::vector<int64_t> touched = rows.tables.find(endpoint);
          rows.plan = plan_rows(endpoint, ranks_, rows.tables.tables(), touched,
                                rows.sum.wire, rows.sum.tag, Traffic::kPayload);
          rows.messages.clear();
          for (int p = 0; p < ranks_.size(); ++p)
            rows.messages.push_back(
                rows.tables.message(p, rows.plan.message_bytes[p]));
          rows.tables.take(endpoint, ranks_.position,
                           rows.plan.parts[ranks_.position], rows.sum.wire);
        });
    rows_in_flight_.push_back(&rows);
  }

  // Messages come behind all sums of the step, on every worker.
  void finish_rows(RowSum& rows) {
    parts_.endpoint.join(rows.task);
    const Bytes own = rows.messages[group_.position];
    std::vector<Transfer> transfers;
    for (int p = 0; p < group_.size; ++p) {
      if (p == group_.position) continue;
      const Bytes theirs = rows.messages[p];
      transfers.push_back(
          {Transfer::Way::kReceive, p, theirs.data, theirs.bytes});
      transfers.push_back({Transfer::Way::kSend, p, own.data, own.bytes});
    }
    Span& span = next_span();
    span.rounded.reset();
    span.bytes = own.bytes;
    std::swap(span.ready, rows.ready);
    span.begin->record(collectives_.stream());
    collectives_.exchange(transfers, group_);
    span.end->record(collectives_.stream());
    parts_.endpoint.traffic().count(
        Traffic::kPayload, own.bytes * (group_.size - 1), group_.size - 1);
    rows.tables.wait_for(*span.end);
    rows.tables.add(rows.plan.parts, rows.sum.wire);
    for (size_t t = 0; t < rows.plan.is_sparse.size(); ++t)
      if (!rows.plan.is_sparse[t]) sum_whole(rows, t);
    rows.tables.make_wait(parts_.context.stream());
  }

  void sum_whole(RowSum& rows, size_t table) {
    const std::span<float> values = rows.tables.tables()[table].values;
    start({.name = rows.sum.name,
           .range = values,
           .elems = std::ssize(values),
           .wire = rows.sum.wire});
    rows.tables.mark(table);
  }

  // bf16 values of a range are at the same offset in memory of their own.
  Tensor rounded_of(const RangeSum& sum) {
    Buffer& memory = rounded_[sum.range.data()];
    if (memory.data() == nullptr)
      memory = Buffer(parts_.context.device(),
                      std::ssize(sum.range) * bytes_of(DType::kBf16));
    return make_tensor(memory.as<Bf16>() + sum.offset, DType::kBf16,
                       Shape{sum.elems});
  }

  SyncTimes finish_step(Step& step) {
    SyncTimes times;
    if (step.used == 0) return times;
    const Span& last = step.spans[step.used - 1];
    collectives_.wait(*last.end);
    double busy = 0;
    for (size_t i = 0; i < step.used; ++i)
      busy += step.spans[i].end->seconds_since(*step.spans[i].begin);
    // NCCL does not separate waiting for peers from sending.
    times.wait_s = std::numeric_limits<double>::quiet_NaN();
    // Backward ends when the last range is ready.
    times.exposed_s = std::max(0.0, last.end->seconds_since(*last.ready));
    times.overlapped_s = std::max(0.0, busy - times.exposed_s);
    if (step.traced > 0) record(step, times.exposed_s);
    step.used = 0;
    return times;
  }

  void record(const Step& step, double exposed_s) {
    WorkerTrace& trace = *parts_.endpoint.trace();
    if (!trace.has_reference()) return;
    for (size_t i = 0; i < step.used; ++i) {
      const Span& span = step.spans[i];
      trace.communication("all-reduce", step.traced, trace.time_of(*span.begin),
                          trace.time_of(*span.end), span.bytes);
    }
    const Time end = trace.time_of(*step.spans[step.used - 1].end);
    trace.wait("sums", step.traced, end - exposed_s, end);
  }

  SchemeParts parts_;
  DeviceCollectives& collectives_;
  Group ranks_;
  DeviceGroup group_;                    // the same ones, in the same order
  std::map<Ranks, DeviceGroup> groups_;  // prepared, by world ranks
  std::map<const float*, Buffer> rounded_;
  std::map<const float*, RowSum> row_sums_;  // by the tables' start
  std::vector<RowSum*> rows_in_flight_;
  Step steps_[2];  // this one and the previous one, alternating
  int now_ = 0;
};

}  // namespace

std::unique_ptr<Reducer> make_device_reducer(const SchemeParts& parts) {
  return std::make_unique<DeviceReducer>(parts);
}

}  // namespace syncopate
