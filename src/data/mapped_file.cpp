#include "data/mapped_file.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <mutex>
#include <string_view>
#include <thread>

#include "base/check.h"
#include "base/thread.h"

namespace syncopate {
namespace {

// The mapped ranges, for the handler of SIGBUS. A free place has no end.
struct Mapped {
  std::atomic<uintptr_t> begin = 0, end = 0;
  std::string line;  // what the handler writes; set while the place is free
};
std::array<Mapped, 32> mapped;
std::mutex mapped_mutex;

// What a thread does once the handler has told it of a page.
std::atomic<void (*)(const Error&)> end_process = nullptr;
std::atomic<int> to_thread = -1;  // a pipe's descriptor
pid_t process = 0;                // that has the thread; a forked one has not

void await_bus_error(int from_handler) {
  uint8_t index = 0;
  while (::read(from_handler, &index, 1) != 1)
    if (errno != EINTR) return;
  const std::string& line = mapped[index].line;
  constexpr size_t kBegin = std::string_view("error: ").size();
  if (const auto end = end_process.load())
    end(Error(ExitCode::kIoError,
              line.substr(kBegin, line.size() - kBegin - 1)));
  [[maybe_unused]] const auto written =
      ::write(STDERR_FILENO, line.data(), line.size());
  _exit(static_cast<int>(ExitCode::kIoError));
}

// A page that cannot be read raises SIGBUS: the file is shorter than it was, or
// its storage fails. The thread above ends the process, as a handler cannot
// tell the launcher and other ranks. Other causes end it by the signal.
void end_if_mapped(int number, siginfo_t* info, void* /*context*/) {
  const auto at = reinterpret_cast<uintptr_t>(info->si_addr);
  for (uint8_t i = 0; info->si_code > 0 && i < mapped.size(); ++i) {
    if (at < mapped[i].begin || at >= mapped[i].end) continue;
    [[maybe_unused]] ssize_t written = 0;
    if (getpid() == process)
      for (written = ::write(to_thread, &i, 1);;) ::pause();
    written =
        ::write(STDERR_FILENO, mapped[i].line.data(), mapped[i].line.size());
    _exit(static_cast<int>(ExitCode::kIoError));
  }
  std::signal(number, SIG_DFL);  // an access is repeated
  if (info->si_code <= 0) raise(number);
}

void handle_bus_errors() {
  static std::once_flag once;
  std::call_once(once, [] {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0)
      fail_errno(ExitCode::kInternal, "mapped files", "pipe");
    to_thread = ends[1];
    start_without_signals([from = ends[0]] { await_bus_error(from); }).detach();
    process = getpid();
    struct sigaction action {};
    action.sa_sigaction = &end_if_mapped;
    sigemptyset(&action.sa_mask);
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGBUS, &action, nullptr);
  });
}

void announce(std::span<const uint8_t> bytes, const std::string& path) {
  handle_bus_errors();
  const std::lock_guard lock(mapped_mutex);
  for (Mapped& place : mapped) {
    if (place.end != 0) continue;
    place.line = "error: " + path +
                 ": can no longer be read: it became shorter, or its storage "
                 "fails\n";
    place.begin = reinterpret_cast<uintptr_t>(bytes.data());
    place.end = place.begin + bytes.size();
    return;
  }
}

void withdraw(std::span<const uint8_t> bytes) {
  const std::lock_guard lock(mapped_mutex);
  for (Mapped& place : mapped)
    if (place.begin == reinterpret_cast<uintptr_t>(bytes.data())) place.end = 0;
}

}  // namespace

void end_unreadable_maps_by(void (*end)(const Error&)) {
  end_process = end;
}

MappedFile::MappedFile(const fs::path& path) : path_(path.string()) {
  const InputFile file(path);  // the mapping remains when it is closed
  const auto num_bytes = static_cast<size_t>(file.bytes());
  if (num_bytes == 0) return;
  void* at = ::mmap(nullptr, num_bytes, PROT_READ, MAP_SHARED, file.get(), 0);
  if (at == MAP_FAILED) fail_errno(ExitCode::kIoError, path_, "map");
  ::madvise(at, num_bytes, MADV_RANDOM);  // only a hint
  bytes_ = {static_cast<const uint8_t*>(at), num_bytes};
  announce(bytes_, path_);
}

MappedFile::~MappedFile() {
  if (bytes_.empty()) return;
  withdraw(bytes_);
  ::munmap(const_cast<uint8_t*>(bytes_.data()), bytes_.size());
}

void MappedFile::will_need(int64_t first_byte, int64_t num_bytes) const {
  CHECK(first_byte >= 0 && num_bytes >= 0 &&
        first_byte + num_bytes <= std::ssize(bytes_));
  const int64_t page = ::sysconf(_SC_PAGESIZE);
  const int64_t first = first_byte / page * page;  // madvise wants whole pages
  ::madvise(const_cast<uint8_t*>(bytes_.data()) + first,
            static_cast<size_t>(first_byte + num_bytes - first), MADV_WILLNEED);
}

std::span<const uint8_t> MappedBlocks::block(int64_t index) const {
  const auto rest =
      file->bytes().subspan(static_cast<size_t>(index * block_bytes));
  return rest.first(std::min(rest.size(), static_cast<size_t>(block_bytes)));
}

std::optional<std::string> MappedBlocks::fault(int64_t index) const {
  const std::span<const uint8_t> bytes = block(index);
  file->will_need(index * block_bytes, std::ssize(bytes));
  if (digest_of({reinterpret_cast<const char*>(bytes.data()), bytes.size()}) ==
      digests[static_cast<size_t>(index)])
    return std::nullopt;
  return fmt::format("{}: offset {}: {} bytes are not those that were written",
                     file->path(), index * block_bytes, bytes.size());
}

std::vector<std::string> MappedBlocks::faults() const {
  std::vector<std::string> lines;
  for (int64_t index = 0; index < std::ssize(digests); ++index)
    if (auto line = fault(index)) lines.push_back(std::move(*line));
  return lines;
}

}  // namespace syncopate
