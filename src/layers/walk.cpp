#include "layers/walk.h"

namespace syncopate {

ParameterRef Registrar::parameter(const std::string& name,
                                  const Shape& shape,
                                  Role role) {
  const int index = parameters.add(name, shape, role);
  return {parameters[index].offset, shape};
}

ParameterRef Registrar::buffer(const std::string& name, const Shape& shape) {
  const int index = buffers.add(name, shape, Role::kStatistic);
  return {buffers[index].offset, shape};
}

Walk::Walk(Arena& arena, WalkPlan& plan, Pass pass)
    : arena_(arena),
      plan_(plan),
      planned_arena_(&arena),
      planned_(&plan),
      pass_(pass),
      samples_(plan.samples) {
  plan.taken.clear();
  plan.reports.clear();
  plan.copies = {};
}

Walk::Walk(const Arena& arena,
           const WalkPlan& plan,
           Pass pass,
           int64_t samples,
           const WalkRun& run)
    : arena_(arena), plan_(plan), pass_(pass), samples_(samples), run_(&run) {
  CHECK_MSG(samples >= 1 && samples <= plan.samples,
            "batch of {} samples, planned for {}", samples, plan.samples);
}

Slot Walk::take(DType dtype, const Shape& shape, Layout layout) {
  if (planned_ != nullptr) {
    planned_->taken.push_back(planned_arena_->take(dtype, shape, layout));
    return planned_->taken.back();
  }
  CHECK(next_ < plan_.taken.size());
  const Slot& planned = plan_.taken[next_++];
  // Repeats the planned walk with at most the planned samples.
  CHECK(dtype == planned.dtype && layout == planned.layout &&
        shape.elems() <= planned.shape.elems());
  return {dtype, shape, layout, planned.offset_bytes};
}

Slot Walk::take_image(const ImageSize& size) {
  return take_image(size, plan_.dtype);
}

Slot Walk::take_image(const ImageSize& size, DType dtype) {
  return take(dtype, {samples_, size.C, size.H, size.W}, plan_.layout);
}

void Walk::give_back(const Slot& slot) {
  if (planned_ != nullptr) planned_arena_->give_back(slot);
}

void Walk::drop(const Slot& slot) {
  if (pass_ != Pass::kTrain && slot.offset_bytes != kImagesOffset)
    give_back(slot);
}

Slot Walk::images(const ImageSize& size) const {
  return {DType::kF32,
          {samples_, size.C, size.H, size.W},
          Layout::kNhwc,
          kImagesOffset};
}

void Walk::keep_copy(const ParameterRef& ref, const Slot& x) {
  if (planned_ == nullptr || !is_on_gpu() || x.dtype != DType::kBf16) return;
  const bool is_bias = ref.shape.rank() == 1;
  planned_->copies.add(ref.offset, ref.shape,
                       is_bias ? ref.shape[0] : x.shape[1]);
}

const WalkRun& Walk::run() const {
  CHECK(run_ != nullptr);
  return *run_;
}

ConstTensor Walk::in(const Slot& slot) const {
  if (slot.offset_bytes == kImagesOffset)
    return make_const_tensor(run().images.data, slot.dtype, slot.shape,
                             slot.layout);
  return arena_.at(slot);
}

Tensor Walk::out(const Slot& slot) const {
  CHECK(run_ != nullptr);
  return arena_.at(slot);
}

ConstTensor Walk::parameter(const ParameterRef& ref) const {
  return make_const_tensor(run().parameters.data() + ref.offset, DType::kF32,
                           ref.shape);
}

ConstWeight Walk::weight(const ParameterRef& ref) const {
  ConstWeight weight = parameter(ref);
  const CopiedWeights& copies = run().copies;
  if (copies.table == nullptr) return weight;
  if (const ShadowEntry* const entry = copies.table->find(ref.offset)) {
    weight.copy = copies.values + entry->at;
    weight.copy_C = entry->padded_C;
  }
  return weight;
}

Tensor Walk::gradient(const ParameterRef& ref) const {
  return make_tensor(run().gradients.data() + ref.offset, DType::kF32,
                     ref.shape);
}

Tensor Walk::buffer(const ParameterRef& ref) const {
  return make_tensor(run().buffers.data() + ref.offset, DType::kF32, ref.shape);
}

void Walk::report(int64_t from) const {
  if (planned_ != nullptr) planned_->reports.push_back(from);
  if (is_running() && run_->final_from) run_->final_from(from);
}

void add_to(Walk& walk, const Slot& sum, const Slot& term) {
  if (walk.is_running())
    add(walk.context(), walk.out(sum), walk.in(sum), walk.in(term));
  walk.give_back(term);
}

Slot gathered(Walk& walk, const GradientSum& sum) {
  if (sum.second) add_to(walk, sum.first, *sum.second);
  return sum.first;
}

Slot converted(Walk& walk, const Slot& x, DType dtype) {
  const Slot y = walk.take(dtype, x.shape, x.layout);
  if (walk.is_running()) reorder(walk.context(), walk.out(y), walk.in(x));
  return y;
}

Slot converted_images(Walk& walk, const Slot& x) {
  const Shape& s = x.shape;
  const int64_t C = padded_channels(s[1]);
  if (!walk.is_on_gpu() || C == s[1]) return converted(walk, x, DType::kBf16);
  const Slot y = walk.take(DType::kBf16, {s[0], C, s[2], s[3]}, x.layout);
  if (walk.is_running()) pad_channels(walk.context(), walk.out(y), walk.in(x));
  return y;
}

}  // namespace syncopate
