#include "config/value.h"

#include <algorithm>

#include "base/check.h"
#include "base/text.h"

namespace syncopate {

std::optional<std::string> parse_value(const Key& key,
                                       std::string_view text,
                                       Options& options) {
  return parse_value(key, text, key.place.in(options));
}

std::string format_value(const Key& key, const Options& options) {
  // Only Target's type asks for a mutable Options; nothing is written.
  return format_value(key, key.place.in(const_cast<Options&>(options)));
}

std::optional<std::string> reason_unused(const Key& key,
                                         const Options& options) {
  for (const UsedWhen& rule : key.used_when) {
    const Key* other = find_key(rule.key);
    CHECK_MSG(other != nullptr, "{} used by {}", key.name, rule.key);
    const std::string now = format_value(*other, options);
    if (rule.values.empty()) {
      if (other->zero_word.empty() && now != "0") continue;
      if (!other->zero_word.empty() && now != other->zero_word) continue;
      return fmt::format("is used only with {}{}", rule.key,
                         other->zero_word.empty() ? " > 0" : "");
    }
    // For a composite scheme, the schemes of its phases count.
    const std::vector<std::string> words = rule.key == "sync.scheme"
                                               ? schemes_in_use(options.sync)
                                               : list_items(now);
    if (std::ranges::find_first_of(words, rule.values) != words.end()) continue;
    return fmt::format("is used by {} = {}, not by {}", rule.key,
                       in_words(rule.values),
                       rule.key == "sync.scheme" && words.size() > 1
                           ? "a phase of sync_switch.order"
                           : now);
  }
  return std::nullopt;
}

}  // namespace syncopate
