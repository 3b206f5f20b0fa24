// Questions about texts (SQuAD): batches of token windows, answers, exact match
// and F1.
#include <algorithm>
#include <cmath>
#include <map>

#include "base/file.h"
#include "base/text.h"
#include "comm/collectives.h"
#include "comm/tags.h"
#include "data/questions/answers.h"
#include "data/questions/question_set.h"
#include "problem/feed.h"
#include "problem/problems.h"
#include "problem/setup.h"

namespace syncopate {
namespace {

SampleTable table_of(const QuestionSet& set) {
  SampleTable table;
  table.samples = set.samples();
  for (const Window& window : set.windows)
    table.lengths.push_back(window.length);
  table.groups = set.first_window;
  return table;
}

// The windows of one question, which are evaluated together.
int64_t most_windows(const QuestionSet& set) {
  int64_t most = 0;
  for (size_t question = 0; question + 1 < set.first_window.size(); ++question)
    most = std::max(
        most, set.first_window[question + 1] - set.first_window[question]);
  return most;
}

fs::path n_best_of(fs::path output) {
  return output.replace_extension(".n_best.json");
}

// Returns nullptr if every question has an answer.
const Question* find_unanswered(const QuestionSet& set) {
  const auto found = std::ranges::find_if(
      set.questions,
      [](const Question& question) { return question.answers.empty(); });
  return found == set.questions.end() ? nullptr : &*found;
}

int64_t batch_bytes(int64_t samples, int64_t max_length) {
  const int64_t tokens = samples * max_length;
  Batch batch;
  batch.labels = make_const_tensor(nullptr, DType::kI32, Shape{samples, 2});
  batch.offsets = make_const_tensor(nullptr, DType::kI32, Shape{samples + 1});
  for (ConstTensor* tensor :
       {&batch.tokens, &batch.segments, &batch.positions, &batch.sequences})
    *tensor = make_const_tensor(nullptr, DType::kI32, Shape{tokens});
  return packed_bytes(batch);
}

Fill<QuestionBatch> fill_from(const QuestionSet& set) {
  return [&set](QuestionBatch& batch, std::span<const int64_t> samples) {
    batch.fill(set, samples);
    return batch.view();
  };
}

// --- evaluation

// The loss of a window from its logits (length, 2) of first and last.
double window_loss(const Window& window, std::span<const float> scores) {
  double loss = 0;
  for (const int which : {0, 1}) {
    double largest = -INFINITY, sum = 0;
    for (size_t t = which; t < scores.size(); t += 2)
      largest = std::max(largest, static_cast<double>(scores[t]));
    for (size_t t = which; t < scores.size(); t += 2)
      sum += std::exp(scores[t] - largest);
    const int32_t answer =
        which == 0 ? window.answer_first : window.answer_last;
    loss += std::log(sum) + largest - scores[2 * answer + which];
  }
  return loss / 2;
}

// Calls act(question, scores of its windows, concatenated) for every question
// of a batch, in which a question's windows are adjacent. `scores` is (T, 2)
// for the batch.
template <typename Act>
void for_questions(const QuestionSet& set,
                   std::span<const int64_t> samples,
                   std::span<const float> scores,
                   const Act& act) {
  for (size_t i = 0; i < samples.size();) {
    const int64_t question =
        set.windows[static_cast<size_t>(samples[i])].question;
    size_t values = 0;
    for (const Window& window : set.windows_of(question)) {
      CHECK(samples[i] == &window - set.windows.data());
      values += 2 * static_cast<size_t>(window.length);
      ++i;
    }
    act(question, scores.first(values));
    scores = scores.subspan(values);
  }
}

class QuestionScorer final : public Scorer {
 public:
  QuestionScorer(const Setup& setup,
                 SetPart part,
                 const QuestionSet& set,
                 const AnswerOptions& options,
                 std::unique_ptr<BatchSource> batches)
      : setup_(setup),
        part_(part),
        set_(set),
        options_(options),
        batches_(std::move(batches)) {}

