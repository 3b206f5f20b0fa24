// One key of the input: its name, the member of its owner's options that holds
// its value, what it accepts, what uses it, and whether a resumed run may
// change it. Each owner exports the keys of its options; config/ collects them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <type_traits>
#include <typeindex>
#include <variant>
#include <vector>

#include "base/check.h"
#include "base/choice.h"
#include "keys/length.h"

namespace syncopate {

// The location of a key's value; the alternative is its type. A closed choice
// (base/choice.h) appears as its number.
using Target = std::variant<std::string*,
                            uint8_t*,
                            int64_t*,
                            uint64_t*,
                            double*,
                            bool*,
                            Length*,
                            std::vector<Length>*,
                            std::vector<double>*,
                            std::vector<std::string>*>;

// A member of an options struct, such as &DgcOptions::clip, found in any
// instance of that struct.
class OptionMember {
 public:
  OptionMember() = default;
  template <typename Owner, typename Value>
  OptionMember(Value Owner::*member)  // NOLINT: keys are written so
      : owner_(typeid(Owner)),
        type_(target_of<Value>(nullptr)),
        find_([member](void* owner) {
          return target_of(&(static_cast<Owner*>(owner)->*member));
        }) {
    if constexpr (Choice<Value>) words_ = all_names<Value>();
  }

  // The same member, found from a struct that holds the owner's options.
  template <typename Owner, typename Outer>
  OptionMember within(Owner Outer::*member) const {
    CHECK(owner_ == typeid(Owner));
    OptionMember place = *this;
    place.owner_ = typeid(Outer);
    place.find_ = [member, find = find_](void* outer) {
      return find(&(static_cast<Outer*>(outer)->*member));
    };
    return place;
  }

  const Target& type() const { return type_; }  // a null pointer of the type
  // The words of a closed choice; else empty.
  const std::vector<std::string>& words() const { return words_; }

  template <typename Owner>
  Target in(Owner& owner) const {
    CHECK(owner_ == typeid(Owner));
    return find_(&owner);
  }

 private:
  template <typename Value>
  static Target target_of(Value* value) {
    if constexpr (Choice<Value>) {
      static_assert(std::is_same_v<std::underlying_type_t<Value>, uint8_t>);
      return reinterpret_cast<uint8_t*>(value);
    } else {
      return value;
    }
  }

  std::type_index owner_ = typeid(void);
  Target type_;
  std::vector<std::string> words_;
  std::function<Target(void*)> find_;
};

// A key is in use while `key` has one of `values` (a list key: holds one of
// them). No values: while it is not 0, or not empty. A trait stands for those
// choices of `key` that have it (Key::traits).
struct UsedWhen {
  std::string key;
  std::vector<std::string> values;
  std::string trait = {};
};

enum class OnResume : uint8_t {
  kFixed,      // the results depend on it
  kMayChange,  // they do not
  kMayExtend,  // may change if no step depends on how many follow
};

// A restriction on the text that a key accepts.
struct TextForm {
  const char* accepts = "";  // "world, graph or a number > 0"
  bool (*matches)(const std::string& text) = nullptr;
};

struct Key {
  std::string name;  // section.key
  OptionMember place;
  std::string doc;  // one sentence, with the unit
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  bool is_low_open = false, is_high_open = false;
  // The accepted words of a text or of a list's items. Of a closed choice: all
  // of its words, unless the key accepts fewer or shows them in another order.
  std::vector<std::string> choices = place.words();
  // Sets of choices by the name of a property, for `used_when` of other keys,
  // whose owners then need not know the choices.
  std::map<std::string, std::vector<std::string>> traits = {};
  std::string zero_word = {};  // how 0 or an empty list is written
  TextForm form = {};
  std::vector<UsedWhen> used_when = {};  // all must hold
  OnResume on_resume = OnResume::kFixed;
  // The value names workers, counts them or has a number for each. A run that
  // resumes with another number of workers does not take it over.
  bool is_by_worker = false;
  std::string formerly = {};  // the value in effect before this key existed;
                              // empty: its default

  std::string section() const { return name.substr(0, name.find('.')); }
  std::string word() const { return name.substr(name.find('.') + 1); }
};

using Keys = std::vector<Key>;

// Returns the keys of options that are a member of other options.
template <typename Owner, typename Outer>
Keys within(Owner Outer::*member, Keys keys) {
  for (Key& key : keys) key.place = key.place.within(member);
  return keys;
}

inline void append(Keys& keys, Keys more) {
  for (Key& key : more) keys.push_back(std::move(key));
}

// Returns the keywords of a table of (keyword, description).
template <typename Table>
std::vector<std::string> keywords(const Table& table) {
  std::vector<std::string> words;
  for (const auto& entry : table) words.push_back(entry.first);
  return words;
}

// Returns the member `name` of those rows of `table` that `has` accepts.
template <typename Row>
std::vector<std::string> names_of(
    const std::vector<Row>& table,
    std::string Row::*name,
    const std::function<bool(const Row&)>& has = {}) {
  std::vector<std::string> words;
  for (const Row& row : table)
    if (!has || has(row)) words.push_back(row.*name);
  return words;
}

}  // namespace syncopate
