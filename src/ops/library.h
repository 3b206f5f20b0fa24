// Libraries and devices that the ops use, as `doctor` reports them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace syncopate {

std::string cpu_library_version();  // of the loaded library: "oneDNN 2.6.3"

// Whether the library multiplies bf16 tiles (Intel AMX) on this processor.
bool cpu_has_bf16_tiles();

// Whether the library has convolutions in blocks of 16 channels (kNchw16c) for
// this processor (AVX-512). Elsewhere it falls back to plain loops for them.
bool cpu_has_blocks_of_16();

struct LibraryVersion {
  std::string name;      // "cuDNN 9.19.0"; "cuDNN" if it cannot be used
  std::string obstacle;  // why it cannot be used, and the remedy; else empty
};
// Loads and reports what a GPU needs besides this executable: the driver,
// cuDNN, cuBLASLt. Empty in a build without CUDA.
std::vector<LibraryVersion> cuda_library_versions();

// All devices that the driver shows, including unsupported ones: "NVIDIA H200,
// 139.8 GiB, compute capability 9.0".
std::vector<std::string> cuda_device_texts();

// Why cuda_device_texts() is empty, as a clause; empty if it is not.
std::string cuda_devices_missing();

}  // namespace syncopate
