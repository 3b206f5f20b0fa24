#include "sync/reducer.h"

#include <algorithm>
#include <deque>
#include <map>
#include <utility>
#include <vector>

#include "comm/mirror.h"
#include "comm/modelled_sums.h"
#include "comm/row_exchange.h"
#include "comm/tags.h"
#include "comm/trace.h"
#include "sync/busy_time.h"
#include "sync/device_reducer.h"
#include "sync/device_rows.h"
#include "sync/shared_sums.h"

namespace syncopate {
namespace {

// Each range in flight has its own receive memory, and workers of one process
// all begin before any can end.
constexpr size_t kAtOnce = ModelledSums::kAtOnce;

// Values that do not exist (device/device.h), of which only messages remain.
std::span<float> without_values(int64_t elems) {
  return {static_cast<float*>(syncopate::without_values()),
          static_cast<size_t>(elems)};
}

// Tables without values: the sizes of messages follow from the number of rows
// that the replica's gradients are said to touch.
class CountedRows final : public RowTables {
 public:
  // `first` is the index of the first of these among the model's tables.
  CountedRows(const GradientValues& gradients,
              std::vector<RowTable> tables,
              int64_t first)
      : RowTables(std::move(tables)), gradients_(gradients), first_(first) {}

  std::vector<int64_t> find(Endpoint&) override {
    const std::vector<int64_t>& all = gradients_.touched_rows();
    CHECK(std::ssize(all) >= first_ + std::ssize(tables()));
    return {all.begin() + first_, all.begin() + first_ + std::ssize(tables())};
  }
  Bytes message(int, int64_t bytes) override {
    return {without_values(0).data(), bytes};
  }
  void take(Endpoint&, int, const RowParts&, Wire) override {}
  void add(std::span<const RowParts>, Wire) override {}
  std::span<float> whole(Endpoint&, size_t table) override {
    return tables()[table].values;
  }
  void put_whole(size_t) override {}

 private:
  const GradientValues& gradients_;
  int64_t first_;
};

// Returns how many embedding tables of the model are before a sum's.
int64_t tables_before(const SchemeParts& parts, const RangeSum& sum) {
  const float* const gradients = parts.replica.gradients.marked().data();
  const int64_t begin = sum.range.data() + sum.offset - gradients;
  return std::ranges::count_if(
      parts.model.parameters().entries(), [&](const ParameterEntry& entry) {
        return entry.role == Role::kEmbedding && entry.offset < begin;
      });
}

// Runs tasks concurrently with the worker; ranges on a GPU go through a mirror,
// unless they are tables or all workers share it. Their sums are then formed on
// the GPU, and tasks exchange messages without values, for the time that these
// take.
class HostReducer final : public Reducer {
 public:
  explicit HostReducer(const SchemeParts& parts)
      : parts_(parts),
        group_(parts.endpoint.world_group()),
        algorithm_(parts.sync.collective),
        at_once_(algorithm_ == CollectiveAlgorithm::kNative ? 1 : kAtOnce) {}

  void over(const Group& group) override {
    CHECK(in_flight_.empty() && !arrival_);
    group_ = group;
  }

  // Starts a task that sums the range on the host.
  void start(const RangeSum& sum) override {
    if (in_flight_.empty()) has_gradients_at_ = 0;
    const size_t index = in_flight_.size();
    if (index == ready_.size())
      ready_.push_back(parts_.context.device().make_event());
    if (index == task_times_.size()) task_times_.emplace_back();
    ready_[index]->record(parts_.context.stream());
    RowTables* const rows = sum.is_tables ? &rows_of(sum) : nullptr;
    Mirror* const mirror =
        sum.is_tables || brings_to_shared(sum) ? nullptr : &mirror_of(sum);
    const Task before =
        index < at_once_ ? nullptr : in_flight_[index - at_once_];
    in_flight_.push_back(parts_.endpoint.start(
        sum.name, [this, rows, mirror, &ready = *ready_[index], before, sum,
                   &times = task_times_[index]](Endpoint& endpoint) {
          // Only then, because what follows the wait is communication.
          if (rows != nullptr || mirror != nullptr) endpoint.wait_for(ready);
          has_gradients_at_ = std::max(has_gradients_at_, endpoint.now());
          if (before) endpoint.join(before);
          if (mirror != nullptr)
            mirror->pull(endpoint, sum.offset, sum.elems, ready);
          times.first = endpoint.now();
          if (rows != nullptr)
            all_reduce_rows(endpoint, group_, *rows, sum.wire, sum.tag,
                            Traffic::kPayload);
          else
            all_reduce_sum(endpoint, group_,
                           mirror != nullptr
                               ? mirror->host(sum.offset, sum.elems)
                               : without_values(sum.elems),
                           algorithm_, sum.wire, sum.tag, Traffic::kPayload);
          times.second = endpoint.now();
          if (mirror != nullptr) mirror->push(sum.offset, sum.elems);
        }));
  }

