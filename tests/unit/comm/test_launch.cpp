// The environments in which MPI is started.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <string>

#include "comm/world.h"

namespace syncopate {
namespace {

bool launched_with(const std::map<std::string, std::string>& environment) {
  // Includes the variables that may be set for this test itself.
  const char* const names[] = {"PMI_RANK",
                               "PMI_SIZE",
                               "PMI_FD",
                               "PMIX_RANK",
                               "OMPI_COMM_WORLD_SIZE",
                               "MPI_LOCALNRANKS",
                               "MPI_LOCALRANKID",
                               "SLURM_MPI_TYPE",
                               "SLURM_STEP_ID",
                               "SLURM_PROCID",
                               "SLURM_JOB_ID"};
  for (const char* name : names) unsetenv(name);
  for (const auto& [name, value] : environment) {
    setenv(name.c_str(), value.c_str(), 1);
  }
  const bool result = launched_by_mpi();
  for (const char* name : names) unsetenv(name);
  return result;
}

TEST(LaunchedByMpi, LooksForALauncher) {
  EXPECT_FALSE(launched_with({}));
  EXPECT_TRUE(launched_with({{"PMI_RANK", "0"}, {"PMI_SIZE", "4"}}));  // hydra
  EXPECT_TRUE(launched_with({{"PMIX_RANK", "3"}}));
  EXPECT_TRUE(launched_with({{"OMPI_COMM_WORLD_SIZE", "2"}}));
}

TEST(LaunchedByMpi, TellsAJobStepFromTheBatchScript) {
  EXPECT_FALSE(launched_with({{"SLURM_JOB_ID", "7"}}));
  EXPECT_FALSE(launched_with({{"SLURM_JOB_ID", "7"},
                              {"SLURM_PROCID", "0"},
                              {"SLURM_MPI_TYPE", "pmi2"}}));
  EXPECT_TRUE(launched_with({{"SLURM_JOB_ID", "7"},
                             {"SLURM_STEP_ID", "0"},
                             {"SLURM_PROCID", "0"},
                             {"SLURM_MPI_TYPE", "pmi2"}}));
  EXPECT_FALSE(launched_with({{"SLURM_JOB_ID", "7"},
                              {"SLURM_STEP_ID", "0"},
                              {"SLURM_PROCID", "0"},
                              {"SLURM_MPI_TYPE", "none"}}));
}

}  // namespace
}  // namespace syncopate
