// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>
#include <string_view>

#include "comm/world.h"

namespace syncopate {

bool launched_by_mpi() {
  // Set by hydra and Slurm's pmi2 (PMI_*), by PMIx (PMIX_RANK), by Open MPI,
  // and by hydra again (MPI_LOCAL*).
  for (const char* name :
       {"PMI_RANK", "PMI_SIZE", "PMI_FD", "PMIX_RANK", "OMPI_COMM_WORLD_SIZE",
        "MPI_LOCALNRANKS", "MPI_LOCALRANKID"}) {
    if (std::getenv(name) != nullptr) return true;
  }
  // A job step with an MPI plugin. A batch script's shell has a job and a
  // SLURM_PROCID too, but no step.
  const char* plugin = std::getenv("SLURM_MPI_TYPE");
  return plugin != nullptr && std::string_view(plugin) != "none" &&
         std::getenv("SLURM_STEP_ID") != nullptr &&
         std::getenv("SLURM_PROCID") != nullptr;
}

}  // namespace syncopate
