#include "data/strict_json.h"

namespace syncopate {

std::string as_json(std::string_view text) {
  constexpr size_t kMaxLetters = 80;  // of an error message
  using Json = nlohmann::json;
  const bool is_long = text.size() > kMaxLetters;
  const Json json = std::string(text.substr(0, kMaxLetters));
  // Invalid UTF-8, also from truncation, becomes U+FFFD.
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) +
         (is_long ? "..." : "");
}

void StrictJson::parse(std::string_view text) {
  nlohmann::json::sax_parse(text.begin(), text.end(), this);
}

bool StrictJson::parse_error(size_t position,
                             const std::string& last_token,
                             const nlohmann::json::exception&) {
  fail(ExitCode::kBadInput, "{}: {}not JSON at byte {}, after {}, expected {}",
       origin_, place_, position, as_json(last_token), form_);
}

void StrictJson::refuse(std::string_view found) const {
  fail(ExitCode::kBadInput, "{}: {}found {}, expected {}", origin_, place_,
       found, form_);
}

}  // namespace syncopate
