#include "app/gradient_guard.h"

namespace syncopate {

GradientGuard::GradientGuard(Engine& engine, Replica& replica)
    : engine_(engine), replica_(replica) {}

void GradientGuard::start() {}

void GradientGuard::check(const Bucket&) {}

std::optional<std::string> GradientGuard::settle() {
  return std::nullopt;
}

}  // namespace syncopate
