// The contract of endpoints and collectives: all checks that need only a world,
// by name.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "unit/comm/collective_contract.h"
#include "unit/comm/row_exchange_contract.h"
#include "unit/comm/service_contract.h"

namespace syncopate::contract {

struct Check {
  const char* name;
  void (*hold)(World& world);
};

inline const Check kChecks[] = {
    {"Order", check_order},
    {"ZeroBytes", check_zero_bytes},
    {"OwnMessages", check_own_messages},
    {"RecvAny", check_recv_any},
    {"Service", check_service},
    {"ServiceBesideComputing", check_service_beside_computing},
    {"ServiceEndsWhenTold", check_service_ends_when_told},
    {"LargeRequests", check_large_requests},
    {"ManyServices", check_many_services},
    {"TasksOverlap", check_tasks_overlap},
    {"TaskError", check_task_error},
    {"SizeMismatch", check_size_mismatch},
    {"AlgorithmsAtOnce", check_algorithms_at_once},
    {"BroadcastAndGather", check_broadcast_and_gather},
    {"Agree", check_agree},
    {"Barrier", check_barrier},
};

inline const Check kRowChecks[] = {
    {"SumsRowsAndCountsBytes", check_rows},
    {"Groups", check_rows_in_groups},
    {"AtOnce", check_rows_at_once},
    {"OrderIsThatOfPositions", check_order_of_rows},
};

inline std::string name_of_check(
    const ::testing::TestParamInfo<Check>& instance) {
  return instance.param.name;
}

}  // namespace syncopate::contract
