#include "watch/operations.h"

#include <algorithm>
#include <cstring>

#include <fmt/core.h>

#include "watch/activity.h"

namespace syncopate {
namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;
constexpr size_t kNameBytes = 24;  // with the terminating 0

}  // namespace

uint64_t OperationLog::begin(Kind kind, int peer, int tag, int64_t bytes) {
  return record(kind, peer, tag, bytes, {});
}

uint64_t OperationLog::begin_task(std::string_view name) {
  return record(Kind::kTask, -1, 0, 0, name);
}

uint64_t OperationLog::record(Kind kind,
                              int peer,
                              int tag,
                              int64_t bytes,
                              std::string_view name) {
  const uint64_t number = count_.fetch_add(1, kRelaxed) + 1;
  Slot& slot = slots_[number % kKept];
  slot.number.store(0, kRelaxed);
  slot.kind.store(kind, kRelaxed);
  slot.peer.store(peer, kRelaxed);
  slot.tag.store(tag, kRelaxed);
  slot.bytes.store(bytes, kRelaxed);
  if (kind == Kind::kTask) {
    char letters[kNameBytes] = {};
    std::memcpy(letters, name.data(), std::min(name.size(), kNameBytes - 1));
    for (size_t i = 0; i < slot.name.size(); ++i) {
      uint64_t word = 0;
      std::memcpy(&word, letters + 8 * i, 8);
      slot.name[i].store(word, kRelaxed);
    }
  }
  slot.begin_s.store(watch_clock().now_s(), kRelaxed);
  slot.end_s.store(-1, kRelaxed);
  slot.number.store(number, std::memory_order_release);
  return number;
}

void OperationLog::end(uint64_t operation) {
  Slot& slot = slots_[operation % kKept];
  if (operation != 0 && slot.number.load(kRelaxed) == operation)
    slot.end_s.store(watch_clock().now_s(), kRelaxed);
  activity().message_moved();
}

std::vector<OperationLog::Entry> OperationLog::entries() const {
  std::vector<Entry> result;
  const uint64_t last = count_;
  for (uint64_t number = last > kKept ? last - kKept + 1 : 1; number <= last;
       ++number) {
    const Slot& slot = slots_[number % kKept];
    if (slot.number.load(std::memory_order_acquire) != number) continue;
    Entry entry{slot.kind, slot.peer,    slot.tag,  slot.bytes,
                {},        slot.begin_s, slot.end_s};
    if (entry.kind == Kind::kTask) {
      char letters[kNameBytes] = {};
      for (size_t i = 0; i < slot.name.size(); ++i) {
        const uint64_t word = slot.name[i];
        std::memcpy(letters + 8 * i, &word, 8);
      }
      letters[kNameBytes - 1] = 0;
      entry.name = letters;
    }
    if (slot.number == number) result.push_back(std::move(entry));
  }
  return result;
}

std::string OperationLog::text_of(const Entry& entry) const {
  const std::string tag = name_of_tag_ != nullptr
                              ? name_of_tag_(entry.tag)
                              : fmt::format("tag {}", entry.tag);
  switch (entry.kind) {
    case Kind::kSend:
      return fmt::format("send of {} bytes to rank {}, {}", entry.bytes,
                         entry.peer, tag);
    case Kind::kReceive:
      return fmt::format("receive of {} bytes from rank {}, {}", entry.bytes,
                         entry.peer, tag);
    case Kind::kReceiveAny:
      return fmt::format("receive from anyone, {}", tag);
    case Kind::kAllReduce:
      return fmt::format("MPI all-reduce of {} bytes", entry.bytes);
    case Kind::kTask:
      return entry.name;
  }
  return "?";
}

std::string OperationLog::last() const {
  const std::vector<Entry> all = entries();
  const Entry* best = nullptr;
  const auto rank_of = [](const Entry& entry) {
    if (entry.end_s >= 0 || entry.kind == Kind::kReceiveAny) return 0;
    return entry.kind == Kind::kTask ? 2 : 1;
  };
  for (const Entry& entry : all)
    if (best == nullptr || rank_of(entry) >= rank_of(*best)) best = &entry;
  return best != nullptr ? text_of(*best) : "none";
}

std::vector<std::string> OperationLog::lines() const {
  std::vector<std::string> lines;
  for (const Entry& entry : entries())
    lines.push_back(fmt::format(
        "{:>9.1f} s  {:<10} {}", entry.begin_s,
        entry.end_s < 0 ? "under way"
                        : fmt::format("{:.1f} s", entry.end_s - entry.begin_s),
        text_of(entry)));
  return lines;
}

OperationLog& operations() {
  static OperationLog the_one;
  return the_one;
}

}  // namespace syncopate
