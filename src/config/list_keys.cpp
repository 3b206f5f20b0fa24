// Formats the table of keys for `list keys` and for inputs/README.md.
#include <algorithm>

#include "base/text.h"
#include "config/config.h"
#include "config/value.h"

namespace syncopate {
namespace {

std::string default_text(const Key& key) {
  const std::string text = format_value(key, Options{});
  return text.empty() ? "-" : text;
}

// "schedule.kind = polynomial"; empty: always.
std::string use_text(const Key& key) {
  std::string text;
  for (const UsedWhen& rule : key.used_when) {
    if (!text.empty()) text += " and ";
    if (!rule.values.empty())
      text += fmt::format("{} = {}", rule.key, in_words(rule.values));
    else
      text += rule.key + (find_key(rule.key)->zero_word.empty() ? " > 0" : "");
  }
  return text;
}

// Whether the key is used by what this word chooses: a scheme, a network, ...
bool is_used_by(const Key& key, const std::string& choice) {
  return std::ranges::any_of(key.used_when, [&](const UsedWhen& rule) {
    return std::ranges::find(rule.values, choice) != rule.values.end();
  });
}

const char* resume_text(const Key& key) {
  if (key.on_resume == OnResume::kMayExtend) return "see above";
  return key.on_resume == OnResume::kMayChange ? "yes" : "no";
}

// Lines of at most 78 columns, indented by four.
std::string wrapped(const std::string& text) {
  constexpr size_t kColumns = 78;
  std::string lines, line;
  for (const std::string& word : split(text, ' ')) {
    if (!line.empty() && 4 + line.size() + 1 + word.size() > kColumns) {
      lines += "    " + line + '\n';
      line.clear();
    }
    line += (line.empty() ? "" : " ") + word;
  }
  return lines + "    " + line + '\n';
}

}  // namespace

std::string list_keys(const std::string& wanted) {
  std::string text, section;
  for (const Key& key : key_table()) {
    if (!wanted.empty() && key.section() != wanted && key.name != wanted &&
        !is_used_by(key, wanted))
      continue;
    if (section != key.section()) {
      if (!section.empty()) text += '\n';
      section = key.section();
      text += fmt::format("[{}]\n", section);
    }
    text += fmt::format("{} = {}\n", key.word(), default_text(key));
    text += wrapped(key.doc);
    const std::string use = use_text(key);
    text += wrapped(fmt::format(
        "Accepts {}.{}{}", accepted_values(key),
        use.empty() ? "" : " Used by " + use + ".",
        key.on_resume == OnResume::kMayChange ? " May change on resume." : ""));
  }
  if (text.empty())
    fail(
        ExitCode::kUsage,
        "list keys {}: no such key or section, nor a choice with keys of its "
        "own, expected one of {}, a key such as optimizer.lr, or a choice such "
        "as choco",
        wanted, join(section_names(), " "));
  return text;
}

std::string list_keys_markdown() {
  std::string text, section;
  for (const Key& key : key_table()) {
    if (section != key.section()) {
      section = key.section();
      text += fmt::format(
          "\n### [{}]\n\n"
          "| key | default | accepts | used by | may change on resume | "
          "meaning |\n|---|---|---|---|---|---|\n",
          section);
    }
    const std::string use = use_text(key);
    text += fmt::format("| `{}` | `{}` | {} | {} | {} | {} |\n", key.word(),
                        default_text(key), accepted_values(key),
                        use.empty() ? "all" : use, resume_text(key), key.doc);
  }
  return text;
}

}  // namespace syncopate
