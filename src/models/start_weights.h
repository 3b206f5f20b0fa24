// A network's initial values from a file of weights (model.weights).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <set>
#include <span>
#include <string>
#include <vector>

#include "models/file_names.h"
#include "tensor/parameter_table.h"

namespace syncopate {

// `path`: "none" for random values. `channels`: of an image, else 0.
struct WeightsSource {
  std::string path = "none";
  const FileNames* names = nullptr;
  int64_t channels = 0;
};

class StartWeights {
 public:
  // Finds every tensor of the tables in a safetensors file: by its name there,
  // with or without names.prefix, and LayerNorms also by the old names gamma
  // and beta. Tensors of names.head may be absent together.
  // Error(kInputMissing); Error(kBadInput) has one line for every other tensor
  // that is missing, has another shape, or is not floating point.
  StartWeights(const WeightsSource& source,
               const ParameterTable& parameters,
               const ParameterTable& buffers);

  // Returns whether the file has the parameter with this index.
  bool has(int index) const { return !parameters_[index].empty(); }
  // Reads the tensors that the file has; others are unchanged.
  void read(std::span<float> parameters,
            const ParameterTable& parameter_table,
            std::span<float> buffers,
            const ParameterTable& buffer_table) const;

  // One line: what comes from the file, what does not, and what is unused.
  std::string description() const;

 private:
  using Names = std::vector<std::string>;
  Names find(const SafeTensors& file, const ParameterTable& table);
  void check(const SafeTensors& file,
             const ParameterEntry& entry,
             const std::string& found);
  void check_missing();
  void read_range(const SafeTensors& file,
                  const Names& found,
                  const ParameterTable& table,
                  std::span<float> range) const;

  void check_values(const ParameterEntry& entry,
                    const std::string& name,
                    std::span<const float> values) const;

  WeightsSource source_;
  std::string wrapping_;        // that all names in the file begin with
  Names parameters_, buffers_;  // names behind it; "": absent
  Names missing_, unused_;      // by their names in the file
  Names errors_;
  std::set<std::string> used_;
};

}  // namespace syncopate
