// The parts of the key table, a function a section.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "config/keys.h"

namespace syncopate {

// The place &Options::section -> &Section::member.
template <auto kSection, auto kMember>
Target at(Options& options) {
  return &(options.*kSection.*kMember);
}

std::vector<Key> run_keys();
std::vector<Key> device_keys();  // of [run]: what it is computed on
std::vector<Key> watch_keys();   // of [run]: what is watched for
std::vector<Key> model_keys();
std::vector<Key> data_keys();
std::vector<Key> optimizer_keys();
std::vector<Key> schedule_keys();
std::vector<Key> sync_keys();     // of [sync] and [bsp]
std::vector<Key> ds_sync_keys();  // of [ds_sync]
std::vector<Key> local_keys();    // of [local_sgd] [easgd] [power_sgd]
std::vector<Key> server_keys();   // of [asp] [ssp]
std::vector<Key> esync_keys();
std::vector<Key> switching_keys();  // of [sync_switch]
std::vector<Key> gossip_keys();     // of [choco] [dgc]
std::vector<Key> message_keys();    // of [compress] [topology]
std::vector<Key> eval_keys();
std::vector<Key> checkpoint_keys();
std::vector<Key> virtual_keys();  // [compute] and [network]
std::vector<Key> straggler_keys();
std::vector<Key> fault_keys();

}  // namespace syncopate
