#include "checkpoint/convert.h"

#include <algorithm>
#include <array>

#include "base/error.h"

namespace syncopate {
namespace {

// Names, or the beginnings of names that end in a slash.
constexpr std::array<std::string_view, 0> kUnknownToVersion1 = {};

// CHOCO kept s = sum_j w_ij xhat_j beside xhat; what it uses of them is their
// difference.
void join_choco(NamedState& state) {
  constexpr std::string_view kSum = "s/", kCopy = "xhat/";
  for (auto entry = state.lower_bound(std::string(kSum));
       entry != state.end() && entry->first.starts_with(kSum);) {
    const std::string tensor = entry->first.substr(kSum.size());
    auto* sum = std::get_if<std::vector<float>>(&entry->second);
    const auto copy = state.find(std::string(kCopy) + tensor);
    const auto* xhat = copy == state.end()
                           ? nullptr
                           : std::get_if<std::vector<float>>(&copy->second);
    if (sum == nullptr || xhat == nullptr || sum->size() != xhat->size())
      fail(ExitCode::kBadInput, "state 's/{}' has no 'xhat/{}' like it", tensor,
           tensor);
    std::vector<float> c(sum->size());
    for (size_t i = 0; i < c.size(); ++i) c[i] = (*sum)[i] - (*xhat)[i];
    state["c/" + tensor] = std::move(c);
    entry = state.erase(entry);
  }
}

}  // namespace

void convert_from_version_1(NamedState& state) {
  join_choco(state);
}

bool is_unknown_to_version_1(std::string_view name) {
  return std::any_of(kUnknownToVersion1.begin(), kUnknownToVersion1.end(),
                     [&](std::string_view known) {
                       return known.ends_with('/') ? name.starts_with(known)
                                                   : name == known;
                     });
}

}  // namespace syncopate
