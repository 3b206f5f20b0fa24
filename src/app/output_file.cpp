#include "app/output_file.h"

#include "base/error.h"
#include "base/file.h"

namespace syncopate {
namespace {

// Whether a run wrote this file: in its folder (RunDirectory) or in one of its
// checkpoints.
bool is_kept_by_a_run(const fs::path& file) {
  const fs::path folder = file.parent_path();
  if (fs::exists(folder / "manifest.json")) return true;
  if (!fs::exists(folder / "input.ini")) return false;
  const std::string name = file.filename().string();
  const std::string stem = name.substr(0, name.find_first_of("-."));  // -1.h5
  return name == "input.ini" || name == "log.txt" || name == "trace.json" ||
         (stem == "results" && file.extension() == ".h5") ||
         (stem == "metrics" && file.extension() == ".csv");
}

}  // namespace

fs::path output_file(const std::string& name,
                     const std::vector<std::string>& sources) {
  fs::path file = creatable_file(name);
  if (!fs::exists(file)) return file;
  for (const std::string& source : sources) {
    std::error_code absent;
    if (!source.empty() && fs::equivalent(file, source, absent))
      fail(ExitCode::kCannotCreate,
           "--output={}: would overwrite {}, from which this command reads",
           name, source);
  }
  if (is_kept_by_a_run(file))
    fail(ExitCode::kCannotCreate,
         "--output={}: would overwrite a file of a run: give another name",
         name);
  return file;
}

}  // namespace syncopate
