#include "data/questions/question_set.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "base/check.h"
#include "data/byte_reader.h"
#include "data/kinds.h"
#include "data/questions/question_readers.h"
#include "data/questions/squad.h"
#include "data/questions/wordpiece.h"
#include "data/thread_pool.h"

namespace syncopate {
namespace {

constexpr int64_t kSpecialTokens = 3;  // [CLS], [SEP], [SEP]
constexpr int64_t kBlock = 64;         // texts that a thread takes at once

struct ContextTokens {
  std::vector<int32_t> ids;
  std::vector<TextRange> words;           // by token
  std::vector<TextRange> between_spaces;  // the result of squad_words
  // By entry of between_spaces: its first token; then the number of tokens.
  std::vector<int64_t> first_token;
};

ContextTokens tokenize_context(const std::string& context,
                               const WordPiece& tokenizer) {
  std::vector<Token> tokens;
  tokenizer.tokenize(context, tokens);
  ContextTokens result;
  result.ids.reserve(tokens.size());
  result.words.reserve(tokens.size());
  for (const Token& token : tokens) {
    result.ids.push_back(token.id);
    result.words.push_back(token.word);
  }
  result.between_spaces = squad_words(context);
  size_t at = 0;
  for (const TextRange& word : result.between_spaces) {
    while (at < tokens.size() && tokens[at].text.begin < word.begin) ++at;
    result.first_token.push_back(static_cast<int64_t>(at));
  }
  result.first_token.push_back(std::ssize(tokens));
  return result;
}

std::vector<int32_t> token_ids(const std::string& text,
                               const WordPiece& tokenizer) {
  std::vector<Token> tokens;
  tokenizer.tokenize(text, tokens);
  std::vector<int32_t> ids;
  ids.reserve(tokens.size());
  for (const Token& token : tokens) ids.push_back(token.id);
  return ids;
}

// A range of a context's tokens, both ends inclusive.
struct Span {
  int64_t first = 0, last = -1;
};

// Narrows `span`, whose words contain the answer, to the first tokens in it
// that equal the answer's; returns `span` if none do (run_squad's
// _improve_answer_span).
Span improved(const std::vector<int32_t>& ids,
              Span span,
              const std::vector<int32_t>& answer) {
  const auto length = std::ssize(answer);
  for (int64_t first = span.first; first + length - 1 <= span.last; ++first)
    if (length > 0 &&
        std::equal(answer.begin(), answer.end(), ids.begin() + first))
      return {first, first + length - 1};
  return span;
}

// A tokenized question whose windows have not been made.
struct Draft {
  std::vector<int32_t> ids;
  std::optional<Span> answer;
};

class Windows {
 public:
  Windows(SquadText text,
          const WordPiece& tokenizer,
          const DataOptions& options,
          SquadUse use,
          int threads)
      : text_(std::move(text)),
        tokenizer_(tokenizer),
        options_(options),
        use_(use),
        pool_(threads) {}

  SquadWindows make() {
    in_blocks(std::ssize(text_.contexts), [&](int64_t i) {
      contexts_[at(i)] = tokenize_context(text_.contexts[at(i)], tokenizer_);
    });
    drafts_.resize(text_.questions.size());
    in_blocks(std::ssize(text_.questions), [&](int64_t i) { draft(i); });
    place();
    QuestionSet& set = result_.set;
    const std::array<int64_t, 1> total = {std::max<int64_t>(1, total_tokens_)};
    check_memory("data.stride and data.max_length", total,
                 sizeof(int32_t) + sizeof(TextRange));
    set.tokens.resize(at(total_tokens_));
    set.words.resize(at(total_tokens_));
    in_blocks(set.samples(), [&](int64_t i) { fill(i); });
    mark_max_context();
    set.contexts = std::move(text_.contexts);
    return std::move(result_);
  }

 private:
  static size_t at(int64_t index) { return static_cast<size_t>(index); }

  template <typename Body>
  void in_blocks(int64_t count, const Body& body) {
    contexts_.resize(text_.contexts.size());
    pool_.run((count + kBlock - 1) / kBlock, [&](int64_t block) {
      const int64_t end = std::min(count, (block + 1) * kBlock);
      for (int64_t i = block * kBlock; i < end; ++i) body(i);
    });
  }