  void add(const ReplicaView& model,
           std::span<const int64_t> samples) override {
    scores_.clear();
    setup_.model->predict(*setup_.context, model, batches_->get(samples),
                          scores_);
    for_questions(set_, samples, scores_,
                  [&](int64_t question, std::span<const float> scores) {
                    judge(question, scores);
                  });
  }

  std::vector<double> metrics(Endpoint* all) override {
    std::vector<double> sums = {loss_, f1_, exact_, windows_, questions_};
    if (all)
      agree(*all, all->world_group(), sums, Combine::kSum, tags::kEvaluation,
            Traffic::kEvaluation);
    // A question about an empty text has no windows and no correct answer.
    const double questions = part_ == SetPart::kTest
                                 ? static_cast<double>(set_.questions.size())
                                 : sums[4];
    return {sums[0] / sums[3], 100 * sums[1] / questions,
            100 * sums[2] / questions};
  }

 private:
  void judge(int64_t question, std::span<const float> scores) {
    size_t at = 0;
    for (const Window& window : set_.windows_of(question)) {
      const size_t values = 2 * static_cast<size_t>(window.length);
      loss_ += window_loss(window, scores.subspan(at, values));
      at += values;
      ++windows_;
    }
    const std::string said =
        best_answers(set_, question, scores, options_)[0].text;
    const auto& right = set_.questions[static_cast<size_t>(question)].answers;
    f1_ += f1_score(said, right);
    exact_ += exact_match(said, right);
    ++questions_;
  }

  const Setup& setup_;
  SetPart part_;
  const QuestionSet& set_;
  AnswerOptions options_;
  std::unique_ptr<BatchSource> batches_;
  std::vector<float> scores_;
  double loss_ = 0, f1_ = 0, exact_ = 0, windows_ = 0, questions_ = 0;
};

// --- the problem

class QuestionProblem final : public Problem {
 public:
  QuestionProblem(const Options& options, int threads)
      : data_(load_questions(options.data, threads)),
        answers_{options.eval.n_best, options.eval.max_answer_length} {
    int64_t most = most_windows(data_.test);
    if (options.eval.on == SetPart::kValidation)
      most = std::max(most, most_windows(data_.train));
    if (most > options.eval.batch)
      fail(ExitCode::kBadInput,
           "eval.batch: {}: the windows of a question are evaluated together, "
           "and one has {} of them",
           options.eval.batch, most);
  }

  std::string source() const override { return data_.source; }
  std::string digest() const override { return data_.digest; }
  std::string vocabulary() const override { return data_.vocabulary_digest; }
  std::string check() const override { return ""; }  // loading reads all

  void require_labels() const override {
    if (const Question* const question = find_unanswered(data_.test))
      fail(ExitCode::kBadInput,
           "{}: question {} has no answers: only predict can use it",
           data_.source, question->id);
  }

  SampleSpec spec() const override {
    return QuestionSpec{data_.vocabulary,
                        std::max(data_.train.longest(), data_.test.longest())};
  }

  SampleTable training_samples() const override {
    return table_of(data_.train);
  }

  SampleTable test_samples() const override { return table_of(data_.test); }

  int64_t memory_bytes() const override {
    return data_.train.memory_bytes() + data_.test.memory_bytes();
  }

  std::string describe() const override {
    return fmt::format(
        "{} training questions{} in windows of up to {} tokens (mean {:.1f}), "
        "{} test questions, vocabulary {}",
        data_.train.questions.size(),
        data_.left_out > 0
            ? fmt::format(" ({} left out: no such answer)", data_.left_out)
            : "",
        data_.train.longest(), data_.train.mean_length(),
        data_.test.questions.size(), data_.vocabulary);
  }

  std::unique_ptr<Feed> make_feed(const Setup& setup,
                                  int rank,
                                  int64_t first_batch) const override {
    return std::make_unique<AheadFeed<QuestionBatch>>(
        setup, rank, first_batch,
        batch_bytes(setup.options.data.batch_of(rank), data_.train.longest()),
        fill_from(data_.train));
  }

