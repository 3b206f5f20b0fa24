// Where lanes meet: the barrier of a block and the primitives of a warp.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/check.h"
#include "emulator/engine.h"
#include "emulator/sites.h"

namespace syncopate::emulator {

bool is_same_site(const std::source_location& a,
                  const std::source_location& b) {
  return a.line() == b.line() && a.column() == b.column() &&
         (a.file_name() == b.file_name() ||
          std::strcmp(a.file_name(), b.file_name()) == 0);
}

std::string text_of_site(const std::source_location& site) {
  const std::string path = site.file_name();
  return fmt::format("{}:{}", path.substr(path.rfind('/') + 1), site.line());
}

std::string text_of_call(const WarpCall& call) {
  return fmt::format("{}(mask {:#010x}) ({})", name_of(call.op), call.mask,
                     text_of_site(call.site));
}

const char* name_of(WarpOp op) {
  constexpr const char* kNames[] = {
      "__syncwarp",       "__shfl_sync",   "__shfl_xor_sync",
      "__shfl_down_sync", "__ballot_sync", "__any_sync",
      "__all_sync",       "mma.sync",      "ldmatrix"};
  return kNames[static_cast<int>(op)];
}

namespace {

bool is_shuffle(WarpOp op) {
  return op == WarpOp::kShuffle || op == WarpOp::kShuffleXor ||
         op == WarpOp::kShuffleDown;
}

bool is_same_call(const WarpCall& a, const WarpCall& b) {
  return a.op == b.op && a.mask == b.mask && a.width == b.width &&
         is_same_site(a.site, b.site);
}

// Which lane's value lane `lane` gets: PTX ISA, "shfl.sync", for segments of
// `width` lanes.
int source_of(const WarpCall& call, int lane, int operand) {
  const int first = lane & ~(call.width - 1);
  const int last = first + call.width - 1;
  const int distance = operand & (kWarpSize - 1);
  int source = lane;
  if (call.op == WarpOp::kShuffle) return first | (operand & (call.width - 1));
  if (call.op == WarpOp::kShuffleXor) source = lane ^ distance;
  if (call.op == WarpOp::kShuffleDown) source = lane + distance;
  return source <= last ? source : lane;
}

}  // namespace

void Engine::block_barrier(std::source_location site) {
  CHECK_MSG(current_ >= 0, "__syncthreads() outside of a kernel");
  const int lane = current_;
  Warp& warp = warp_of(lane);
  const std::string here = "waits at __syncthreads() (";
  if (block_->num_exited > 0)
    stop(fmt::format("{}{}) while {} has exited", here, text_of_site(site),
                     lane_name(block_->last_exited)));
  if (block_->num_at_barrier == 0) {
    block_->barrier_site = site;
    block_->first_at_barrier = lane;
  } else if (!is_same_site(site, block_->barrier_site)) {
    stop(fmt::format("{}{}) while {} waits at another ({})", here,
                     text_of_site(site), lane_name(block_->first_at_barrier),
                     text_of_site(block_->barrier_site)));
  }
  for (const Meeting& meeting : warp.meetings)
    if ((meeting.call.mask & bit_of(lane)) != 0)
      stop(fmt::format("{}{}), but is named in {}", here, text_of_site(site),
                       text_of_call(meeting.call)));
  warp.at_barrier |= bit_of(lane);
  const int num_lanes = static_cast<int>(block_->lanes.size());
  if (++block_->num_at_barrier == num_lanes) {
    block_->num_at_barrier = 0;
    for (Warp& each : block_->warps) each.at_barrier = 0;
    for (int each = 0; each < num_lanes; ++each) make_runnable(each);
  }
  wait();
}

void Engine::stop_unless_possible(const WarpCall& call) {
  const int lane = current_;
  const Warp& warp = warp_of(lane);
  const int first = lane - lane % kWarpSize;
  if ((call.mask & bit_of(lane)) == 0)
    stop(fmt::format("calls {}, which does not name its lane {}",
                     text_of_call(call), lane % kWarpSize));
  if (is_shuffle(call.op) &&
      (call.width > kWarpSize ||
       !std::has_single_bit(static_cast<unsigned>(call.width))))
    stop(fmt::format("calls {} with a width of {}", text_of_call(call),
                     call.width));
  if (const uint32_t gone = call.mask & warp.exited) {
    const int other = std::countr_zero(gone);
    const bool is_absent =
        first + other >= static_cast<int>(block_->lanes.size());
    stop(fmt::format("calls {}, which names lane {}: {}", text_of_call(call),
                     other,
                     is_absent ? "its block has no such thread"
                               : lane_name(first + other) + " has exited"));
  }
  if (const uint32_t elsewhere = call.mask & warp.at_barrier)
    stop(fmt::format(
        "calls {} while {}, which it names, waits at "
        "__syncthreads() ({})",
        text_of_call(call), lane_name(first + std::countr_zero(elsewhere)),
        text_of_site(block_->barrier_site)));
}

uint64_t Engine::meet_in_warp(const WarpCall& call) {
  CHECK_MSG(current_ >= 0, "{}() outside of a kernel", name_of(call.op));
  const int lane = current_;
  Warp& warp = warp_of(lane);
  stop_unless_possible(call);
  block_->lanes[lane].value = call.value;
  block_->lanes[lane].operand = call.operand;
  auto meeting = std::find_if(
      warp.meetings.begin(), warp.meetings.end(),
      [&call](const Meeting& m) { return is_same_call(m.call, call); });
  if (meeting == warp.meetings.end())
    meeting = warp.meetings.insert(meeting, {call, 0});
  meeting->arrived |= bit_of(lane);
  // Two groups that wait for a lane of each other will do so for ever.
  for (const Meeting& other : warp.meetings)
    if (&other != &*meeting && (other.arrived & call.mask) != 0 &&
        (other.call.mask & meeting->arrived) != 0)
      stop(fmt::format("calls {} while {}, which it names, waits at {}",
                       text_of_call(call),
                       lane_name(lane - lane % kWarpSize +
                                 std::countr_zero(other.arrived & call.mask)),
                       text_of_call(other.call)));
  if (meeting->arrived == call.mask) {
    finish(call);
    warp.meetings.erase(meeting);
  }
  wait();
  return block_->lanes[lane].result;
}

void Engine::finish(const WarpCall& call) {
  const int first = current_ - current_ % kWarpSize;
  if (call.together != nullptr) {
    void* lanes[kWarpSize];
    for (int at = 0; at < kWarpSize; ++at)
      lanes[at] = std::bit_cast<void*>(block_->lanes[first + at].value);
    call.together(lanes);
  }
  uint64_t votes = 0;
  for (int at = 0; at < kWarpSize; ++at)
    if ((call.mask >> at & 1) != 0 && block_->lanes[first + at].value != 0)
      votes |= uint64_t{1} << at;
  for (int at = 0; at < kWarpSize; ++at) {
    if ((call.mask >> at & 1) == 0) continue;
    Lane& lane = block_->lanes[first + at];
    make_runnable(first + at);
    if (call.op == WarpOp::kBallot) lane.result = votes;
    if (call.op == WarpOp::kAny) lane.result = votes != 0;
    if (call.op == WarpOp::kAll) lane.result = votes == call.mask;
    if (!is_shuffle(call.op)) continue;
    const int source = source_of(call, at, lane.operand);
    if ((call.mask >> source & 1) == 0)
      stop(fmt::format("{} reads lane {} in {}, which does not name it",
                       lane_name(first + at), source, text_of_call(call)));
    lane.result = block_->lanes[first + source].value;
  }
}

std::string Engine::waiting_place(int lane) const {
  const Warp& warp = block_->warps[lane / kWarpSize];
  for (const Meeting& meeting : warp.meetings)
    if ((meeting.arrived & bit_of(lane)) != 0)
      return text_of_call(meeting.call);
  return fmt::format("__syncthreads() ({})",
                     text_of_site(block_->barrier_site));
}

}  // namespace syncopate::emulator
