// The components of this executable.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>

#include "run/session.h"

namespace syncopate {

// version, git, compiler, flags, oneDNN, HDF5, MPI, OpenMP, CUDA.
std::map<std::string, std::string> build_facts(const Session& session);

}  // namespace syncopate
