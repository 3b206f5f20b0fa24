// predictions.json and its n-best companion, in the order of the questions.
#include <unordered_set>

#include "base/check.h"
#include "data/questions/answers.h"
#include "data/strict_json.h"

namespace syncopate {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kMaxBytes = int64_t{1} << 30;  // SQuAD's has 0.5 MB

class PredictionsReader : public StrictJson {
 public:
  explicit PredictionsReader(const fs::path& file)
      : StrictJson(file.string(), "{\"question id\": \"answer\", ...}") {}

  bool start_object(size_t) override {
    if (is_open_) refuse("{");
    return is_open_ = true;
  }
  bool key(string_t& id) override {
    place_ = as_json(id) + ": ";
    if (predictions.contains(id)) refuse("this id for the second time");
    id_ = std::move(id);
    return true;
  }
  bool string(string_t& answer) override {
    if (!is_open_) refuse("a text");
    predictions[id_] = std::move(answer);
    return true;
  }
  bool end_object() override { return true; }

  std::map<std::string, std::string> predictions;

 private:
  bool is_open_ = false;
  std::string id_;
};

// In ASCII, as run_squad writes it. Invalid UTF-8, which JSON cannot hold,
// becomes U+FFFD.
std::string dump(const Json& json) {
  return json.dump(-1, ' ', true, Json::error_handler_t::replace);
}

// Writes {"id": value_of(answers), ...}, one question per line. If an id occurs
// again, the first one is kept.
template <typename ValueOf>
void write_by_id(const fs::path& file,
                 std::span<const QuestionAnswers> answers,
                 const ValueOf& value_of) {
  std::unordered_set<std::string_view> seen;
  std::string text = "{";
  for (const QuestionAnswers& of_id : answers) {
    CHECK(!of_id.answers.empty());
    if (!seen.insert(of_id.id).second) continue;
    text += seen.size() == 1 ? "\n " : ",\n ";
    text += dump(of_id.id) + ": " + value_of(of_id.answers);
  }
  write_file_atomically(file, text + "\n}\n");
}

}  // namespace

std::map<std::string, std::string> read_predictions(const fs::path& file) {
  const std::string text = read_file(file, kMaxBytes);
  PredictionsReader reader(file);
  reader.parse(text);
  return std::move(reader.predictions);
}

void write_predictions(const fs::path& file,
                       std::span<const QuestionAnswers> answers) {
  write_by_id(file, answers, [](const std::vector<Answer>& best_first) {
    return dump(best_first.front().text);
  });
}

void write_n_best(const fs::path& file,
                  std::span<const QuestionAnswers> answers) {
  write_by_id(file, answers, [](const std::vector<Answer>& best_first) {
    Json list = Json::array();
    for (const Answer& answer : best_first)
      list.push_back({{"text", answer.text},
                      {"probability", answer.probability},
                      {"start_logit", answer.first_logit},
                      {"end_logit", answer.last_logit}});
    return dump(list);
  });
}

}  // namespace syncopate
