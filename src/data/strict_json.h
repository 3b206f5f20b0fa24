// JSON of a known form, read event by event in bounded memory: whatever a
// reader does not expect is one line Error(kBadInput) that says what it does.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "base/error.h"

namespace syncopate {

// `text` for an error's line: as JSON, and cut where it is long.
std::string as_json(std::string_view text);

// A reader overrides the events that its form has; the others are refused.
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
  // The place within the form: "", or "tensor "x": ".
  std::string place_;
  [[noreturn]] void refuse(std::string_view found) const;

 private:
  std::string origin_, form_;
};

}  // namespace syncopate
