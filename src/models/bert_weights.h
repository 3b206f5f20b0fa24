// Published weights of a BERT, by the names that Hugging Face's checkpoints
// give them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <vector>

#include "tensor/parameter_table.h"

namespace syncopate {

class BertWeights {
 public:
  // Finds every tensor of the table in a safetensors file, by its name with or
  // without "bert." in front, LayerNorms by the old names gamma and beta too.
  // The span head ("qa_outputs.") may be missing as a whole. Error(kBadInput)
  // has a line for every other tensor that is missing, of another shape or not
  // of floating-point numbers.
  BertWeights(const std::string& path, const ParameterTable& table);

  // Whether the file has the tensor of this index.
  bool has(int index) const { return !sources_[index].empty(); }
  // The tensors that the file has; others stay as they are.
  void read(std::span<float> parameters, const ParameterTable& table) const;

  // What comes from the file, what does not, and what of it is not used: one
  // line.
  std::string description() const;

 private:
  std::string path_;
  std::vector<std::string> sources_;  // names in the file; "": not there
  std::vector<std::string> missing_, unused_;
};

}  // namespace syncopate