  void draft(int64_t index) {
    const Question& question = text_.questions[at(index)];
    Draft& draft = drafts_[at(index)];
    draft.ids = token_ids(question.text, tokenizer_);
    if (std::ssize(draft.ids) > options_.max_question)
      draft.ids.resize(at(options_.max_question));
    const auto& begins = text_.answer_begins[at(index)];
    const size_t usable = use_ == SquadUse::kTrain ? 1 : begins.size();
    for (size_t a = 0; a < usable && !draft.answer; ++a)
      draft.answer = answer_span(question, question.answers[a], begins[a]);
  }

  std::optional<Span> answer_span(const Question& question,
                                  const std::string& answer,
                                  std::optional<int64_t> begin) {
    const std::string& context = text_.contexts[at(question.context)];
    const ContextTokens& tokens = contexts_[at(question.context)];
    const auto words =
        find_answer(context, tokens.between_spaces, begin, answer);
    if (!words) return std::nullopt;
    const Span span = {tokens.first_token[at(words->first)],
                       tokens.first_token[at(words->last) + 1] - 1};
    if (span.first > span.last) return std::nullopt;
    return improved(tokens.ids, span, token_ids(answer, tokenizer_));
  }

  int64_t room(const Draft& draft) const {
    return options_.max_length - kSpecialTokens - std::ssize(draft.ids);
  }

  // Drops training questions without an answer and lays out the windows of the
  // others.
  void place() {
    QuestionSet& set = result_.set;
    size_t kept = 0;
    for (size_t i = 0; i < drafts_.size(); ++i) {
      if (use_ == SquadUse::kTrain && !drafts_[i].answer) {
        ++result_.left_out;
        continue;
      }
      if (kept != i) {
        drafts_[kept] = std::move(drafts_[i]);
        text_.questions[kept] = std::move(text_.questions[i]);
      }
      place_windows(static_cast<int64_t>(kept++));
    }
    drafts_.resize(kept);
    text_.questions.resize(kept);
    set.questions = std::move(text_.questions);
    set.first_window.push_back(set.samples());
  }

  // Windows begin every `stride` tokens until one contains the context's end.
  void place_windows(int64_t question) {
    QuestionSet& set = result_.set;
    const Draft& draft = drafts_[at(question)];
    const int64_t tokens =
        std::ssize(contexts_[at(text_.questions[at(question)].context)].ids);
    set.first_window.push_back(set.samples());
    for (int64_t first = 0; first < tokens;) {
      const int64_t length = std::min(tokens - first, room(draft));
      Window window;
      window.question = question;
      window.first_token = total_tokens_;
      window.length =
          static_cast<int32_t>(length + std::ssize(draft.ids) + kSpecialTokens);
      window.context_at = static_cast<int32_t>(std::ssize(draft.ids) + 2);
      if (draft.answer && draft.answer->first >= first &&
          draft.answer->last < first + length) {
        const int64_t shift = window.context_at - first;
        window.answer_first = static_cast<int32_t>(draft.answer->first + shift);
        window.answer_last = static_cast<int32_t>(draft.answer->last + shift);
      }
      set.windows.push_back(window);
      starts_.push_back(first);
      total_tokens_ += window.length;
      if (first + length == tokens) break;
      first += std::min(length, options_.stride);
    }
  }

  void fill(int64_t index) {
    QuestionSet& set = result_.set;
    const Window& window = set.windows[at(index)];
    const Draft& draft = drafts_[at(window.question)];
    const ContextTokens& context =
        contexts_[at(set.questions[at(window.question)].context)];
    int32_t* token = set.tokens.data() + window.first_token;
    *token++ = tokenizer_.classifier();
    token = std::copy(draft.ids.begin(), draft.ids.end(), token);
    *token++ = tokenizer_.separator();
    const int64_t first = starts_[at(index)];
    const int64_t length = window.length - window.context_at - 1;
    token = std::copy_n(context.ids.data() + first, length, token);
    *token = tokenizer_.separator();
    std::copy_n(context.words.data() + first, length,
                set.words.data() + window.first_token + window.context_at);
  }