  // Separates waiting for peers from the time that messages take: a concurrent
  // barrier ends once all workers have their gradients.
  void close() override {
    arrival_ = parts_.endpoint.start("arrival", [this](Endpoint& endpoint) {
      barrier(endpoint, group_, tags::kArrival);
      all_arrived_at_ = endpoint.now();
    });
  }

  SyncTimes finish() override {
    const Time entered = parts_.endpoint.now();
    // Each task has joined the one that was at_once_ before it.
    for (size_t i = in_flight_.size() - std::min(in_flight_.size(), at_once_);
         i < in_flight_.size(); ++i)
      parts_.endpoint.join(in_flight_[i]);
    SyncTimes times = blocked_since(entered, has_gradients_at_, parts_.context,
                                    parts_.endpoint, "sums");
    const Time begin = entered + times.device_s;
    if (arrival_) {
      parts_.endpoint.join(arrival_);
      times.wait_s = std::clamp(all_arrived_at_ - begin, 0.0, times.exposed_s);
      arrival_ = nullptr;
    }
    times.overlapped_s =
        busy_before(task_times_.begin(),
                    task_times_.begin() + std::ssize(in_flight_), begin);
    if (!in_flight_.empty()) {
      for (auto& [key, mirror] : mirrors_)
        mirror->make_wait(parts_.context.stream());
      for (auto& [key, rows] : rows_) rows->make_wait(parts_.context.stream());
    }
    in_flight_.clear();
    return times;
  }

  SyncTimes quiesce() override {
    CHECK(in_flight_.empty());
    return {};
  }

 private:
  // Whether this worker's part is now on its way into a sum on the GPU, which
  // all members find the same.
  bool brings_to_shared(const RangeSum& sum) {
    // A server on a machine of its own also receives the first member's values
    // as the wire rounds them.
    const bool is_apart = algorithm_ == CollectiveAlgorithm::kParameterServer &&
                          parts_.endpoint.has_servers_apart();
    if (parts_.shared_sums == nullptr || is_apart ||
        !SharedSums::forms(algorithm_, group_.size()))
      return false;
    parts_.shared_sums->enter(parts_.context, group_, sum.tag,
                              sum.range.subspan(sum.offset, sum.elems),
                              algorithm_, sum.wire);
    return true;
  }

  RowTables& rows_of(const RangeSum& sum) {
    Device& device = parts_.context.device();
    std::unique_ptr<RowTables>& rows = rows_[sum.range.data() + sum.offset];
    if (!rows && device.kind() == DeviceKind::kNone)
      rows = std::make_unique<CountedRows>(parts_.replica.gradients,
                                           row_tables_of(parts_, sum),
                                           tables_before(parts_, sum));
    else if (!rows && device.kind() == DeviceKind::kCuda)
      rows = std::make_unique<DeviceRows>(
          device, row_tables_of(parts_, sum),
          sends_from_device(device, parts_.endpoint) ? RowMessages::kOnDevice
                                                     : RowMessages::kOnHost);
    else if (!rows)
      rows = std::make_unique<HostRows>(row_tables_of(parts_, sum));
    rows->set_touched(sum.touched);
    return *rows;
  }

  // The host adds, unless MPI does.
  Mirror& mirror_of(const RangeSum& sum) {
    std::unique_ptr<Mirror>& mirror = mirrors_[sum.range.data()];
    if (!mirror)
      mirror =
          std::make_unique<Mirror>(parts_.context.device(), sum.range,
                                   algorithm_ == CollectiveAlgorithm::kNative &&
                                           parts_.endpoint.sums_device_memory()
                                       ? &parts_.endpoint
                                       : nullptr);
    return *mirror;
  }

