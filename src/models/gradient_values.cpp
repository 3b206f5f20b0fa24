#include "models/gradient_values.h"

#include <algorithm>

#include "ops/touched.h"

namespace syncopate {
namespace {

using Stretches = std::vector<std::pair<int64_t, int64_t>>;

// Returns begin and end of the tables in elements, successive ones together.
Stretches tables_of(const ParameterTable& parameters) {
  Stretches tables;
  for (const ParameterEntry& entry : parameters.entries()) {
    if (entry.role != Role::kEmbedding) continue;
    if (tables.empty() || tables.back().second != entry.offset)
      tables.emplace_back(entry.offset, entry.offset);
    tables.back().second = entry.offset + entry.elems();
  }
  return tables;
}

// Returns the marks before a step: blocks that are not wholly in tables always
// count as touched.
std::vector<uint8_t> initial_marks(int64_t elems, const Stretches& tables) {
  constexpr int64_t kElems = TouchedBlocks::kElems;
  std::vector<uint8_t> marks((elems + kElems - 1) / kElems,
                             TouchedBlocks::kAlways);
  for (const auto& [begin, end] : tables)
    for (int64_t block = (begin + kElems - 1) / kElems;
         (block + 1) * kElems <= end; ++block)
      marks[block] = TouchedBlocks::kUntouched;
  return marks;
}

}  // namespace

GradientValues::GradientValues(Context& context, const Model& model)
    : values_(context.device(),
              context.stream(),
              model.parameters().num_elems()) {
  if (!model.marks_tables()) return;
  tables_ = tables_of(model.parameters());
  const std::vector<uint8_t> marks = initial_marks(values_.size(), tables_);
  marks_ = {context.device(), context.stream(), std::ssize(marks)};
  marks_.assign(marks);
}

std::span<float> GradientValues::span_for(int64_t offset, int64_t elems) {
  is_written_ = is_written_ || std::ranges::any_of(tables_, [&](auto& table) {
                  return offset < table.second && table.first < offset + elems;
                });
  return values_;
}

void GradientValues::assign(std::span<const float> values,
                            const ParameterTable& parameters,
                            std::span<const std::vector<int32_t>> rows) {
  assign(values);
  if (marks_.empty()) return;
  std::vector<uint8_t> marks = initial_marks(values_.size(), tables_);
  const TouchedBlocks touched{values.data(), marks.data()};
  auto of_table = rows.begin();
  for (const ParameterEntry& entry : parameters.entries()) {
    if (entry.role != Role::kEmbedding) continue;
    const int64_t row_elems = entry.shape[1];
    for (const int32_t row : *of_table++)
      mark_touched(touched, values.data() + entry.offset + row * row_elems,
                   row_elems);
  }
  marks_.assign(marks);
  is_written_ = false;
}

void GradientValues::clear(Context& context) {
  const TouchedBlocks valid = touched();
  if (valid.marks == nullptr)
    context.device().fill_zero(values_.data(),
                               values_.size() * int64_t{sizeof(float)},
                               context.stream());
  if (!marks_.empty()) clear_touched(context, values_, marks());
  is_written_ = false;
}

}  // namespace syncopate
