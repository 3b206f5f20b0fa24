#include "train/divergence.h"

#include <tuple>

#include "base/text.h"

namespace syncopate {

std::string Divergence::text(const ParameterTable& parameters) const {
  const auto name = [&](int index) { return parameters[index].name; };
  if (what == kParameters)
    return fmt::format(
        "parameter '{}' of worker {} is not finite after step {}",
        name(parameter), rank, step);
  const std::string subject =
      what == kLoss ? "the loss"
                    : fmt::format("the gradient of '{}'", name(tensor));
  const std::string cause =
      parameter < 0
          ? ""
          : fmt::format(", nor is its parameter '{}'", name(parameter));
  return fmt::format("{} of worker {} is not finite at step {}{}", subject,
                     rank, step, cause);
}

std::optional<Divergence> first_of(const std::optional<Divergence>& a,
                                   const std::optional<Divergence>& b) {
  if (!a || !b) return a ? a : b;
  const auto order = [](const Divergence& one) {
    return std::tuple(one.step, one.what, one.rank);
  };
  return order(*b) < order(*a) ? b : a;
}

std::vector<double> to_numbers(const std::optional<Divergence>& divergence) {
  const Divergence one = divergence.value_or(Divergence{.rank = -1});
  return {static_cast<double>(one.rank), static_cast<double>(one.step),
          static_cast<double>(one.what), static_cast<double>(one.tensor),
          static_cast<double>(one.parameter)};
}

std::optional<Divergence> divergence_from(const double* numbers) {
  if (numbers[0] < 0) return std::nullopt;
  return Divergence{
      .rank = static_cast<int>(numbers[0]),
      .step = static_cast<int64_t>(numbers[1]),
      .what = static_cast<Divergence::What>(static_cast<int>(numbers[2])),
      .tensor = static_cast<int>(numbers[3]),
      .parameter = static_cast<int>(numbers[4])};
}

}  // namespace syncopate
