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

void append_escaped(std::string& to, std::string_view text) {
  for (const char c : text) {
    if (static_cast<unsigned char>(c) < 0x20) {
      to += fmt::format("\\u{:04x}", static_cast<int>(c));
      continue;
    }
    if (c == '"' || c == '\\') to += '\\';
    to += c;
  }
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
  while (const auto wrong = find_invalid_utf8(text)) {
    append_escaped(quoted, text.substr(0, *wrong));
    quoted += "\xEF\xBF\xBD";
    text.remove_prefix(*wrong + 1);
  }
  append_escaped(quoted, text);
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
