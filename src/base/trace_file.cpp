#include "base/trace_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "base/error.h"
#include "base/text.h"

namespace syncopate {
namespace {

constexpr std::string_view kEnd = "\n]}\n";

void write_all(int file,
               std::string_view bytes,
               int64_t at,
               const fs::path& path) {
  while (!bytes.empty()) {
    const ssize_t written = pwrite(file, bytes.data(), bytes.size(), at);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0)
      fail_errno(ExitCode::kIoError, path.string(), "cannot be written");
    bytes.remove_prefix(static_cast<size_t>(written));
    at += written;
  }
}

// The length of the valid UTF-8 sequence at the start of `text`; 0: none.
size_t utf8_length(std::string_view text) {
  const auto byte = [&](size_t i) {
    return static_cast<unsigned char>(text[i]);
  };
  const unsigned char first = byte(0);
  if (first < 0x80) return 1;
  if (first < 0xC2 || first > 0xF4) return 0;
  const size_t length = first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  if (text.size() < length) return 0;
  for (size_t i = 1; i < length; ++i)
    if ((byte(i) & 0xC0) != 0x80) return 0;
  const bool is_overlong =
      (first == 0xE0 && byte(1) < 0xA0) || (first == 0xF0 && byte(1) < 0x90);
  const bool is_surrogate = first == 0xED && byte(1) > 0x9F;
  const bool is_beyond = first == 0xF4 && byte(1) > 0x8F;
  return is_overlong || is_surrogate || is_beyond ? 0 : length;
}

}  // namespace

std::optional<TraceSteps> parse_trace_steps(std::string_view text) {
  const size_t colon = text.find(':');
  if (colon == std::string_view::npos) return std::nullopt;
  const auto first = parse_int(text.substr(0, colon));
  const auto last = parse_int(text.substr(colon + 1));
  if (!first || !last || *first < 1 || *last < *first) return std::nullopt;
  return TraceSteps{*first, *last};
}

std::string json_string(std::string_view text) {
  std::string quoted = "\"";
  while (!text.empty()) {
    const size_t length = utf8_length(text);
    const char c = text.front();
    if (length == 0)
      quoted += "\xEF\xBF\xBD";
    else if (c == '"' || c == '\\')
      quoted.append({'\\', c});
    else if (static_cast<unsigned char>(c) < 0x20)
      quoted += fmt::format("\\u{:04x}", static_cast<int>(c));
    else
      quoted += text.substr(0, length);
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return quoted + '"';
}

TraceFile::TraceFile(const fs::path& path, const TraceFacts& facts)
    : path_(path) {
  file_ = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (file_ < 0)
    fail_errno(ExitCode::kCannotCreate, path.string(), "cannot be created");
  buffer_ = "{\"otherData\":{";
  for (const auto& [name, value] : facts) {
    if (buffer_.back() != '{') buffer_ += ',';
    buffer_ += json_string(name) + ':' + value;
  }
  buffer_ += "},\n\"traceEvents\":[";
  try {
    flush();
  } catch (...) {
    close(file_);
    throw;
  }
}

TraceFile::~TraceFile() {
  try {
    flush();
  } catch (const Error&) {  // NOLINT: the run's end does not depend on it
  }
  close(file_);
}

void TraceFile::add(std::string_view event) {
  buffer_ += num_events_++ == 0 ? "\n" : ",\n";
  buffer_ += event;
  if (buffer_.size() >= kBufferBytes) flush();
}

void TraceFile::flush() {
  if (buffer_.empty()) return;
  const auto more = static_cast<int64_t>(buffer_.size());
  buffer_ += kEnd;
  write_all(file_, buffer_, end_, path_);
  end_ += more;
  buffer_.clear();
}

void TraceFile::rename(const fs::path& path) {
  std::error_code failed;
  fs::rename(path_, path, failed);
  if (failed)
    fail(ExitCode::kCannotCreate, "{}: cannot be created: {}", path.string(),
         failed.message());
  path_ = path;
}

}  // namespace syncopate
