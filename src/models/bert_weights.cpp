#include "models/bert_weights.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "base/file.h"
#include "base/text.h"
#include "data/safetensors.h"

namespace syncopate {
namespace {

bool is_of_head(const std::string& name) {
  return name.starts_with("qa_outputs.");
}

// Returns the names that a tensor may have in a file, the preferred one first.
std::vector<std::string> names_of(const ParameterEntry& entry) {
  const auto with_end = [](const std::string& name, const std::string& end) {
    return name.substr(0, name.rfind('.') + 1) + end;
  };
  std::vector<std::string> names{entry.name};
  if (entry.role == Role::kLayerNorm)
    names.push_back(with_end(
        entry.name, entry.name.ends_with(".weight") ? "gamma" : "beta"));
  constexpr std::string_view kPrefix = "bert.";
  for (size_t i = 0, given = names.size(); i < given; ++i)
    if (names[i].starts_with(kPrefix))
      names.push_back(names[i].substr(kPrefix.size()));
  return names;
}

// Takes a vector because a file's tensor may have more dimensions than a Shape.
std::string text_of(const std::vector<int64_t>& dims) {
  return fmt::format("({})", fmt::join(dims, ", "));
}

// Returns which input key to check.
std::string hint_for(const std::string& name) {
  if (name.find("word_embeddings") != std::string::npos)
    return "; the vocabulary must be that of the weights";
  if (name.find("position_embeddings") != std::string::npos)
    return "; model.positions and model.hidden must be those of the weights";
  return "; model.layers, hidden and intermediate must be those of the weights";
}

}  // namespace

BertWeights::BertWeights(const std::string& path, const ParameterTable& table)
    : path_(path) {
  const SafeTensors file(path);
  std::vector<std::string> errors;
  std::set<std::string> used;
  for (const ParameterEntry& entry : table.entries()) {
    const std::vector<std::string> names = names_of(entry);
    const auto found = std::ranges::find_if(
        names, [&](const std::string& name) { return file.has(name); });
    if (found == names.end()) {
      sources_.emplace_back();
      missing_.push_back(entry.name);
      continue;
    }
    sources_.push_back(*found);
    used.insert(*found);
    if (!file.can_read(*found))
      errors.push_back(
          fmt::format("{}: {} is of {}, expected F32, F64, F16 or "
                      "BF16",
                      path, *found, file.tensor(*found).dtype));
    const std::string shape = text_of(file.shape(*found));
    if (shape != entry.shape.text())
      errors.push_back(fmt::format("{}: {} is {}, and the network's is {}{}",
                                   path, *found, shape, entry.shape.text(),
                                   hint_for(entry.name)));
  }
  const bool has_head = std::ranges::any_of(used, is_of_head);
  for (const std::string& name : missing_)
    if (has_head || !is_of_head(name))
      errors.push_back(fmt::format("{}: {} is missing{}", path, name,
                                   is_of_head(name)
                                       ? "; the rest of the span head is there"
                                       : hint_for(name)));
  if (!errors.empty())
    fail(ExitCode::kBadInput, "model.weights: {}",
         join(errors, "\nerror: model.weights: "));
  for (const SafeTensors::Tensor& tensor : file.tensors())
    if (!used.contains(tensor.name)) unused_.push_back(tensor.name);
}

void BertWeights::read(std::span<float> parameters,
                       const ParameterTable& table) const {
  const SafeTensors file(path_);
  for (int index = 0; index < table.num_tensors(); ++index)
    if (has(index))
      file.read(sources_[index],
                parameters.subspan(table[index].offset, table[index].elems()));
}

std::string BertWeights::description() const {
  const auto listed = [](const std::vector<std::string>& names) {
    constexpr size_t kShown = 4;
    const size_t shown = std::min(names.size(), kShown);
    return join(std::span(names).first(shown), ", ") +
           (names.size() > shown ? ", ..." : "");
  };
  std::string line =
      fmt::format("{} (XXH3-128 {}): {} tensors", path_, digest_of_file(path_),
                  sources_.size() - missing_.size());
  if (!missing_.empty())
    line += fmt::format("; random, since the file has them not: {}",
                        listed(missing_));
  if (!unused_.empty())
    line += fmt::format("; {} of the file not used: {}", unused_.size(),
                        listed(unused_));
  return line;
}

}  // namespace syncopate
