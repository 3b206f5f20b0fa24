#include "sync/shard_exchange.h"

#include <algorithm>

#include "comm/tags.h"
#include "ops/elementwise.h"

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
      gradients_(parts.context.device(),
                 parts.replica.gradients,
                 messages_of(parts)),
      parameters_(parts.context.device(),
                  parts.replica.parameters.write(),
                  messages_of(parts)),
      ready_(parts.context.device().make_event()),
      pulls_(num_shards_) {
  if (parts.sync.asp.batchnorm == ServerStatistics::kShared &&
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

void ShardExchange::start(double rate, double momentum) {
  CHECK(!task_);
  if (rounded_push_.data() != nullptr) {
    const Replica& mine = parts_.replica;
    const Shape shape{mine.gradients.size()};
    reorder(parts_.context,
            make_tensor(rounded_push_.data(), DType::kBf16, shape),
            make_const_tensor(std::span<const float>(mine.gradients).data(),
                              DType::kF32, shape));
  }
  ready_->record(parts_.context.stream());
  const PushHeader push{
      .is_at_boundary = 0, .rate = rate, .momentum = momentum};
  has_header_ = push != push_;
  push_ = push;
  task_ = parts_.endpoint.start("push and pull",
                                [this](Endpoint& endpoint) { run(endpoint); });
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

void ShardExchange::receive(Endpoint& endpoint) {
  receives_.clear();
  for (int shard = 0; shard < num_shards_; ++shard) {
    if (has_pull_header(shard, bound_))
      receives_.push_back(endpoint.irecv({&pulls_[shard], sizeof pulls_[shard]},
                                         shard, tags::kServerAnswer));
    receives_.push_back(
        endpoint.irecv(on_wire(packed_pull_, rounded_pull_, parameters_, shard),
                       shard, tags::kServerAnswer + 1));
    const Slice part = statistics_slice(shard);
    if (part.elems > 0)
      receives_.push_back(
          endpoint.irecv(bytes_span(statistics_->host(part.offset, part.elems)),
                         shard, tags::kServerAnswer + 2));
  }
}

void ShardExchange::send(Endpoint& endpoint, int shard) {
  const Slice part = slice(shard);
  gradients_.pull(endpoint, part.offset, part.elems, *ready_);
  has_gradients_at_ = endpoint.now();
  const Bytes gradient =
      on_wire(packed_push_, rounded_push_, gradients_, shard);
  if (host_rounds())
    pack_bf16(packed_push_.data() + part.offset,
              gradients_.host(part.offset, part.elems).data(), part.elems);
  if (has_header_)
    sends_.push_back(endpoint.isend({&push_, sizeof push_}, shard,
                                    tags::kServer, Traffic::kControl));
  sends_.push_back(endpoint.isend({gradient.data, gradient.bytes}, shard,
                                  tags::kServer + 1, Traffic::kPayload));
  const Slice statistics = statistics_slice(shard);
  if (statistics.elems > 0)
    sends_.push_back(
        endpoint.isend({pushed_statistics_.data() + statistics.offset,
                        statistics.elems * int64_t{sizeof(float)}},
                       shard, tags::kServer + 2, Traffic::kPayload));
}

// Begins with the local shard, so that not all workers are at the same one.
void ShardExchange::run(Endpoint& endpoint) {
  if (statistics_) {
    statistics_->pull(endpoint, 0, num_statistics_, *ready_);
    copy_values(pushed_statistics_.data(),
                statistics_->host(0, num_statistics_).data(), num_statistics_);
  }
  parameters_.open(endpoint, *ready_);
  receive(endpoint);
  sends_.clear();
  for (int i = 0; i < num_shards_; ++i)
    send(endpoint, (endpoint.rank() + i) % num_shards_);
  size_t receive = 0;
  for (int shard = 0; shard < num_shards_; ++shard) {
    const Slice part = slice(shard);
    if (has_pull_header(shard, bound_)) endpoint.wait(receives_[receive++]);
    endpoint.wait(receives_[receive++]);
    if (host_rounds())
      unpack_bf16(parameters_.host(part.offset, part.elems).data(),
                  packed_pull_.data() + part.offset, part.elems);
    parameters_.push(part.offset, part.elems);
    const Slice statistics = statistics_slice(shard);
    if (statistics.elems == 0) continue;
    endpoint.wait(receives_[receive++]);
    statistics_->push(statistics.offset, statistics.elems);
  }
  for (const Request& send : sends_) endpoint.wait(send);
}

SyncTimes ShardExchange::finish() {
  Endpoint& endpoint = parts_.endpoint;
  const Time entered = endpoint.now();
  endpoint.join(task_);
  task_ = nullptr;
  parameters_.make_wait(parts_.context.stream());
  const std::span<float> parameters = parts_.replica.parameters.write();
  if (rounded_pull_.data() != nullptr) {
    const Shape shape{std::ssize(parameters)};
    reorder(parts_.context, make_tensor(parameters.data(), DType::kF32, shape),
            make_const_tensor(rounded_pull_.data(), DType::kBf16, shape));
  }
  if (statistics_) statistics_->make_wait(parts_.context.stream());
  double held_s = 0;
  for (const PullHeader& pull : pulls_) held_s = std::max(held_s, pull.held_s);
  SyncTimes times = blocked_since(entered, has_gradients_at_, parts_.context,
                                  endpoint, "parameter servers");
  times.wait_s = std::min(held_s, times.exposed_s);
  return times;
}

void ShardExchange::tell_boundary() {
  CHECK(!task_);
  push_ = {.is_at_boundary = 1};
  Endpoint& endpoint = parts_.endpoint;
  for (int shard = 0; shard < num_shards_; ++shard)
    endpoint.wait(endpoint.isend({&push_, sizeof push_}, shard, tags::kServer,
                                 Traffic::kControl));
}

void ShardExchange::gather(std::span<float> range, std::span<const float> own) {
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
                tags::kCollective, Traffic::kControl);
    }
  });
}

void ShardExchange::gather_replica(const ParameterShard* shard) {
  const auto gather_on_host = [this](std::span<float> range,
                                     std::span<const float> own) {
    OnHost host(parts_.context.device(), parts_.context.stream(), range);
    gather(host.values(), own);
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
