#include "sync/shard_exchange.h"

#include <algorithm>
#include <utility>

#include "comm/tags.h"
#include "ops/elementwise.h"
#include "sync/busy_time.h"

namespace syncopate {

int num_shards(const SyncOptions& sync, int workers, int64_t elems) {
  const int64_t wanted = sync.asp.servers > 0 ? sync.asp.servers : workers;
  return static_cast<int>(std::min(wanted, elems));
}

namespace {

// The endpoint that sends ranges straight from the device, or null if the host
// rounds them to bf16 first.
const Endpoint* messages_of(const SchemeParts& parts) {
  const bool rounds =
      parts.sync.wire == Wire::kBf16 &&
      !sends_from_device(parts.context.device(), parts.endpoint);
  return rounds ? nullptr : &parts.endpoint;
}

}  // namespace

ShardExchange::ShardExchange(const SchemeParts& parts, int64_t bound)
    : parts_(parts),
      world_(parts.endpoint.world_group()),
      wire_(parts.sync.wire),
      bound_(bound),
      num_shards_(syncopate::num_shards(parts.sync,
                                        parts.endpoint.size(),
                                        parts.replica.parameters.size())),
      has_requests_(parts.sync.asp.pull == Pulling::kBeforeStep),
      has_tasks_(!parts.endpoint.has_virtual_time()),
      gradients_(parts.context.device(),
                 parts.replica.gradients,
                 messages_of(parts)),
      parameters_(parts.context.device(),
                  parts.replica.parameters.write(),
                  messages_of(parts)),
      shards_(num_shards_) {
  num_unpushed_ = num_shards_;
  await_wave();
  if (parts.sync.asp.batchnorm != ServerStatistics::kLocal &&
      !parts.replica.buffers.empty()) {
    statistics_.emplace(parts.context.device(), parts.replica.buffers);
    num_statistics_ = parts.replica.buffers.size();
    pushed_statistics_.grow(num_statistics_, parts.replica.buffers.data());
  }
  if (wire_ == Wire::kF32) return;
  const ParameterValues& parameters = parts.replica.parameters;
  Device& device = parts.context.device();
  if (sends_from_device(device, parts.endpoint)) {
    for (Buffer* rounded : {&rounded_push_, &rounded_pull_})
      *rounded = Buffer(device, parameters.size() * bytes_of(DType::kBf16));
    return;
  }
  packed_push_.grow(parameters.size(), parameters.data());
  packed_pull_.grow(parameters.size(), parameters.data());
}

Slice ShardExchange::part(int64_t elems, int shard) const {
  const int64_t begin = elems * shard / num_shards_;
  return {begin, elems * (shard + 1) / num_shards_ - begin};
}

Slice ShardExchange::slice(int shard) const {
  return part(parts_.replica.parameters.size(), shard);
}

Slice ShardExchange::statistics_slice(int shard) const {
  return part(num_statistics_, shard);
}

// Every wave costs a task, and a switch between workers in virtual time.
void ShardExchange::await_wave() {
  constexpr int kMaxWaves = 8;
  const int shards = (num_shards_ + kMaxWaves - 1) / kMaxWaves;
  due_from_ = slice(std::max(0, num_unpushed_ - shards)).offset;
}

ShardExchange::Wave& ShardExchange::add_wave(int first, int last) {
  if (num_waves_ == waves_.size())
    waves_.emplace_back().ready = parts_.context.device().make_event();
  Wave& wave = waves_[num_waves_++];
  wave.first = first;
  wave.last = last;
  return wave;
}

void ShardExchange::push_from(int64_t from, const StepPlan& plan) {
  if (from > due_from_ || num_unpushed_ == 0) return;
  if (num_waves_ == 0) {
    const PushHeader push{.rate = plan.rate, .momentum = plan.momentum};
    has_header_ = push != std::exchange(push_, push);
  }
  int first = num_unpushed_;
  while (first > 0 && slice(first - 1).offset >= from) --first;
  Wave& wave = add_wave(first, std::exchange(num_unpushed_, first));
  wave.pushes = true;
  wave.pulls = !has_requests_;
  await_wave();
  if (rounded_push_.data() != nullptr) round_gradients(wave);
  start(wave);
}

void ShardExchange::request_pull() {
  CHECK(has_requests_);
  Wave& wave = add_wave(0, num_shards_);
  wave.pushes = false;
  wave.pulls = true;
  start(wave);
}

void ShardExchange::start(Wave& wave) {
  Endpoint& endpoint = parts_.endpoint;
  wave.ready->record(parts_.context.stream());
  const char* name = !wave.pulls   ? "push"
                     : wave.pushes ? "push and pull"
                                   : "pull";
  if (!has_tasks_) {
    wave.slice = endpoint.slice(name);
    return submit(endpoint_of(wave), wave);
  }
  wave.task = endpoint.start(name, [this, &wave](Endpoint& own) {
    submit(own, wave);
    complete(own, wave);
  });
}

// On the device.
void ShardExchange::round_gradients(const Wave& wave) {
  const int64_t begin = slice(wave.first).offset;
  const Slice last = slice(wave.last - 1);
  const int64_t elems = last.offset + last.elems - begin;
  const std::span<const float> gradients = parts_.replica.gradients;
  reorder(
      parts_.context,
      make_tensor(rounded_push_.as<uint16_t>() + begin, DType::kBf16,
                  Shape{elems}),
      make_const_tensor(gradients.data() + begin, DType::kF32, Shape{elems}));
}

Bytes ShardExchange::on_wire(Scratch<uint16_t>& packed,
                             const Buffer& rounded,
                             Mirror& mirror,
                             int shard) {
  const Slice part = slice(shard);
  void* data = mirror.host(part.offset, part.elems).data();
  if (wire_ == Wire::kBf16)
    data =
        (host_rounds() ? packed.data() : rounded.as<uint16_t>()) + part.offset;
  return {data, wire_bytes(wire_, part.elems)};
}

void ShardExchange::post_receives(Endpoint& endpoint, int shard) {
  const int server = endpoint.server_rank(shard);
  PullHeader& pull = shards_[shard].pull;
  std::array<Request, 3>& receives = shards_[shard].receives;
  if (has_pull_header(shard, bound_))
    receives[0] =
        endpoint.irecv({&pull, sizeof pull}, server, tags::kServerAnswer);
  receives[1] =
      endpoint.irecv(on_wire(packed_pull_, rounded_pull_, parameters_, shard),
                     server, tags::kServerAnswer + 1);
  const Slice part = statistics_slice(shard);
  if (part.elems > 0)
    receives[2] =
        endpoint.irecv(bytes_span(statistics_->host(part.offset, part.elems)),
                       server, tags::kServerAnswer + 2);
}

void ShardExchange::send(Endpoint& endpoint, Wave& wave, int shard) {
  const Slice part = slice(shard);
  gradients_.pull(endpoint, part.offset, part.elems, *wave.ready);
  wave.busy.first = endpoint.now();
  const Bytes gradient =
      on_wire(packed_push_, rounded_push_, gradients_, shard);
  if (host_rounds())
    pack_bf16(packed_push_.data() + part.offset,
              gradients_.host(part.offset, part.elems).data(), part.elems);
  const int server = endpoint.server_rank(shard);
  std::array<Request, 3>& sends = shards_[shard].sends;
  if (has_header_)
    sends[0] = endpoint.isend({&push_, sizeof push_}, server, tags::kServer,
                              Traffic::kControl);
  sends[1] = endpoint.isend({gradient.data, gradient.bytes}, server,
                            tags::kServer + 1, Traffic::kPayload);
  const Slice statistics = statistics_slice(shard);
  if (statistics.elems > 0)
    sends[2] = endpoint.isend({pushed_statistics_.data() + statistics.offset,
                               statistics.elems * int64_t{sizeof(float)}},
                              server, tags::kServer + 2, Traffic::kPayload);
}

void ShardExchange::request(Endpoint& endpoint, int shard) {
  shards_[shard].request = endpoint.isend({}, endpoint.server_rank(shard),
                                          tags::kServerPull, Traffic::kPayload);
}

void ShardExchange::submit(Endpoint& endpoint, Wave& wave) {
  if (wave.pulls) parameters_.open(endpoint, *wave.ready);
  if (!wave.pushes) wave.busy.first = endpoint.now();
  for (int shard = wave.first; shard < wave.last; ++shard) {
    const Slice part = statistics_slice(shard);
    if (wave.pushes && part.elems > 0) {
      statistics_->pull(endpoint, part.offset, part.elems, *wave.ready);
      copy_values(pushed_statistics_.data() + part.offset,
                  statistics_->host(part.offset, part.elems).data(),
                  part.elems);
    }
    if (wave.pulls) post_receives(endpoint, shard);
  }
  // Not all workers begin with the same shard.
  const int num_here = wave.last - wave.first;
  for (int i = 0; i < num_here; ++i) {
    const int shard = wave.first + (endpoint.rank() + i) % num_here;
    if (wave.pushes)
      send(endpoint, wave, shard);
    else
      request(endpoint, shard);
  }
}

void ShardExchange::complete(Endpoint& endpoint, Wave& wave) {
  const auto wait = [&](Request& request) {
    if (request == nullptr) return;
    const Time completed_at = endpoint.wait(std::exchange(request, nullptr));
    wave.busy.second = std::max(wave.busy.second, completed_at);
  };
  for (int shard = wave.first; wave.pulls && shard < wave.last; ++shard) {
    std::ranges::for_each(shards_[shard].receives, wait);
    const Slice part = slice(shard);
    if (host_rounds())
      unpack_bf16(parameters_.host(part.offset, part.elems).data(),
                  packed_pull_.data() + part.offset, part.elems);
    parameters_.push(part.offset, part.elems);
    if (const Slice statistics = statistics_slice(shard); statistics.elems > 0)
      statistics_->push(statistics.offset, statistics.elems);
  }
  for (int shard = wave.first; shard < wave.last; ++shard)
    if (wave.pushes)
      std::ranges::for_each(shards_[shard].sends, wait);
    else
      wait(shards_[shard].request);
}

SyncTimes ShardExchange::finish() {
  Endpoint& endpoint = parts_.endpoint;
  const Time entered = endpoint.now();
  // A requested pull may come without a push.
  CHECK(num_unpushed_ == 0 || (has_requests_ && num_unpushed_ == num_shards_));
  Time has_gradients_at = 0;
  busy_.clear();
  for (size_t i = 0; i < num_waves_; ++i) {
    Wave& wave = waves_[i];
    if (wave.task)
      endpoint.join(std::exchange(wave.task, nullptr));
    else
      complete(endpoint_of(wave), wave);
    wave.slice.reset();
    busy_.push_back(std::exchange(wave.busy, {}));
    has_gradients_at = std::max(has_gradients_at, busy_.back().first);
  }
  num_waves_ = 0;
  num_unpushed_ = num_shards_;
  await_wave();
  parameters_.make_wait(parts_.context.stream());
  const std::span<float> parameters = parts_.replica.parameters.write();
  if (rounded_pull_.data() != nullptr) {
    const Shape shape{std::ssize(parameters)};
    reorder(parts_.context, make_tensor(parameters.data(), DType::kF32, shape),
            make_const_tensor(rounded_pull_.data(), DType::kBf16, shape));
  }
  if (statistics_) statistics_->make_wait(parts_.context.stream());
  double held_s = 0;
  for (const Shard& shard : shards_)
    held_s = std::max(held_s, shard.pull.held_s);
  SyncTimes times = blocked_since(entered, has_gradients_at, parts_.context,
                                  endpoint, "parameter servers");
  times.overlapped_s =
      busy_before(busy_.begin(), busy_.end(), entered + times.device_s);
  times.wait_s = std::min(held_s, times.exposed_s);
  return times;
}

void ShardExchange::tell_boundary() {
  CHECK(!is_in_flight());
  push_ = {.is_at_boundary = 1};
  Endpoint& endpoint = parts_.endpoint;
  for (int shard = 0; shard < num_shards_; ++shard)
    endpoint.wait(endpoint.isend({&push_, sizeof push_},
                                 endpoint.server_rank(shard), tags::kServer,
                                 Traffic::kControl));
}

void ShardExchange::gather(std::span<float> range,
                           std::span<const float> own,
                           Traffic kind) {
  const int64_t elems = std::ssize(range);
  if (!own.empty())
    copy_values(range.data() + part(elems, parts_.endpoint.rank()).offset,
                own.data(), std::ssize(own));
  parts_.endpoint.perform([&](Endpoint& endpoint) {
    for (int shard = 0; shard < num_shards_; ++shard) {
      const Slice from = part(elems, shard);
      if (from.elems == 0) continue;
      broadcast(endpoint, world_,
                bytes_span(range.subspan(from.offset, from.elems)), shard,
                tags::kCollective, kind);
    }
  });
}

void ShardExchange::gather_replica(const ParameterShard* shard, Traffic kind) {
  const auto gather_on_host = [this, kind](std::span<float> range,
                                           std::span<const float> own) {
    OnHost host(parts_.context.device(), parts_.context.stream(), range);
    gather(host.values(), own, kind);
    host.put_back();
  };
  using Values = std::span<const float>;
  gather_on_host(parts_.replica.parameters.write(),
                 shard != nullptr ? shard->values() : Values());
  if (statistics_)
    gather_on_host(parts_.replica.buffers,
                   shard != nullptr ? shard->statistics() : Values());
}

}  // namespace syncopate