  // run_squad's rule: among the windows that contain the token, the first one
  // with the largest min(tokens before it, tokens after it) + 0.01 * length.
  void mark_max_context() {
    QuestionSet& set = result_.set;
    set.is_max_context.assign(at(total_tokens_), false);
    for (size_t question = 0; question < set.questions.size(); ++question) {
      const int64_t begin = set.first_window[question];
      const int64_t end = set.first_window[question + 1];
      int64_t earliest = begin;
      const int64_t tokens =
          begin == end ? 0 : starts_[at(end - 1)] + held(end - 1);
      for (int64_t token = 0; token < tokens; ++token) {
        while (token >= starts_[at(earliest)] + held(earliest)) ++earliest;
        int64_t best = earliest;
        double best_score = -1;
        for (int64_t i = earliest; i < end && starts_[at(i)] <= token; ++i) {
          const int64_t before = token - starts_[at(i)];
          const int64_t behind = held(i) - 1 - before;
          const double score = static_cast<double>(std::min(before, behind)) +
                               0.01 * static_cast<double>(held(i));
          if (score <= best_score) continue;
          best = i;
          best_score = score;
        }
        const Window& window = set.windows[at(best)];
        set.is_max_context[at(window.first_token + window.context_at + token -
                              starts_[at(best)])] = true;
      }
    }
  }

  // The number of context tokens in window `index`.
  int64_t held(int64_t index) const {
    const Window& window = result_.set.windows[at(index)];
    return window.length - window.context_at - 1;
  }

