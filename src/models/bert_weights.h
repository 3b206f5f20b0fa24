// Published BERT weights, under the names used in Hugging Face's checkpoints.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <vector>

#include "tensor/parameter_table.h"

namespace syncopate {

class BertWeights {
 public:
  // Finds every tensor of the table in a safetensors file: by its name with or
  // without the prefix "bert.", and LayerNorms also by the old names gamma and
  // beta. The span head ("qa_outputs.") may be absent as a whole.
  // Error(kBadInput) has one line for every other tensor that is missing, has
  // another shape, or is not floating point.
  BertWeights(const std::string& path, const ParameterTable& table);

  // Returns whether the file has the tensor with this index.
  bool has(int index) const { return !sources_[index].empty(); }
  // Reads the tensors that the file has; others are unchanged.
  void read(std::span<float> parameters, const ParameterTable& table) const;

  // One line: what comes from the file, what does not, and what is unused.
  std::string description() const;

 private:
  std::string path_;
  std::vector<std::string> sources_;  // names in the file; "": absent
  std::vector<std::string> missing_, unused_;
};

}  // namespace syncopate
