// Every communicator is non-blocking: a call that needs its peers returns at
// once with ncclInProgress and is polled until done, so waiting for an
// unresponsive peer times out here instead of hanging inside the library.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <exception>
#include <mutex>
#include <thread>

#include "base/check.h"
#include "base/clock.h"
#include "comm/device_collectives.h"
#include "comm/nccl/communicator.h"
#include "comm/nccl/nccl_functions.h"
#include "device/cuda/cuda_stream.h"
#include "watch/activity.h"

namespace syncopate {
namespace {

constexpr int kOldestVersion = 21800;  // 2.18 introduced ncclCommSplit

// Limits how long the end of a run waits for ranks that are missing.
constexpr double kFinalizeLimitS = 10;

std::atomic<bool> is_there_one{false};

std::string version_text(int code) {
  return fmt::format("{}.{}.{}", code / 10000, code / 100 % 100, code % 100);
}

const NcclFunctions& usable_functions() {
  const std::string reason = nccl_missing();
  if (!reason.empty()) fail(ExitCode::kBadInput, "NCCL: {}", reason);
  return nccl_functions();
}

ncclConfig_t non_blocking() {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  return config;
}

ncclDataType_t type_of(Wire wire) {
  return wire == Wire::kF32 ? ncclFloat32 : ncclBfloat16;
}

// A wait for other ranks, which usually takes microseconds: polls ever more
// slowly, and tells the watchdog that this rank is not the one that hangs.
class Backoff {
 public:
  explicit Backoff(double limit_s)
      : started_s_(monotonic_s()), limit_s_(limit_s) {
    activity().wait_begins();
  }
  ~Backoff() { activity().wait_ends(); }
  Backoff(const Backoff&) = delete;
  Backoff& operator=(const Backoff&) = delete;
  bool is_late() const { return monotonic_s() - started_s_ > limit_s_; }
  void pause() const {
    constexpr double kEagerS = 2e-3;
    if (monotonic_s() - started_s_ < kEagerS)
      std::this_thread::yield();
    else
      std::this_thread::sleep_for(std::chrono::microseconds(50));
  }

 private:
  double started_s_, limit_s_;
};

class NcclCollectives final : public DeviceCollectives {
 public:
  NcclCollectives(Device& device, int rank, int size, double limit_s)
      : nccl_(usable_functions()),
        device_(device),
        limit_s_(limit_s),
        stream_(device.make_stream()),
        world_{0, size, rank} {
    const bool is_only_one = !is_there_one.exchange(true);
    CHECK_MSG(is_only_one,
              "a second NcclCollectives in one process: two launch paths wait "
              "for each other");
  }

  ~NcclCollectives() override {
    try {
      if (std::uncaught_exceptions() == 0) close();
    } catch (const Error&) {
      // It has already aborted, so no peer needs to be notified.
    }
    abort();
    is_there_one.store(false);
  }

  void connect(std::span<const std::byte> id) {
    ncclUniqueId unique_id;
    CHECK(id.size() == sizeof unique_id);
    std::memcpy(&unique_id, id.data(), sizeof unique_id);
    cuda_stream(*stream_);  // makes its device current for this thread
    ncclConfig_t config = non_blocking();
    const SharedCommunicator added = add();
    ncclResult_t result = ncclSuccess;
    {
      const std::lock_guard lock(mutex_);
      result = nccl_.comm_init_rank_config(&added->handle, world_.size,
                                           unique_id, world_.position, &config);
    }
    await_call(*added, "first contact", result);
    warm_up(world_);
  }

  std::string library() const override { return nccl_name(); }
  Stream& stream() override { return *stream_; }
  DeviceGroup world() const override { return world_; }

