// A closed choice: an enum, and the names of its values in the same order.
//   CHOICE(Query, "blocking non_blocking", {kBlocking, kNonBlocking});
// An enum that documents each value is written out, with names_of beside it.
// fmt prints the name, without a width.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/text.h"

#define CHOICE(E, names, ...)                                       \
  enum class E : uint8_t __VA_ARGS__;                               \
  constexpr const char* names_of(E) {                               \
    return names;                                                   \
  }                                                                 \
  static_assert(std::ranges::count(std::string_view(names), ' ') == \
                std::ranges::count(std::string_view(#__VA_ARGS__), ','))

namespace syncopate {

template <typename T>
concept Choice = requires(T value) {
  { names_of(value) } -> std::same_as<const char*>;
};

template <Choice E>
std::vector<std::string> all_names() {
  return split(names_of(E{}), ' ');
}

template <Choice E>
std::string name_of(E value) {
  return all_names<E>().at(static_cast<size_t>(value));
}

// Returns nullopt if no value has that name.
template <Choice E>
std::optional<E> value_named(std::string_view name) {
  const std::vector<std::string> names = all_names<E>();
  const auto found = std::ranges::find(names, name);
  if (found == names.end()) return std::nullopt;
  return static_cast<E>(found - names.begin());
}

}  // namespace syncopate

template <syncopate::Choice E>
struct fmt::formatter<E> {
  constexpr auto parse(auto& context) { return context.begin(); }
  auto format(E value, auto& context) const {
    return std::ranges::copy(name_of(value), context.out()).out;
  }
};
