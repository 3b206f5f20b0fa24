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

  // The one positional argument, called `what` in the message if it is absent
  // or not alone: Error(kUsage).
  const std::string& only_argument(const std::string& what) const;
  // Error(kUsage) if `name` is absent.
  const std::string& required_option(const std::string& name) const;
  // Error(kUsage) for options other than these, and for overrides unless
  // `takes_keys`.
  enum class Keys { kTaken, kRefused };
  void allow_only(const std::vector<std::string>& names, Keys keys) const;
};

// Error(kUsage) for words, and for SYNCOPATE_* and SLURM* variables, that are
// not valid UTF-8.
CommandLine parse_command_line(int argc, char** argv);

}  // namespace syncopate
