// Unicode's rules of letters that the tokenizer and the evaluation of answers
// share.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace syncopate {

inline constexpr char32_t kCapitalSigma = 0x3A3, kFinalSigma = 0x3C2;

// White space as Python's str.split() and str.isspace() define it.
bool is_python_space(char32_t letter);

// The property Cased (Lu, Ll, Lt, Other_Lowercase, Other_Uppercase) without
// code points that are also Case_Ignorable.
bool is_cased(char32_t letter);

// The property Case_Ignorable: Mn, Me, Cf, Lm, Sk, and the word breaks
// MidLetter, MidNumLet and Single_Quote.
bool is_case_ignorable(char32_t letter);

// The condition Final_Sigma (SpecialCasing.txt) at `place` of `count` letters,
// given by letter_at(place): a cased letter precedes and none follows.
template <typename LetterAt>
bool is_final_sigma(size_t place, size_t count, const LetterAt& letter_at) {
  size_t before = place;
  while (before > 0 && is_case_ignorable(letter_at(before - 1))) --before;
  size_t behind = place + 1;
  while (behind < count && is_case_ignorable(letter_at(behind))) ++behind;
  return before > 0 && is_cased(letter_at(before - 1)) &&
         (behind == count || !is_cased(letter_at(behind)));
}

}  // namespace syncopate
