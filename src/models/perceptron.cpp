#include "models/perceptron.h"

#include <fmt/format.h>

#include "ops/activation.h"

namespace syncopate {

Perceptron::Perceptron(const ImageSpec& spec,
                       DType compute,
                       const std::vector<double>& widths)
    : Classifier(spec, compute) {
  Registrar registrar{parameters_, buffers_};
  int64_t width = spec.C * spec.H * spec.W;
  for (const double next : widths) {
    const auto outputs = static_cast<int64_t>(next);
    hidden_.push_back({Linear(registrar, fmt::format("mlp.{}", hidden_.size()),
                              width, outputs),
                       {},
                       {},
                       {}});
    width = outputs;
  }
  last_.emplace(registrar, "fc", width, spec.classes);
}

double Perceptron::forward_macs() const {
  int64_t sum = last_->macs();
  for (const Hidden& hidden : hidden_) sum += hidden.linear.macs();
  return static_cast<double>(sum);
}

// Returns the batch as rows (N, H W C), pixels in memory order.
Slot Perceptron::pixels(const Walk& walk) const {
  Slot x = walk.images({spec_.C, spec_.H, spec_.W});
  x.shape = {walk.samples(), spec_.H * spec_.W * spec_.C};
  x.layout = Layout::kRowMajor;
  return x;
}

Slot Perceptron::forward(Walk& walk, const Batch&) {
  Slot x = pixels(walk);
  for (Hidden& hidden : hidden_) {
    const bool is_first = &hidden == &hidden_.front();
    hidden.x = x;
    hidden.c = hidden.linear.forward(walk, x);
    if (!is_first) walk.drop(x);
    hidden.y = walk.take(DType::kF32, hidden.c.shape);
    if (walk.is_running())
      gelu_forward(walk.context(), walk.out(hidden.y), walk.in(hidden.c));
    walk.drop(hidden.c);
    x = hidden.y;
  }
  const Slot logits = last_->forward(walk, x);
  if (!hidden_.empty()) walk.drop(x);
  return logits;
}

void Perceptron::backward(Walk& walk,
                          const Batch&,
                          const Slot& dlogits,
                          const GradientListener& final_from) {
  if (hidden_.empty()) {
    last_->backward_parameters(walk, dlogits, pixels(walk));
    walk.give_back(dlogits);
    return report(final_from, 0);
  }
  Slot dy = last_->backward(walk, dlogits, hidden_.back().y);
  walk.give_back(dlogits);
  report(final_from, last_->first_offset());
  for (auto hidden = hidden_.rbegin(); hidden != hidden_.rend(); ++hidden) {
    walk.give_back(hidden->y);
    if (walk.is_running())
      gelu_backward(walk.context(), walk.out(dy), walk.in(dy),
                    walk.in(hidden->c));
    walk.give_back(hidden->c);
    Slot dx;
    if (hidden + 1 == hidden_.rend())
      hidden->linear.backward_parameters(walk, dy, hidden->x);
    else
      dx = hidden->linear.backward(walk, dy, hidden->x);
    walk.give_back(dy);
    report(final_from, hidden->linear.first_offset());
    dy = dx;
  }
}

}  // namespace syncopate
