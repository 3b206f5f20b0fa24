// The values of a scheme's checkpoint by name, for tests that inspect them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

#include "sync/scheme.h"

namespace syncopate::test {

class CapturedState final : public StateVisitor {
 public:
  CapturedState() = default;
  explicit CapturedState(Scheme& scheme) { scheme.visit_state(*this); }
  void visit(Owner, std::string_view name, Values values) override {
    std::vector<double>& kept = values_[std::string(name)];
    std::visit([&](auto v) { kept.assign(v.begin(), v.end()); }, values);
  }
  // A value, or all tensors of a range in the order of their names.
  std::vector<double> operator[](const std::string& name) const {
    std::vector<double> all;
    for (const auto& [key, values] : values_)
      if (key == name || key.starts_with(name + "/"))
        all.insert(all.end(), values.begin(), values.end());
    return all;
  }

 private:
  std::map<std::string, std::vector<double>> values_;
};

}  // namespace syncopate::test