  DeviceGroup split(int color, int key) override {
    Communicator& all = *find(world_);
    cuda_stream(*stream_);
    ncclConfig_t config = non_blocking();
    const SharedCommunicator added = add();
    ncclResult_t result = ncclSuccess;
    {
      const std::lock_guard lock(mutex_);
      check_alive();
      result =
          nccl_.comm_split(all.handle, color < 0 ? NCCL_SPLIT_NOCOLOR : color,
                           key, &added->handle, &config);
    }
    // Also after ncclSuccess: the split may only have been queued.
    await_call(all, "split", is_bad(result) ? result : ncclInProgress);
    if (color < 0) return {};
    await_call(*added, "split", ncclInProgress, limit_s_, &all);
    DeviceGroup group;
    {
      const std::lock_guard lock(mutex_);
      check_alive();
      group.communicator = static_cast<int>(communicators_.size()) - 1;
      require(nccl_.comm_count(added->handle, &group.size));
      require(nccl_.comm_user_rank(added->handle, &group.position));
    }
    warm_up(group);
    return group;
  }

  using DeviceCollectives::all_reduce_sum;
  void all_reduce_sum(void* values,
                      int64_t elems,
                      Wire wire,
                      const DeviceGroup& group) override {
    launch(group, "all_reduce", elems, [&](ncclComm_t handle, auto stream) {
      return nccl_.all_reduce(values, values, static_cast<size_t>(elems),
                              type_of(wire), ncclSum, handle, stream);
    });
  }

  void reduce_scatter_sum(void* part,
                          const void* values,
                          int64_t part_elems,
                          Wire wire,
                          const DeviceGroup& group) override {
    launch(group, "reduce_scatter", part_elems,
           [&](ncclComm_t handle, auto stream) {
             return nccl_.reduce_scatter(
                 values, part, static_cast<size_t>(part_elems), type_of(wire),
                 ncclSum, handle, stream);
           });
  }

  void all_gather(void* values,
                  const void* part,
                  int64_t part_bytes,
                  const DeviceGroup& group) override {
    launch(
        group, "all_gather", part_bytes, [&](ncclComm_t handle, auto stream) {
          return nccl_.all_gather(part, values, static_cast<size_t>(part_bytes),
                                  ncclUint8, handle, stream);
        });
  }

  void broadcast(void* data,
                 int64_t bytes,
                 int root,
                 const DeviceGroup& group) override {
    CHECK_MSG(root >= 0 && root < group.size, "root {} of {}", root,
              group.size);
    launch(group, "broadcast", bytes, [&](ncclComm_t handle, auto stream) {
      return nccl_.broadcast(data, data, static_cast<size_t>(bytes), ncclUint8,
                             root, handle, stream);
    });
  }

  void exchange(std::span<const Transfer> transfers,
                const DeviceGroup& group) override {
    int64_t bytes = 0;
    for (const Transfer& transfer : transfers) {
      CHECK_MSG(transfer.peer >= 0 && transfer.peer < group.size,
                "peer {} of {}", transfer.peer, group.size);
      CHECK(transfer.bytes >= 0);
      bytes += transfer.bytes;
    }
    launch(group, "exchange", bytes, [&](ncclComm_t handle, auto stream) {
      ncclResult_t first = nccl_.group_start();
      for (const Transfer& transfer : transfers) {
        if (transfer.bytes == 0 || is_bad(first)) continue;
        const auto count = static_cast<size_t>(transfer.bytes);
        first = transfer.way == Transfer::Way::kSend
                    ? nccl_.send(transfer.data, count, ncclUint8, transfer.peer,
                                 handle, stream)
                    : nccl_.recv(transfer.data, count, ncclUint8, transfer.peer,
                                 handle, stream);
      }
      const ncclResult_t last = nccl_.group_end();
      return is_bad(first) ? first : last;
    });
  }

  void check() override {
    ncclResult_t result = ncclSuccess;
    ncclComm_t culprit = nullptr;
    std::string line;
    {
      const std::lock_guard lock(mutex_);
      check_alive();
      for (const SharedCommunicator& communicator : communicators_) {
        culprit = communicator->get();
        result = state_of(*communicator);
        if (!is_bad(result)) continue;
        line = fmt::format("NCCL: {}", explain(result, culprit));
        break;
      }
    }
    if (is_bad(result)) give_up(exit_code_of(result), line);
  }

