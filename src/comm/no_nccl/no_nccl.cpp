// The build without NCCL.
// SPDX-License-Identifier: Apache-2.0
#include "base/error.h"
#include "comm/device_collectives.h"

namespace syncopate {

std::string nccl_missing() {
  return "this executable was built without NCCL";
}

std::string nccl_name() {
  fail(ExitCode::kBadInput, "NCCL: {}", nccl_missing());
}

std::vector<std::byte> nccl_unique_id() {
  fail(ExitCode::kBadInput, "NCCL: {}", nccl_missing());
}

std::unique_ptr<DeviceCollectives> make_nccl(Device&,
                                             int,
                                             int,
                                             std::span<const std::byte>,
                                             const NcclOptions&) {
  fail(ExitCode::kBadInput, "NCCL: {}", nccl_missing());
}

}  // namespace syncopate