  SchemeParts parts_;
  Group group_;
  CollectiveAlgorithm algorithm_;
  // Native collectives of MPI have no tags, so all workers have to begin them
  // in the same order. Ranges may arrive from a GPU in another one, and of
  // several sums at once a worker may complete any first and begin the next.
  size_t at_once_;
  // By the range's start.
  std::map<const float*, std::unique_ptr<Mirror>> mirrors_;
  // By the tables' start.
  std::map<const float*, std::unique_ptr<RowTables>> rows_;
  // By position in in_flight_: when the range was ready on the device.
  std::vector<std::unique_ptr<Event>> ready_;
  std::vector<Task> in_flight_;
  // Begin and end, by position in in_flight_; written by the tasks, read after
  // they were joined. Does not move what tasks write to when it grows.
  std::deque<std::pair<Time, Time>> task_times_;
  Time has_gradients_at_ = 0;  // when the device had finished the last range
  Task arrival_;
  Time all_arrived_at_ = 0;
};

// For ranges without values: computes only how long sums take.
class ModelledReducer final : public Reducer {
 public:
  explicit ModelledReducer(const SchemeParts& parts)
      : endpoint_(parts.endpoint),
        sums_(*parts.endpoint.modelled_sums()),
        group_(parts.endpoint.world_group()),
        algorithm_(parts.sync.collective) {}

  void over(const Group& group) override { group_ = group; }

  void start(const RangeSum& sum) override {
    CHECK(!sum.is_tables);
    bytes_ += wire_bytes(sum.wire, sum.elems);
    sums_.enter(group_, endpoint_.now(), sum.elems, algorithm_, sum.wire,
                Traffic::kPayload);
  }

  void close() override {}

  SyncTimes finish() override {
    const Time entered = endpoint_.now();
    const ModelledSums::Times sums = sums_.finish();
    SyncTimes times = waited_since(entered, endpoint_, "sums");
    times.wait_s =
        std::clamp(sums.last_entered_at - entered, 0.0, times.exposed_s);
    intervals_.assign(sums.intervals.begin(), sums.intervals.end());
    record();
    times.overlapped_s =
        busy_before(intervals_.begin(), intervals_.end(), entered);
    return times;
  }

  SyncTimes quiesce() override { return {}; }

 private:
  // Sums that overlap or follow each other at once are one slice.
  void record() {
    const int64_t bytes = std::exchange(bytes_, 0);
    WorkerTrace* const trace = endpoint_.trace();
    if (trace == nullptr || !trace->is_on()) return;
    for (const auto& [begin, end] : intervals_)
      trace->communication("all-reduce", trace->step(), begin, end,
                           bytes / std::ssize(intervals_));
  }

  Endpoint& endpoint_;
  ModelledSums& sums_;
  Group group_;
  CollectiveAlgorithm algorithm_;
  int64_t bytes_ = 0;  // of the sums since the last finish()
  std::vector<std::pair<Time, Time>> intervals_;
};

}  // namespace

std::vector<RowTable> row_tables_of(const SchemeParts& parts,
                                    const RangeSum& sum) {
  const std::span<float> values = sum.range.subspan(sum.offset, sum.elems);
  const float* const gradients = parts.replica.gradients.marked().data();
  std::vector<RowTable> tables;
  int64_t covered = 0;
  for (const ParameterEntry& entry : parts.model.parameters().entries()) {
    const int64_t begin = gradients + entry.offset - values.data();
    if (begin < 0 || begin >= std::ssize(values)) continue;
    CHECK(entry.role == Role::kEmbedding && entry.shape.rank() == 2);
    tables.push_back({values.subspan(static_cast<size_t>(begin),
                                     static_cast<size_t>(entry.elems())),
                      entry.shape[1]});
    covered += entry.elems();
  }
  CHECK(covered == std::ssize(values));
  return tables;
}

std::unique_ptr<Reducer> make_reducer(const SchemeParts& parts) {
  if (parts.collectives != nullptr) return make_device_reducer(parts);
  ModelledSums* const sums = parts.endpoint.modelled_sums();
  if (sums != nullptr && sums->knows(parts.sync.collective) &&
      !has_values(parts.replica.parameters.data()))
    return std::make_unique<ModelledReducer>(parts);
  return std::make_unique<HostReducer>(parts);
}

}  // namespace syncopate