  std::vector<std::vector<int32_t>> touched_rows(
      const Setup& setup,
      int rank,
      int64_t first_batch,
      int64_t batches) const override {
    return syncopate::touched_rows(setup, rank, first_batch, batches,
                                   fill_from(data_.train));
  }

  std::unique_ptr<BatchSource> make_batches(
      const Setup& setup,
      SetPart part,
      int64_t max_samples) const override {
    const QuestionSet& from = set(part);
    return std::make_unique<HostBatches<QuestionBatch>>(
        *setup.context, batch_bytes(max_samples, from.longest()),
        fill_from(from));
  }

  std::vector<MetricInfo> metrics() const override {
    return {
        {"loss",
         "mean cross-entropy of the first and the last token of the answer, "
         "nats a window"},
        {"f1",
         "words shared with the nearest right answer (SQuAD 1.1), mean over "
         "questions, in percent",
         "%"},
        {"exact_match",
         "questions whose answer is a right one (SQuAD 1.1), in percent", "%"}};
  }

  std::unique_ptr<Scorer> make_scorer(const Setup& setup,
                                      SetPart part) const override {
    return std::make_unique<QuestionScorer>(
        setup, part, set(part), answers_,
        make_batches(setup, part, setup.options.eval.batch));
  }

  void check_output(const fs::path& output) const override {
    if (output.extension() != ".json")
      fail(ExitCode::kUsage,
           "--output={}: expected a name ending in .json; the n-best answers "
           "go to NAME.n_best.json in the same folder",
           output.string());
    creatable_file(n_best_of(output));
  }

  // Writes predictions.json and, next to it, a file of n-best candidates.
  std::string predict(const Setup& setup,
                      const ReplicaView& model,
                      const fs::path& output) const override {
    const SetPart part = setup.options.eval.on;
    const QuestionSet& from = set(part);
    const auto batches = make_batches(setup, part, setup.options.eval.batch);
    std::map<int64_t, QuestionAnswers> by_question;
    const bool is_judged = find_unanswered(from) == nullptr;
    double f1 = 0, exact = 0;
    const auto answer = [&](int64_t question, std::span<const float> of_it) {
      const Question& asked = from.questions[static_cast<size_t>(question)];
      QuestionAnswers& given = by_question[question];
      given = {asked.id, best_answers(from, question, of_it, answers_)};
      if (!is_judged) return;
      const std::string& said = given.answers[0].text;
      f1 += f1_score(said, asked.answers);
      exact += exact_match(said, asked.answers);
    };
    std::vector<float> scores;
    for (const auto& batch : evaluation_batches(setup, part)) {
      scores.clear();
      setup.model->predict(*setup.context, model, batches->get(batch), scores);
      for_questions(from, batch, scores, answer);
    }
    // An empty text has no window.
    if (part == SetPart::kTest)
      for (size_t question = 0; question < from.questions.size(); ++question)
        if (from.windows_of(static_cast<int64_t>(question)).empty())
          answer(static_cast<int64_t>(question), {});
    std::vector<QuestionAnswers> all;
    for (auto& [question, given] : by_question) all.push_back(std::move(given));
    const fs::path n_best = creatable_file(n_best_of(output));
    write_predictions(output, all);
    write_n_best(n_best, all);
    const std::string what =
        fmt::format("{} answers to the {} set (n-best in {})", all.size(),
                    setup.options.eval.on, n_best.string());
    if (!is_judged) return what + ", some of whose questions have no answers";
    const auto percent = 100 / static_cast<double>(all.size());
    return fmt::format("{}, in percent: f1 {:.4f}, exact_match {:.4f}", what,
                       percent * f1, percent * exact);
  }

 private:
  const QuestionSet& set(SetPart part) const {
    return part == SetPart::kTest ? data_.test : data_.train;
  }

  QuestionData data_;
  AnswerOptions answers_;
};

}  // namespace

std::unique_ptr<Problem> make_question_problem(const Options& options,
                                               int threads) {
  return std::make_unique<QuestionProblem>(options, threads);
}

}  // namespace syncopate
