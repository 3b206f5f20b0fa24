#include "models/gradient_values.h"

namespace syncopate {
namespace {

// Returns the marks before a step: blocks that are not wholly in tables always
// count as touched.
std::vector<uint8_t> initial_marks(const ParameterTable& table) {
  constexpr int64_t kElems = TouchedBlocks::kElems;
  std::vector<uint8_t> marks((table.num_elems() + kElems - 1) / kElems,
                             TouchedBlocks::kAlways);
  int64_t begin = 0, end = 0;  // of successive tables
  for (const ParameterEntry& entry : table.entries()) {
    if (entry.role != Role::kEmbedding) continue;
    if (entry.offset != end) begin = entry.offset;
    end = entry.offset + entry.elems();
    for (int64_t block = (begin + kElems - 1) / kElems;
         (block + 1) * kElems <= end; ++block)
      marks[block] = TouchedBlocks::kUntouched;
  }
  return marks;
}

}  // namespace

GradientValues::GradientValues(Context& context, const Model& model)
    : values_(context.device(),
              context.stream(),
              model.parameters().num_elems()) {
  if (!model.marks_tables()) return;
  const std::vector<uint8_t> marks = initial_marks(model.parameters());
  marks_ = {context.device(), context.stream(), std::ssize(marks)};
  marks_.assign(marks);
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
