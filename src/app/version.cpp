// The components of this executable.
#include <omp.h>

#include "app/build_info.h"
#include "app/commands.h"
#include "app/revision.h"
#include "base/hdf5_file.h"
#include "ops/library.h"

namespace syncopate {

std::map<std::string, std::string> build_facts(const Session& session) {
  return {
      {"version", build_info::kVersion},
      {"git", build_info::kGit},
      {"compiler", build_info::kCompiler},
      {"flags", build_info::kFlags},
      {"convolutions", cpu_library_version()},
      {"hdf5", hdf5_version()},
      {"mpi", session.mpi_version()},
      {"openmp", std::to_string(_OPENMP)},
      {"cuda", build_info::kCuda},
  };
}

std::string version_text(const Session& session) {
  std::string text =
      fmt::format("syncopate {}\n", std::string(build_info::kVersion));
  for (const auto& [name, value] : build_facts(session))
    if (name != "version") text += fmt::format("  {:<13} {}\n", name, value);
  return text;
}

}  // namespace syncopate
