#include "data/questions/unicode.h"

#include <utf8proc.h>

#include <string_view>

namespace syncopate {
namespace {

bool is_in(char32_t letter, char32_t first, char32_t last) {
  return letter >= first && letter <= last;
}

// Unassigned (Cn) for what is no code point.
utf8proc_category_t category(char32_t letter) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(letter));
}

}  // namespace

bool is_python_space(char32_t letter) {
  return is_in(letter, 0x09, 0x0D) || is_in(letter, 0x1C, 0x20) ||
         letter == 0x85 ||
         (letter >= 128 && category(letter) >= UTF8PROC_CATEGORY_ZS &&
          category(letter) <= UTF8PROC_CATEGORY_ZP);
}

bool is_cased(char32_t letter) {
  switch (category(letter)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
      return true;
    default:
      return letter == 0xAA || letter == 0xBA ||
             is_in(letter, 0x2160, 0x217F) || is_in(letter, 0x24B6, 0x24E9) ||
             is_in(letter, 0x1F130, 0x1F149) ||
             is_in(letter, 0x1F150, 0x1F169) || is_in(letter, 0x1F170, 0x1F189);
  }
}

bool is_case_ignorable(char32_t letter) {
  switch (category(letter)) {
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_SK:
      return true;
    default:
      constexpr std::u32string_view kBreaks =
          U"'.:\u00b7\u0387\u055f\u05f4\u2018\u2019\u2024\u2027\ufe13\ufe52"
          U"\ufe55\uff07\uff0e\uff1a";
      return kBreaks.find(letter) != kBreaks.npos;
  }
}

}  // namespace syncopate
