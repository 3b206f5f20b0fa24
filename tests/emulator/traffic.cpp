#include "emulator/traffic.h"

#include <fmt/format.h>

#include <atomic>

#include "base/check.h"
#include "emulator/region.h"

namespace syncopate::emulator {
namespace {

constinit std::atomic<TrafficMeter*> meter{nullptr};

}  // namespace

TrafficMeter::TrafficMeter() {
  CHECK(meter.exchange(this) == nullptr);
  count_pages(true);
}

TrafficMeter::~TrafficMeter() {
  count_pages(false);
  meter = nullptr;
}

Traffic TrafficMeter::total() const {
  Traffic all;
  for (const auto& [name, part] : by_name_) {
    all.launches += part.launches;
    all.bytes_read += part.bytes_read;
    all.bytes_written += part.bytes_written;
  }
  return all;
}

std::string TrafficMeter::table() const {
  std::string text;
  const auto add = [&text](const std::string& name, const Traffic& part) {
    text += fmt::format("{:6} launches, {:8} KiB read, {:8} KiB written: {}\n",
                        part.launches, part.bytes_read / 1024,
                        part.bytes_written / 1024, name);
  };
  for (const auto& [name, part] : by_name_) add(name, part);
  add("all", total());
  return text;
}

void note_work(const std::function<std::string()>& name) {
  TrafficMeter* const counting = meter;
  if (counting == nullptr) return;
  const PageCounts pages = counted_pages();
  Traffic& part = counting->by_name_[name()];
  ++part.launches;
  part.bytes_read += pages.read * kPageBytes;
  part.bytes_written += pages.written * kPageBytes;
}

void note_copy(int64_t bytes) {
  TrafficMeter* const counting = meter;
  if (counting != nullptr) counting->copied_bytes_ += bytes;
}

}  // namespace syncopate::emulator
