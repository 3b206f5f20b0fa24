// Reads JSON of a known form event by event, in bounded memory. Anything that a
// reader does not expect is Error(kBadInput), one line that states the form.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "base/error.h"

namespace syncopate {

// `text` as a JSON string for an error message, truncated if it is long.
std::string as_json(std::string_view text);

// A reader overrides the events that its form allows; all others are refused.
class StrictJson : public nlohmann::json_sax<nlohmann::json> {
 public:
  // Errors begin with `origin` and end with ", expected `form`".
  StrictJson(std::string origin, std::string form)
      : origin_(std::move(origin)), form_(std::move(form)) {}
  void parse(std::string_view text);

  bool null() override { refuse("null"); }
  bool boolean(bool) override { refuse("true or false"); }
  bool number_integer(number_integer_t) override { refuse("a number"); }
  bool number_unsigned(number_unsigned_t) override { refuse("a number"); }
  bool number_float(number_float_t, const string_t&) override {
    refuse("a number");
  }
  bool string(string_t&) override { refuse("a text"); }
  bool binary(binary_t&) override { refuse("bytes"); }
  bool start_object(size_t) override { refuse("{"); }
  bool key(string_t&) override { refuse("a name"); }
  bool end_object() override { refuse("}"); }
  bool start_array(size_t) override { refuse("["); }
  bool end_array() override { refuse("]"); }
  bool parse_error(size_t position,
                   const std::string& last_token,
                   const nlohmann::json::exception& error) override;

 protected:
  // Where the current event lies, e.g. "\"x\": "; part of every message.
  std::string place_;
  [[noreturn]] void refuse(std::string_view found) const;

 private:
  std::string origin_, form_;
};

}  // namespace syncopate