  void wait(Event& event) override {
    const Backoff backoff(limit_s_);
    while (!event.is_done()) {
      check();
      if (backoff.is_late()) give_up_waiting("work on the device", limit_s_);
      backoff.pause();
    }
    check();  // work that the library cut short counts as done too
  }

  void abort() noexcept override {
    std::vector<SharedCommunicator> all;
    {
      const std::lock_guard lock(mutex_);
      is_aborted_ = true;
      all.swap(communicators_);
    }
    abort_all(all);
  }

 private:
  static bool is_bad(ncclResult_t result) {
    return result != ncclSuccess && result != ncclInProgress;
  }
  static void require(ncclResult_t result) {
    CHECK_MSG(result == ncclSuccess, "NCCL: {}", explain(result, nullptr));
  }

  // A split's new handle may be filled in by the library's own thread after the
  // call, and even after the parent is ready
  // (github.com/NVIDIA/nccl/issues/1472). Until then the parent has the errors.
  ncclResult_t state_of(Communicator& communicator,
                        Communicator* parent = nullptr) const {
    const ncclComm_t handle = communicator.get();
    if (handle == nullptr) {
      const ncclResult_t state =
          parent != nullptr ? state_of(*parent) : ncclInProgress;
      return is_bad(state) ? state : ncclInProgress;
    }
    ncclResult_t state = ncclSuccess;
    const ncclResult_t result = nccl_.comm_get_async_error(handle, &state);
    return result == ncclSuccess ? state : result;
  }

  SharedCommunicator add() {
    const std::lock_guard lock(mutex_);
    check_alive();
    communicators_.push_back(std::make_shared<Communicator>());
    return communicators_.back();
  }

  SharedCommunicator find(const DeviceGroup& group) {
    const std::lock_guard lock(mutex_);
    check_alive();
    const auto index = static_cast<size_t>(group.communicator);
    CHECK_MSG(group.communicator >= 0 && index < communicators_.size(),
              "this rank is in no such group ({})", group.communicator);
    return communicators_[index];
  }

  // Requires the mutex.
  void check_alive() const {
    if (!is_aborted_) return;
    throw Error(code_,
                line_.empty() ? "NCCL: communication was aborted" : line_);
  }

  [[noreturn]] void give_up(ExitCode code, const std::string& line) {
    {
      const std::lock_guard lock(mutex_);
      check_alive();  // the first cause takes precedence
      code_ = code;
      line_ = line;
    }
    abort();
    throw Error(code, line);
  }

  [[noreturn]] void give_up_waiting(const char* what, double limit_s) {
    give_up(ExitCode::kPeerLost,
            fmt::format("NCCL: no answer from a peer for {:g} s ({})", limit_s,
                        what));
  }

  // Polls until the call is no longer in progress and its work is on the
  // stream.
  void await_call(Communicator& communicator,
                  const char* what,
                  ncclResult_t result) {
    await_call(communicator, what, result, limit_s_);
  }
  void await_call(Communicator& communicator,
                  const char* what,
                  ncclResult_t result,
                  double limit_s,
                  Communicator* parent = nullptr) {
    const Backoff backoff(limit_s);
    while (result == ncclInProgress) {
      {
        const std::lock_guard lock(mutex_);
        check_alive();
        result = state_of(communicator, parent);
      }
      if (result != ncclInProgress) break;
      if (backoff.is_late()) give_up_waiting(what, limit_s);
      backoff.pause();
    }
    if (result == ncclSuccess) return;
    std::string line;
    {
      const std::lock_guard lock(mutex_);
      check_alive();
      line = fmt::format("NCCL: {}: {}", what,
                         explain(result, communicator.get()));
    }
    give_up(exit_code_of(result), line);
  }

