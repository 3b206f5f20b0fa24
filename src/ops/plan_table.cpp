#include "ops/plan_table.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <optional>

#include "base/clock.h"
#include "base/text.h"
#include "ops/library.h"

namespace syncopate {
namespace {

constexpr const char* kHeader = "syncopate plans 1";
constexpr int64_t kMostFileBytes = int64_t{64} << 20;

// Seconds of one run: the least over groups, since other work only adds to it;
// each is long enough to make the time of waiting for the device negligible.
// For plans below some 10 us it is the time of their launch, since the host has
// little lead over the device; any of them is as good. A plan is abandoned when
// two groups took at least half as long again as `best_s`.
double time_of(Context& context,
               const PlanRequest& request,
               size_t plan,
               double best_s) {
  constexpr int kGroups = 5, kTogether = 10, kEnoughToAbandon = 2;
  constexpr double kFarAbove = 1.5;
  request.run(plan);  // its code is loaded
  double least_s = std::numeric_limits<double>::infinity();
  for (int group = 0; group < kGroups; ++group) {
    context.stream().synchronize();
    const double begin = monotonic_s();
    for (int run = 0; run < kTogether; ++run) request.run(plan);
    context.stream().synchronize();
    least_s = std::min(least_s, (monotonic_s() - begin) / kTogether);
    if (group + 1 >= kEnoughToAbandon && least_s > kFarAbove * best_s) break;
  }
  return least_s;
}

}  // namespace

PlanOrigin plan_origin_of(const Device& device) {
  std::vector<std::string> libraries;
  for (const LibraryVersion& library : cuda_library_versions())
    if (!library.name.starts_with("driver")) libraries.push_back(library.name);
  return {device.name(), join(libraries, ", ")};
}

PlanTable PlanTable::read(const fs::path& path) {
  const std::vector<std::string> lines =
      split(read_file(path, kMostFileBytes), '\n');
  PlanTable table;
  std::optional<PlanOrigin> origin;
  for (size_t i = 0; i < lines.size(); ++i) {
    const auto refuse = [&](const char* expected) {
      fail(ExitCode::kBadInput,
           "{}:{}: expected {} (bench ops --tune writes "
           "such files)",
           path.string(), i + 1, expected);
    };
    if (i == 0 && lines[i] != kHeader) refuse(kHeader);
    if (i == 0 || (i + 1 == lines.size() && lines[i].empty())) continue;
    const std::vector<std::string> words = split(lines[i], '\t');
    if (words.size() == 3 && words[0] == "on") {
      origin = {words[1], words[2]};
      continue;
    }
    if (words.size() != 4 || words[0] != "plan")
      refuse("\"on GPU LIBRARIES\" or \"plan MICROSECONDS PROBLEM PLAN\"");
    if (!origin) refuse("\"on GPU LIBRARIES\" before the first plan");
    const std::optional<double> microseconds = parse_double(words[1]);
    if (!microseconds || *microseconds < 0) refuse("microseconds");
    table.put(*origin, words[2], {words[3], 1e-6 * *microseconds});
  }
  return table;
}

void PlanTable::write(const fs::path& path) const {
  std::string text = std::string(kHeader) + "\n";
  for (const auto& [origin, plans] : plans_) {
    text += fmt::format("on\t{}\t{}\n", origin.gpu, origin.libraries);
    for (const auto& [problem, plan] : plans)
      text += fmt::format("plan\t{:.3f}\t{}\t{}\n", 1e6 * plan.seconds, problem,
                          plan.plan);
  }
  write_file_atomically(path, text);
}

void PlanTable::put(const PlanOrigin& origin,
                    const std::string& problem,
                    const MeasuredPlan& plan) {
  plans_[origin][problem] = plan;
}

const MeasuredPlan* PlanTable::find(const PlanOrigin& origin,
                                    const std::string& problem) const {
  const auto of_origin = plans_.find(origin);
  if (of_origin == plans_.end()) return nullptr;
  const auto found = of_origin->second.find(problem);
  return found == of_origin->second.end() ? nullptr : &found->second;
}

int64_t PlanTable::count(const PlanOrigin& origin) const {
  const auto found = plans_.find(origin);
  return found == plans_.end() ? 0 : std::ssize(found->second);
}

std::string PlanTable::describe(const PlanOrigin& origin) const {
  if (const int64_t plans = count(origin); plans > 0)
    return fmt::format("{} measured on {} with {}", plans, origin.gpu,
                       origin.libraries);
  std::vector<std::string> others;
  for (const auto& [other, plans] : plans_)
    others.push_back(fmt::format("{} with {}", other.gpu, other.libraries));
  return fmt::format(
      "none for {} with {}, so the libraries choose (there are "
      "plans for: {})",
      origin.gpu, origin.libraries,
      others.empty() ? "nothing" : join(others, "; "));
}

size_t TablePlans::choose(Context&, const PlanRequest& request) {
  const MeasuredPlan* const measured = table_.find(here_, request.problem);
  if (measured == nullptr) return 0;
  const auto found = std::ranges::find(request.plans, measured->plan);
  return found == request.plans.end()
             ? 0
             : static_cast<size_t>(found - request.plans.begin());
}

// A later plan must be faster than an earlier one, so that the library's choice
// stays where nothing is gained.
size_t PlanTuner::choose(Context& context, const PlanRequest& request) {
  CHECK(!request.plans.empty());
  double first_s = 0, least_s = std::numeric_limits<double>::infinity();
  size_t best = 0;
  for (size_t plan = 0; plan < request.plans.size(); ++plan) {
    const double seconds = time_of(context, request, plan, least_s);
    if (plan == 0) first_s = seconds;
    if (seconds >= least_s) continue;
    least_s = seconds;
    best = plan;
  }
  table_.put(here_, request.problem, {request.plans[best], least_s});
  ++gain_.problems;
  gain_.before_s += first_s;
  gain_.after_s += least_s;
  return best;
}

}  // namespace syncopate
