#include "models/logistic.h"

namespace syncopate {
namespace {

Linear make_fc(ParameterTable& parameters,
               ParameterTable& buffers,
               const ImageSpec& spec) {
  Registrar registrar{parameters, buffers};
  return {registrar, "fc", spec.C * spec.H * spec.W, spec.classes};
}

}  // namespace

const FileNames& logistic_names() {
  static const FileNames names{
      .whose = "syncopate",
      .pixels = "fc.weight",
      .hints = {{"", "images and classes must be those of the weights"}}};
  return names;
}

Logistic::Logistic(const ImageSpec& spec, DType compute)
    : Classifier(spec, compute), fc_(make_fc(parameters_, buffers_, spec)) {}

double Logistic::forward_macs() const {
  return static_cast<double>(fc_.macs());
}

// Returns the batch as rows (N, H W C), pixels in memory order.
Slot Logistic::pixels(const Walk& walk) const {
  Slot x = walk.images({spec_.C, spec_.H, spec_.W});
  x.shape = {walk.samples(), spec_.H * spec_.W * spec_.C};
  x.layout = Layout::kRowMajor;
  return x;
}

Slot Logistic::forward(Walk& walk, const Batch&) {
  return fc_.forward(walk, pixels(walk));
}

void Logistic::backward(Walk& walk, const Batch&, const Slot& dlogits) {
  fc_.backward_parameters(walk, dlogits, pixels(walk));
  walk.give_back(dlogits);
  walk.report(0);
}

}  // namespace syncopate
