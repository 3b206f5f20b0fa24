// The schemes behind scheme_table(), one file each.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "sync/scheme.h"

namespace syncopate {

// For SchemeInfo::make.
template <typename T>
std::unique_ptr<Scheme> make(const SchemeParts& parts) {
  return std::make_unique<T>(parts);
}

SchemeInfo bsp_scheme();
SchemeInfo ds_sync_scheme();
SchemeInfo local_sgd_scheme();
SchemeInfo easgd_scheme();
SchemeInfo ef_sign_sgd_scheme();
SchemeInfo dgc_scheme();
SchemeInfo power_sgd_scheme();
SchemeInfo asp_scheme();
SchemeInfo ssp_scheme();
SchemeInfo esync_scheme();
SchemeInfo sync_switch_scheme();
SchemeInfo d_psgd_scheme();
SchemeInfo choco_scheme();
SchemeInfo dcd_psgd_scheme();
SchemeInfo ecd_psgd_scheme();
SchemeInfo deep_squeeze_scheme();
SchemeInfo sgp_scheme();

}  // namespace syncopate
