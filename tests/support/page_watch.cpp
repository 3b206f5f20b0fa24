#include "support/page_watch.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>

#include "base/check.h"

namespace syncopate::test {
namespace {

struct Watched {
  std::byte *begin = nullptr, *end = nullptr;
  std::atomic<int64_t> touched = 0;
  bool has(const std::byte* address) const {
    return begin <= address && address < end;
  }
};
std::array<Watched, 8> all_watched;

int64_t page_bytes() {
  static const int64_t bytes = sysconf(_SC_PAGESIZE);
  return bytes;
}

// Opens the page; a fault elsewhere happens again and ends the process.
void on_fault(int signal, siginfo_t* info, void*) {
  auto* const address = static_cast<std::byte*>(info->si_addr);
  for (Watched& watched : all_watched) {
    if (!watched.has(address)) continue;
    std::byte* const page =
        address - reinterpret_cast<uintptr_t>(address) % page_bytes();
    mprotect(page, page_bytes(), PROT_READ | PROT_WRITE);
    ++watched.touched;
    return;
  }
  std::signal(signal, SIG_DFL);
}

}  // namespace

PageWatch::PageWatch(std::span<float> range) {
  page_bytes();
  struct sigaction action = {};
  action.sa_sigaction = &on_fault;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  CHECK(sigaction(SIGSEGV, &action, nullptr) == 0);
  Watched* const unused =
      std::ranges::find(all_watched, nullptr, [](auto& w) { return w.begin; });
  CHECK(unused != all_watched.end());
  index_ = unused - all_watched.begin();
  const auto begin = reinterpret_cast<uintptr_t>(range.data());
  const uintptr_t page = page_bytes();
  const uintptr_t first = (begin + page - 1) / page * page;
  const uintptr_t last = (begin + range.size_bytes()) / page * page;
  CHECK(first < last);
  unused->begin = reinterpret_cast<std::byte*>(first);
  unused->end = reinterpret_cast<std::byte*>(last);
  unused->touched = 0;
  CHECK(mprotect(unused->begin, last - first, PROT_NONE) == 0);
}

PageWatch::~PageWatch() {
  Watched& watched = all_watched[index_];
  mprotect(watched.begin, watched.end - watched.begin, PROT_READ | PROT_WRITE);
  watched.begin = watched.end = nullptr;
}

int64_t PageWatch::pages() const {
  const Watched& watched = all_watched[index_];
  return (watched.end - watched.begin) / page_bytes();
}

int64_t PageWatch::touched() const {
  return all_watched[index_].touched;
}

}  // namespace syncopate::test
