#include "config/episodes.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/check.h"
#include "base/rng.h"
#include "base/text.h"
#include "config/options.h"

namespace syncopate {
namespace {

// A sum of step times that meets an episode's beginning or end may be a little
// below it, by this share.
constexpr double kRounding = 1e-9;

// "30ms", "0.5s" and, where allowed, "200steps".
struct Duration {
  double value = 0;
  bool is_in_steps = false;
};
std::optional<Duration> parse_duration(std::string_view text) {
  for (const auto& [unit, scale] :
       {std::pair<std::string_view, double>{"steps", 1},
        {"ms", 1e-3},
        {"s", 1}}) {
    if (!text.ends_with(unit)) continue;
    text.remove_suffix(unit.size());
    const bool is_in_steps = unit == "steps";
    const auto value = parse_double(text);
    if (!value || *value < 0 || (is_in_steps && *value != std::floor(*value)))
      return std::nullopt;
    return Duration{*value * scale, is_in_steps};
  }
  return std::nullopt;
}

// Returns a number of workers or a rank, or -1 if `text` is none.
int64_t parse_rank(std::string_view text) {
  constexpr int64_t kMostRanks = 1 << 20;
  const int64_t rank = parse_int(text).value_or(-1);
  return rank < kMostRanks ? rank : -1;
}

bool parse_workers(const std::string& text, Episode& episode) {
  episode.is_of_all = text == "all";
  if (episode.is_of_all) return true;
  if (text.starts_with("any")) {
    episode.any = parse_rank(std::string_view(text).substr(3));
    return episode.any > 0;
  }
  for (const std::string& part : split(text, '+')) {
    const size_t dash = part.find('-');
    const int64_t first = parse_rank(part.substr(0, dash));
    const int64_t last =
        dash == std::string::npos ? first : parse_rank(part.substr(dash + 1));
    if (first < 0 || last < first) return false;
    for (int64_t rank = first; rank <= last; ++rank)
      episode.workers.push_back(static_cast<int>(rank));
  }
  std::ranges::sort(episode.workers);
  return !episode.workers.empty();
}

bool parse_amount(const std::string& text, Episode& episode) {
  if (text.empty()) return false;
  const std::string_view amount = std::string_view(text).substr(1);
  if (text.starts_with("+")) {
    const auto added = parse_duration(amount);
    episode.added_s = added && !added->is_in_steps ? added->value : 0;
    return episode.added_s > 0 && episode.added_s <= kLongestStep_s;
  }
  episode.times = parse_double(amount).value_or(0);
  return text.starts_with("x") && episode.times >= 1 && episode.times <= 1e6;
}

// The optional NAME=VALUE fields of one episode.
class Fields {
 public:
  explicit Fields(Episode& episode) : episode_(episode) {}

  std::string take(const std::string& field) {
    const size_t equals = field.find('=');
    const std::string name = field.substr(0, equals);
    const std::string value =
        equals == std::string::npos ? "" : field.substr(equals + 1);
    if (has(name)) return name + " is given twice";
    seen_.push_back(name);
    if (name == "at") {
      episode_.is_at_random = true;
      return value == "random" ? "" : "expected at=random";
    }
    if (name == "count") {
      const auto count = parse_int(value);
      episode_.count = count.value_or(0);
      return episode_.count >= 1 ? "" : "expected count=N with N >= 1";
    }
    double* const place = name == "from"    ? &episode_.from
                          : name == "for"   ? &episode_.length
                          : name == "until" ? &until_
                          : name == "every" ? &episode_.every
                                            : nullptr;
    if (place == nullptr)
      return fmt::format(
          "{} is unknown, expected from, for, until, every, count or at", name);
    const auto time = parse_duration(value);
    if (!time)
      return fmt::format("expected {}=TIME such as 94s, 500ms or 200steps",
                         name);
    if (has_unit_ && time->is_in_steps != episode_.is_in_steps)
      return "times are partly in seconds and partly in steps";
    has_unit_ = true;
    episode_.is_in_steps = time->is_in_steps;
    *place = time->value;
    return "";
  }

  std::string finish() {
    if (has("for") && has("until")) return "for and until are both given";
    if (has("for") && episode_.length <= 0) return "expected for > 0";
    if (has("until")) {
      if (until_ <= episode_.from) return "expected until > from";
      episode_.length = until_ - episode_.from;
    }
    if (!has("every"))
      return has("count") || has("at") ? "count and at need every" : "";
    if (episode_.length <= 0) return "every needs for or until";
    if (episode_.every < episode_.length)
      return "a repetition begins before the one before has ended";
    return "";
  }

