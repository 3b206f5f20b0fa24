#include "base/log.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "base/clock.h"
#include "base/error.h"

namespace syncopate {

void Log::open(const fs::path& path) {
  if (!enabled_) return;
  file_.reset(std::fopen(path.c_str(), "a"));
  if (!file_) fail_errno(ExitCode::kCannotCreate, path, "open for appending");
  write_to_file(before_file_);
  before_file_.clear();
}

void Log::write_to_file(const std::string& line) {
  if (!file_) {
    before_file_ += line;
    return;
  }
  // A full disk must not end a run because of its log; committing the next
  // checkpoint will report it.
  std::fputs(line.c_str(), file_.get());
  std::fflush(file_.get());
}

// A pipe that can be written to has room for a line.
void Log::await_reader(int fd) const {
  if (!while_paused_) return;
  constexpr int kBetween_ms = 500;
  pollfd output{fd, POLLOUT, 0};
  while (::poll(&output, 1, kBetween_ms) == 0) while_paused_();
}

void Log::write(const std::string& text) {
  if (!enabled_) return;
  clear_progress();
  await_reader(STDOUT_FILENO);
  std::fputs((text + "\n").c_str(), stdout);
  std::fflush(stdout);
  write_to_file(text + "\n");
}

void Log::warning(const std::string& text) {
  if (!enabled_) return;
  clear_progress();
  await_reader(STDERR_FILENO);
  std::fputs(("warning: " + text + "\n").c_str(), stderr);
  write_to_file("warning: " + text + "\n");
}

void Log::note_in_file(const std::string& text) {
  if (enabled_) write_to_file(text + "\n");
}

namespace {

// A terminal that can return to the beginning of a line.
bool has_lines(int fd) {
  const char* const kind = std::getenv("TERM");
  return isatty(fd) && (kind == nullptr || std::string_view(kind) != "dumb");
}

// How many letters fit in a line without a break.
size_t columns_of(int fd) {
  constexpr size_t kUsual = 80;
  winsize size{};
  if (ioctl(fd, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return kUsual;
  return size.ws_col - size_t{1};
}

}  // namespace

void Log::progress(int64_t done, int64_t total, const std::string& note) {
  static const bool has_terminal = has_lines(STDERR_FILENO);
  if (!enabled_ || !has_terminal || total <= 0) return;
  const double now = monotonic_s();
  if (now - progress_at_s_ < 0.1) return;
  progress_at_s_ = now;
  clear_progress();
  constexpr int64_t kWidth = 30;
  const std::string bar(
      static_cast<size_t>(kWidth * std::min(done, total) / total), '#');
  std::string text = fmt::format("[{:<{}}] {}/{}{}", bar, kWidth, done, total,
                                 note.empty() ? note : " | " + note);
  text.resize(std::min(text.size(), columns_of(STDERR_FILENO)));
  std::fputs(text.c_str(), stderr);
  std::fflush(stderr);
  progress_width_ = text.size();
}

void Log::clear_progress() {
  if (progress_width_ == 0) return;
  std::fprintf(stderr, "\r%*s\r", static_cast<int>(progress_width_), "");
  progress_width_ = 0;
}

}  // namespace syncopate
