// Synthetic questions. A context consists of filler words with facts between
// them. A fact is a key, one to three values and a full stop. A question
// consists of asking words followed by a key of its context, and its answer is
// the values of that key. A value is a stem and an ending, two pieces of the
// vocabulary. Each asking word, each stem of a first value and each ending of a
// last value belongs to one key, so that a small model can learn to answer from
// token identities before it has learned to use positions.
#include <algorithm>
#include <array>

#include "base/rng.h"
#include "data/byte_reader.h"
#include "data/questions/question_readers.h"

namespace syncopate {
namespace {

constexpr int64_t kKeys = 4, kFillers = 192, kStemsOfKey = 8, kEndings = 4;
constexpr int64_t kAskingWords = 8;                 // per key
constexpr int64_t kLeastAsked = 4, kMostAsked = 8;  // per question
constexpr int64_t kMadeWords =
    kKeys + kFillers + kStemsOfKey * (kKeys + 1) + kKeys * kAskingWords;
constexpr int64_t kMostFacts = 3, kMostValues = 3;
constexpr int64_t kWordsOfFact = 8;  // context words per fact
constexpr std::string_view kConsonants = "bdfgklmnprstvz", kVowels = "aeiou";
constexpr int64_t kSyllables =
    std::ssize(kConsonants) * std::ssize(kVowels);  // 70

std::string syllable(int64_t number) {
  const int64_t vowels = std::ssize(kVowels);
  return {kConsonants[static_cast<size_t>(number / vowels)],
          kVowels[static_cast<size_t>(number % vowels)]};
}

// Two syllables; distinct numbers below kSyllables^2 give distinct words.
std::string made_word(int64_t number) {
  constexpr int64_t kStep = 11;  // spreads the second syllables
  const int64_t first = number % kSyllables;
  return syllable(first) +
         syllable((number / kSyllables + kStep * first) % kSyllables);
}
std::string key_word(int64_t key) {
  return made_word(key);
}
std::string filler_word(int64_t filler) {
  return made_word(kKeys + filler);
}
// `key` == kKeys: the stems of all values but the first of an answer, which
// are shared by all keys.
std::string stem(int64_t key, int64_t number) {
  return made_word(kKeys + kFillers + key * kStemsOfKey + number);
}
std::string asking_word(int64_t key, int64_t number) {
  return made_word(kKeys + kFillers + kStemsOfKey * (kKeys + 1) +
                   key * kAskingWords + number);
}
std::string ending(int64_t key, int64_t number) {
  constexpr int64_t kStep = 3;  // spreads them over the syllables
  return syllable((key * kEndings + number) * kStep);
}

int64_t draw(Rng& rng, int64_t bound) {
  return static_cast<int64_t>(rng.below(static_cast<uint64_t>(bound)));
}

struct Fact {
  int64_t key = 0;
  std::string values;
};

Fact draw_fact(int64_t key, Rng& rng) {
  Fact fact = {.key = key, .values = ""};
  const int64_t count = 1 + draw(rng, kMostValues);
  for (int64_t i = 0; i < count; ++i) {
    if (i > 0) fact.values += ' ';
    fact.values += stem(i == 0 ? key : kKeys, draw(rng, kStemsOfKey));
    fact.values += ending(i == count - 1 ? key : kKeys, draw(rng, kEndings));
  }
  return fact;
}

std::string draw_question(int64_t key, Rng& rng) {
  std::string text;
  const int64_t words = kLeastAsked + draw(rng, kMostAsked - kLeastAsked + 1);
  for (int64_t i = 0; i < words; ++i)
    text += asking_word(key, draw(rng, kAskingWords)) + " ";
  return text + key_word(key) + "?";
}

void add_question(const DataOptions& options, Rng rng, SquadText& text) {
  const int64_t words =
      options.context_words / 2 + draw(rng, options.context_words + 1);
  const int64_t facts =
      std::clamp<int64_t>(words / kWordsOfFact, 1, kMostFacts);
  std::array<int64_t, kKeys> keys{};
  for (int64_t i = 0; i < kKeys; ++i) keys[static_cast<size_t>(i)] = i;
  for (int64_t i = 0; i < facts; ++i)
    std::swap(keys[static_cast<size_t>(i)],
              keys[static_cast<size_t>(i + draw(rng, kKeys - i))]);
  // Fact f is placed before filler number place[f].
  const int64_t fillers = std::max<int64_t>(0, words - 3 * facts);
  std::array<int64_t, kMostFacts> place{};
  for (int64_t f = 0; f < facts; ++f)
    place[static_cast<size_t>(f)] = draw(rng, fillers + 1);
  std::sort(place.begin(), place.begin() + facts);
  const int64_t asked = draw(rng, facts);

  Question question;
  std::string context;
  int64_t begin = 0, fact = 0;
  for (int64_t i = 0; i <= fillers; ++i) {
    for (; fact < facts && place[static_cast<size_t>(fact)] == i; ++fact) {
      const Fact said = draw_fact(keys[static_cast<size_t>(fact)], rng);
      context += key_word(said.key) + " ";
      if (fact == asked) {
        begin = std::ssize(context);
        question.text = draw_question(said.key, rng);
        question.answers = {said.values};
      }
      context += said.values + ". ";
    }
    if (i < fillers) context += filler_word(draw(rng, kFillers)) + " ";
  }
  context.pop_back();
  question.id = fmt::format("made-{}", text.questions.size());
  question.context = std::ssize(text.contexts);
  text.contexts.push_back(std::move(context));
  text.questions.push_back(std::move(question));
  text.answer_begins.push_back({begin});
}

}  // namespace

std::string synthetic_squad_vocabulary() {
  std::string lines = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n.\n?\n";
  for (int64_t i = 0; i < kMadeWords; ++i) lines += made_word(i) + "\n";
  for (int64_t key = 0; key <= kKeys; ++key)
    for (int64_t i = 0; i < kEndings; ++i)
      lines += "##" + ending(key, i) + "\n";
  return lines;
}

SquadText make_synthetic_squad(const DataOptions& options,
                               int64_t questions,
                               uint64_t stream) {
  constexpr int64_t kMostWords = 1'000'000;
  if (questions < 1)
    fail(ExitCode::kBadInput,
         "data.samples and data.test_samples: {}, expected at least 1",
         questions);
  if (options.context_words < kWordsOfFact ||
      options.context_words > kMostWords)
    fail(ExitCode::kBadInput, "data.context_words: {}, expected {} to {}",
         options.context_words, kWordsOfFact, kMostWords);
  constexpr int64_t kBytesOfWord = 32;  // text, tokens and ranges together
  const std::array<int64_t, 2> factors = {questions, options.context_words};
  check_memory("synthetic_squad", factors, kBytesOfWord);
  SquadText text;
  for (int64_t i = 0; i < questions; ++i)
    add_question(options,
                 Rng(options.synthetic_seed, Purpose::kSynthetic,
                     static_cast<uint64_t>(i), stream),
                 text);
  text.digest = digest_of(fmt::format(
      "made 1, seed {}, stream {}, {} of {} words", options.synthetic_seed,
      stream, questions, options.context_words));
  return text;
}

QuestionTexts open_synthetic_squad(const DataOptions& options) {
  const auto part = [&](int64_t questions,
                        uint64_t stream) -> QuestionTexts::Part {
    return {options.kind, [options, questions, stream] {
              return make_synthetic_squad(options, questions, stream);
            }};
  };
  return {fmt::format("synthetic_squad {} + {} of about {} words, seed {}",
                      options.samples, options.test_samples,
                      options.context_words, options.synthetic_seed),
          WordPiece("synthetic_squad", synthetic_squad_vocabulary(),
                    letter_case(options)),
          part(options.samples, 1), part(options.test_samples, 2)};
}

}  // namespace syncopate