 private:
  bool has(const std::string& name) const {
    return std::ranges::count(seen_, name) > 0;
  }
  Episode& episode_;
  std::vector<std::string> seen_;
  double until_ = 0;
  bool has_unit_ = false;
};

}  // namespace

std::string parse_episode(const std::string& text, Episode& episode) {
  episode = {};
  const std::vector<std::string> fields = split(text, ':');
  if (fields.size() < 3)
    return "expected WORKERS:KIND:AMOUNT, as in 6+7:link:+30ms";
  if (!parse_workers(fields[0], episode))
    return fmt::format("{}: expected ranks as 7, 6+7, 0-3, all or any2",
                       fields[0]);
  const auto kind = value_named<EpisodeKind>(fields[1]);
  if (!kind)
    return fmt::format("{}: expected compute, link or pause", fields[1]);
  episode.kind = *kind;
  if (!parse_amount(fields[2], episode))
    return fmt::format(
        "{}: expected a time to add, as +30ms, or a factor of at least 1, as "
        "x4",
        fields[2]);
  if (episode.kind == Episode::Kind::kPause && episode.added_s == 0)
    return fmt::format("{}: expected the length of a pause, as +30ms",
                       fields[2]);
  Fields rest(episode);
  for (size_t i = 3; i < fields.size(); ++i)
    if (std::string mistake = rest.take(fields[i]); !mistake.empty())
      return mistake;
  return rest.finish();
}

std::string episodes_mistake(const std::vector<std::string>& texts,
                             int64_t workers) {
  for (const std::string& text : texts) {
    Episode episode;
    std::string mistake = parse_episode(text, episode);
    int64_t most = episode.any - 1;
    for (const int rank : episode.workers) most = std::max<int64_t>(most, rank);
    if (mistake.empty() && workers > 0 && most >= workers)
      mistake = episode.any > 0
                    ? fmt::format("any{} draws more than all {} workers",
                                  episode.any, workers)
                    : fmt::format(
                          "{} is not a rank of {} workers, which are "
                          "counted from 0",
                          most, workers);
    if (!mistake.empty()) return text + ": " + mistake;
  }
  return "";
}

Episodes::Episodes(const std::vector<std::string>& texts,
                   int workers,
                   uint64_t seed)
    : workers_(workers), seed_(seed) {
  for (const std::string& text : texts) {
    const std::string mistake = parse_episode(text, episodes_.emplace_back());
    CHECK_MSG(mistake.empty(), "{}: {}", text, mistake);
  }
}

bool Episodes::has(Episode::Kind kind) const {
  return std::ranges::count(episodes_, kind, &Episode::kind) > 0;
}

namespace {

// An episode's random draws. Those of random delays have a rank as their first
// coordinate, so the two never coincide.
Rng draws(uint64_t seed, size_t index, int64_t repetition) {
  constexpr uint64_t kEpisodes = uint64_t{1} << 40;
  return Rng(seed, Purpose::kStraggler, kEpisodes + index,
             static_cast<uint64_t>(repetition));
}

}  // namespace

const std::vector<int>& Episodes::drawn(size_t index,
                                        int64_t repetition) const {
  constexpr size_t kMostKept = 64;
  const auto found = drawn_.find({index, repetition});
  if (found != drawn_.end()) return found->second;
  if (drawn_.size() == kMostKept) drawn_.clear();
  Rng rng = draws(seed_, index, repetition);
  rng.uniform();  // the moment's, at=random
  const auto order =
      permutation(workers_, Rng(rng.next_u64(), Purpose::kStraggler));
  std::vector<int>& ranks = drawn_[{index, repetition}];
  ranks.assign(order.begin(), order.begin() + episodes_[index].any);
  std::ranges::sort(ranks);
  return ranks;
}

bool Episodes::concerns(size_t index, int64_t repetition, int rank) const {
  const Episode& episode = episodes_[index];
  if (episode.is_of_all) return true;
  return std::ranges::binary_search(
      episode.any > 0 ? drawn(index, repetition) : episode.workers, rank);
}

bool Episodes::is_under_way(size_t index, int rank, double now) const {
  const Episode& episode = episodes_[index];
  if (now < episode.from) return false;
  int64_t repetition = 0;
  double begin = episode.from;
  if (episode.every > 0) {
    repetition =
        static_cast<int64_t>(std::floor((now - episode.from) / episode.every));
    if (episode.count > 0 && repetition >= episode.count) return false;
    begin += static_cast<double>(repetition) * episode.every;
    if (episode.is_at_random) {
      const double free = episode.every - episode.length;
      const double share = draws(seed_, index, repetition).uniform();
      begin +=
          episode.is_in_steps ? std::floor(share * (free + 1)) : share * free;
    }
  }
  if (now < begin) return false;
  if (episode.length > 0 && now >= begin + episode.length) return false;
  return concerns(index, repetition, rank);
}

Episodes::Effect Episodes::at(Episode::Kind kind,
                              int rank,
                              double now_s,
                              int64_t step) const {
  Effect effect;
  for (size_t i = 0; i < episodes_.size(); ++i) {
    const Episode& episode = episodes_[i];
    if (episode.kind != kind) continue;
    const double now = episode.is_in_steps
                           ? static_cast<double>(step)
                           : now_s + kRounding * std::max(1.0, now_s);
    if (!is_under_way(i, rank, now)) continue;
    effect.added_s += episode.added_s;
    effect.times *= episode.times;
  }
  return effect;
}

}  // namespace syncopate
