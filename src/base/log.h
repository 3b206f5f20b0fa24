// The log of a run: lines go to the terminal and, once a run directory is
// known, to log.txt. One Log per process; only rank 0's is enabled.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include <fmt/core.h>

#include "base/file.h"

namespace syncopate {

class Log {
 public:
  // `while_paused` is called now and then while a reader of standard output or
  // of stderr makes this process wait, as Ctrl-S and a pager do.
  explicit Log(bool enabled, std::function<void()> while_paused = {})
      : enabled_(enabled), while_paused_(std::move(while_paused)) {}

  // Appends all lines, those before this call too, to `path`.
  void open(const fs::path& path);

  template <typename... Args>
  void line(fmt::format_string<Args...> format, Args&&... args) {
    write(fmt::format(format, std::forward<Args>(args)...));
  }
  // Writes "warning: ..." to stderr and to the file.
  void warning(const std::string& text);

  // Appends a line to the file only, not to stderr.
  void note_in_file(const std::string& text);

  // Redraws a progress line, which ends in `note`, on stderr: only on a
  // terminal, at most ten times per second, never in the file.
  void progress(int64_t done, int64_t total, const std::string& note = "");

 private:
  void write(const std::string& text);
  void write_to_file(const std::string& line);
  void await_reader(int fd) const;
  void clear_progress();

  bool enabled_;
  std::function<void()> while_paused_;
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file_{nullptr, &std::fclose};
  std::string before_file_;  // lines written before open()
  size_t progress_width_ = 0;
  double progress_at_s_ = 0;
};

}  // namespace syncopate
