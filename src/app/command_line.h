// The words after `syncopate`: a command, what it works on, options and keys.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

namespace syncopate {

struct CommandLine {
  std::string command;
  std::vector<std::string> positional;
  // --checkpoint=PATH, --output=FILE, -o FILE: names without a dot.
  std::map<std::string, std::string> options;
  // --section.key=value, as given.
  std::vector<std::string> overrides;

  // Returns the only positional argument. Throws Error(kUsage), which calls it
  // `what`, if there are none or several.
  const std::string& only_argument(const std::string& what) const;
  // Throws Error(kUsage) if there is a positional argument.
  void no_arguments() const;
  // Returns the option's value. Throws Error(kUsage) if it is absent.
  const std::string& required_option(const std::string& name) const;
  // Returns the whole number of option --`name`, or `otherwise` if it is
  // absent. Throws Error(kUsage) unless it is from `low` to `high`.
  int64_t whole_number(const std::string& name,
                       int64_t low,
                       int64_t high,
                       int64_t otherwise) const;
  // The same for a part of the option's value.
  int64_t parse_whole(const std::string& name,
                      const std::string& text,
                      int64_t low,
                      int64_t high) const;
  // Throws Error(kUsage) for any option not in `names`, and for overrides under
  // Keys::kRefused.
  enum class Keys { kTaken, kRefused };
  void allow_only(const std::vector<std::string>& names, Keys keys) const;
};

// Throws Error(kUsage) if a word, or a SYNCOPATE_* or SLURM* variable, is not
// valid UTF-8.
CommandLine parse_command_line(int argc, char** argv);

}  // namespace syncopate
