// Every key of the input, once: name, place in Options, what it accepts,
// what uses it, and whether a resumed run may change it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <limits>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "config/options.h"

namespace syncopate {

// Where a key's value lives; the alternative is its type.
using Target = std::variant<std::string*,
                            int64_t*,
                            uint64_t*,
                            double*,
                            bool*,
                            Length*,
                            std::vector<Length>*,
                            std::vector<double>*,
                            std::vector<std::string>*>;

// A key is in use while `key` has one of `values` (a list key: holds one of
// them). No values: while it is not 0, or not empty.
struct UsedWhen {
  std::string key;
  std::vector<std::string> values;
};

enum class OnResume : uint8_t {
  kFixed,      // it decides the numbers
  kMayChange,  // it does not
  kMayExtend,  // where the schedule does not hang on it: schedule.horizon
};

// What a text key accepts beyond any text.
struct TextForm {
  const char* accepts = "";  // "world, graph or a number > 0"
  bool (*matches)(const std::string& text) = nullptr;
};

struct Key {
  std::string name;  // section.key
  Target (*target)(Options&) = nullptr;
  std::string doc;  // one sentence, with the unit
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  bool is_low_open = false, is_high_open = false;
  std::vector<std::string> choices = {};  // of a text, or of a list's words
  std::string zero_word = {};             // how 0 or an empty list is written
  TextForm form = {};
  std::vector<UsedWhen> used_when = {};  // all must hold
  OnResume on_resume = OnResume::kFixed;
  std::string formerly = {};  // the value that runs from before this key had;
                              // empty: its default

  std::string section() const { return name.substr(0, name.find('.')); }
  std::string word() const { return name.substr(name.find('.') + 1); }
};

// In the order of documentation and echo; keys of a section are adjacent.
const std::vector<Key>& key_table();
const Key* find_key(std::string_view name);  // nullptr: none
std::vector<std::string> section_names();

}  // namespace syncopate