  // An `amount` of 0 is a no-op on every member.
  template <typename Call>
  void launch(const DeviceGroup& group,
              const char* what,
              int64_t amount,
              const Call& call) {
    const SharedCommunicator communicator = find(group);
    CHECK_MSG(amount >= 0, "{} of {}", what, amount);
    if (amount == 0) return;
    const cudaStream_t stream = cuda_stream(*stream_);
    ncclResult_t result = ncclSuccess;
    {
      const std::lock_guard lock(mutex_);
      check_alive();
      result = call(communicator->handle, stream);
    }
    await_call(*communicator, what, result);
  }

  // The first use of a communicator connects its members; it also verifies that
  // sums work.
  void warm_up(const DeviceGroup& group) {
    const Buffer one(device_, sizeof(float));
    const auto reached = device_.make_event();
    float value = 1;
    device_.copy(one.data(), &value, sizeof value, *stream_);
    all_reduce_sum({one.as<float>(), 1}, group);
    reached->record(*stream_);
    wait(*reached);
    device_.copy(&value, one.data(), sizeof value, *stream_);
    CHECK_MSG(value == static_cast<float>(group.size),
              "NCCL: {} ranks sum up to {}", group.size, value);
  }

  // Closes the youngest first, in the same order on all ranks.
  void close() {
    const double limit_s = std::min(limit_s_, kFinalizeLimitS);
    for (;;) {
      SharedCommunicator last;
      {
        const std::lock_guard lock(mutex_);
        if (is_aborted_ || communicators_.empty()) return;
        last = communicators_.back();
        if (last->get() == nullptr) {  // a split that left out this rank
          communicators_.pop_back();
          continue;
        }
      }
      ncclResult_t result = ncclSuccess;
      {
        const std::lock_guard lock(mutex_);
        check_alive();
        result = nccl_.comm_finalize(last->handle);
      }
      await_call(*last, "the end", result, limit_s);
      const std::lock_guard lock(mutex_);
      check_alive();
      communicators_.pop_back();
      nccl_.comm_destroy(last->handle);
    }
  }

  const NcclFunctions& nccl_;
  Device& device_;
  const double limit_s_;
  const std::unique_ptr<Stream> stream_;
  const DeviceGroup world_;

  std::mutex mutex_;  // guards the members below and library calls, against
                      // abort()
  std::vector<SharedCommunicator> communicators_;  // the world's first
  bool is_aborted_ = false;
  ExitCode code_ = ExitCode::kPeerLost;
  std::string line_;  // why it was aborted
};

}  // namespace

std::string nccl_missing() {
  const NcclFunctions& nccl = nccl_functions();
  if (!nccl.missing.empty()) return nccl.missing;
  int code = 0;
  const ncclResult_t result = nccl.get_version(&code);
  if (result != ncclSuccess) return explain(result, nullptr);
  if (code >= kOldestVersion) return "";
  return fmt::format("version {} is installed, and {} or later is needed",
                     version_text(code), version_text(kOldestVersion));
}

std::string nccl_name() {
  int code = 0;
  usable_functions().get_version(&code);
  return "NCCL " + version_text(code);
}

std::vector<std::byte> nccl_unique_id() {
  const NcclFunctions& nccl = usable_functions();
  ncclUniqueId id;
  const ncclResult_t result = nccl.get_unique_id(&id);
  if (result != ncclSuccess)
    fail(ExitCode::kInternal, "NCCL: {}", explain(result, nullptr));
  std::vector<std::byte> bytes(sizeof id);
  std::memcpy(bytes.data(), &id, sizeof id);
  return bytes;
}

std::unique_ptr<DeviceCollectives> make_nccl(Device& device,
                                             int rank,
                                             int size,
                                             std::span<const std::byte> id,
                                             const NcclOptions& options) {
  CHECK(device.kind() == DeviceKind::kCuda);
  CHECK_MSG(rank >= 0 && rank < size, "rank {} of {}", rank, size);
  auto collectives =
      std::make_unique<NcclCollectives>(device, rank, size, options.limit_s);
  collectives->connect(id);
  return collectives;
}

}  // namespace syncopate