  SquadText text_;
  const WordPiece& tokenizer_;
  const DataOptions& options_;
  const SquadUse use_;
  ThreadPool pool_;
  std::vector<ContextTokens> contexts_;
  std::vector<Draft> drafts_;
  std::vector<int64_t> starts_;  // by window: its first token of the context
  int64_t total_tokens_ = 0;
  SquadWindows result_;
};

template <typename T>
int64_t held_bytes(const std::vector<T>& values) {
  return static_cast<int64_t>(values.capacity() * sizeof(T));
}

int64_t held_bytes(const std::string& text) {
  return static_cast<int64_t>(sizeof(text) + text.capacity());
}

}  // namespace

SquadWindows make_windows(SquadText text,
                          const WordPiece& tokenizer,
                          const DataOptions& options,
                          SquadUse use,
                          int threads) {
  CHECK(text.questions.size() == text.answer_begins.size());
  return Windows(std::move(text), tokenizer, options, use, threads).make();
}

// --- the set

int64_t QuestionSet::longest() const {
  int64_t longest = 0;
  for (const Window& window : windows)
    longest = std::max<int64_t>(longest, window.length);
  return longest;
}

double QuestionSet::mean_length() const {
  return windows.empty() ? 0
                         : static_cast<double>(tokens.size()) /
                               static_cast<double>(windows.size());
}

int64_t QuestionSet::memory_bytes() const {
  int64_t bytes = held_bytes(windows) + held_bytes(tokens) + held_bytes(words) +
                  held_bytes(first_window) +
                  static_cast<int64_t>(is_max_context.capacity() / 8);
  for (const std::string& context : contexts) bytes += held_bytes(context);
  for (const Question& question : questions) {
    bytes += static_cast<int64_t>(sizeof(question.context)) +
             held_bytes(question.id) + held_bytes(question.text) +
             static_cast<int64_t>(sizeof(question.answers));
    for (const std::string& answer : question.answers)
      bytes += held_bytes(answer);
  }
  return bytes;
}

std::span<const Window> QuestionSet::windows_of(int64_t question) const {
  const int64_t begin = first_window[static_cast<size_t>(question)];
  const int64_t end = first_window[static_cast<size_t>(question) + 1];
  return std::span(windows).subspan(static_cast<size_t>(begin),
                                    static_cast<size_t>(end - begin));
}

// --- a batch

void QuestionBatch::fill(const QuestionSet& set,
                         std::span<const int64_t> samples) {
  for (auto* values :
       {&labels, &tokens, &segments, &positions, &sequences, &offsets})
    values->clear();
  max_length = 0;
  offsets.push_back(0);
  for (const int64_t sample : samples) {
    const Window& window = set.windows[static_cast<size_t>(sample)];
    const size_t begin = tokens.size();
    const size_t end = begin + static_cast<size_t>(window.length);
    const int32_t* from = set.tokens.data() + window.first_token;
    tokens.insert(tokens.end(), from, from + window.length);
    segments.resize(begin + static_cast<size_t>(window.context_at), 0);
    segments.resize(end, 1);
    positions.resize(end);
    std::iota(positions.begin() + static_cast<int64_t>(begin), positions.end(),
              0);
    sequences.resize(end, static_cast<int32_t>(std::ssize(offsets) - 1));
    labels.push_back(window.answer_first);
    labels.push_back(window.answer_last);
    CHECK(end <= INT32_MAX);
    offsets.push_back(static_cast<int32_t>(end));
    max_length = std::max<int64_t>(max_length, window.length);
  }
}

Batch QuestionBatch::view() const {
  const int64_t N = std::ssize(offsets) - 1, T = std::ssize(tokens);
  const auto row = [](const std::vector<int32_t>& values, Shape shape) {
    return make_const_tensor(values.data(), DType::kI32, shape);
  };
  Batch batch;
  batch.samples = N;
  batch.labels = row(labels, {N, 2});
  batch.tokens = row(tokens, {T});
  batch.segments = row(segments, {T});
  batch.positions = row(positions, {T});
  batch.sequences = row(sequences, {T});
  batch.offsets = row(offsets, {N + 1});
  batch.max_length = max_length;
  return batch;
}

// --- reading

namespace {

void check_options(const DataOptions& options) {
  const auto at_least = [](const char* key, int64_t value, int64_t least) {
    if (value < least)
      fail(ExitCode::kBadInput, "data.{}: {}, expected at least {}", key, value,
           least);
  };
  constexpr int64_t kMostTokens = 1 << 20;
  at_least("max_question", options.max_question, 1);
  at_least("stride", options.stride, 1);
  const std::array<std::pair<const char*, int64_t>, 3> lengths = {
      {{"max_question", options.max_question},
       {"stride", options.stride},
       {"max_length", options.max_length}}};
  for (const auto& [key, value] : lengths)
    if (value > kMostTokens)
      fail(ExitCode::kBadInput, "data.{}: {}, expected at most {}", key, value,
           kMostTokens);
  const int64_t least = options.max_question + kSpecialTokens + 1;
  if (options.max_length < least)
    fail(ExitCode::kBadInput,
         "data.max_length: {}, expected at least {} to hold data.max_question "
         "= {} tokens, [CLS], two [SEP] and one token of the context",
         options.max_length, least, options.max_question);
}

}  // namespace

QuestionData load_questions(const DataOptions& options,
                            int threads,
                            QuestionParts parts) {
  check_options(options);
  const DataKind* kind = find_data_kind(options.kind);
  CHECK_MSG(kind != nullptr && kind->open_questions != nullptr, "data.kind: {}",
            options.kind);
  const QuestionTexts texts = kind->open_questions(options);
  const WordPiece& tokenizer = texts.tokenizer;
  QuestionData data;
  std::string read;  // digests of what was read
  const auto load = [&](const QuestionTexts::Part& part, SquadUse use) {
    SquadText text = part.read();
    read += text.digest + " ";
    const int64_t questions = std::ssize(text.questions);
    SquadWindows made =
        make_windows(std::move(text), tokenizer, options, use, threads);
    if (made.set.windows.empty())
      fail(ExitCode::kBadInput,
           "{}: for none of its {} questions does the context contain the "
           "answer at answer_start, expected at least one",
           part.origin, questions);
    return made;
  };
  const bool has_train = texts.train.is_there || !options.trained.is_used;
  if (parts == QuestionParts::kBoth && has_train) {
    SquadWindows train = load(texts.train, SquadUse::kTrain);
    data.train = std::move(train.set);
    data.left_out = train.left_out;
  }
  data.test = load(texts.test, SquadUse::kTest).set;
  data.vocabulary = tokenizer.size();
  data.vocabulary_digest = tokenizer.digest();
  data.digest = digest_of(
      fmt::format("{}{} lower_case {} max_length {} stride {} max_question {}",
                  read, tokenizer.digest(), options.lower_case,
                  options.max_length, options.stride, options.max_question));
  data.source = texts.source;
  return data;
}

}  // namespace syncopate
