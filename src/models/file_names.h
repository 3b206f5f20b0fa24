// What a network's tensors are called in files of weights, which other programs
// read and write (safetensors): each network's row of registry.cpp points to
// its names.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/safetensors.h"
#include "tensor/parameter_table.h"

namespace syncopate {

struct FileNames {
  // Beginnings of names, whole words between dots, of which '#' is any number:
  // "stage#.block#" is "layer#.#". The first row that fits applies; other names
  // are the same here and there.
  struct Row {
    std::string_view ours, theirs;
  };
  // A reader's remedy for a missing or misshapen tensor whose name in the file
  // has this part; the first one that fits.
  struct Hint {
    std::string_view part, text;
  };
  std::string_view whose;  // "torchvision", for messages
  std::vector<Row> rows = {};
  std::string_view head = {};    // tensors that a file may lack, all together
  std::string_view prefix = {};  // what a file's names may lack
  // A matrix whose columns are an image's pixels, here in the order (H, W, C),
  // in files (C, H, W).
  std::string_view pixels = {};
  std::vector<Hint> hints = {};
};

std::string name_in_file(const FileNames& names, const std::string& ours);

// Rewrites the rows of a matrix (K, H W C) as (K, C H W), and back.
void to_channels_first(std::span<float> matrix, int64_t rows, int64_t channels);
void to_channels_last(std::span<float> matrix, int64_t rows, int64_t channels);

// A model's values in host memory, in the order of its tables.
struct ModelValues {
  const ParameterTable& parameters;
  const ParameterTable& buffers;
  std::span<const float> parameter_values, buffer_values;
};

// Writes a model in the layout of PyTorch, whose names `names` gives: fp32, and
// for every BatchNorm num_batches_tracked = `batches`. `channels`: of an image;
// 0 unless `names` has pixels. Commits atomically; errors as for
// write_safetensors.
void write_model(const fs::path& path,
                 const FileNames& names,
                 const ModelValues& model,
                 int64_t channels,
                 int64_t batches,
                 const std::map<std::string, std::string>& metadata);

// Which tensors write_model writes: those that PyTorch's load_state_dict
// expects.
std::vector<SafeTensors::Tensor> tensors_in_file(
    const FileNames& names,
    const ParameterTable& parameters,
    const ParameterTable& buffers);

}  // namespace syncopate
