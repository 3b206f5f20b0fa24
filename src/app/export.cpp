// syncopate export RUN|CHECKPOINT -o FILE.safetensors
// [--replica=K|average|centre|ema]
#include "app/commands.h"
#include "app/output_file.h"
#include "train/checkpoint_model.h"
#include "train/export_model.h"

namespace syncopate {
namespace {

// Returns the run's folder, or the checkpoint's if it is not in a run's.
std::string run_of(const fs::path& checkpoint) {
  const fs::path folder = fs::absolute(checkpoint).lexically_normal();
  fs::path checkpoints = folder.parent_path();
  if (checkpoints.filename() == "best") checkpoints = checkpoints.parent_path();
  return checkpoints.filename() == "checkpoints"
             ? checkpoints.parent_path().filename().string()
             : folder.filename().string();
}

}  // namespace

ExitCode command_export(Session& session, const CommandLine& line) {
  session.agree_on([&] {
    line.allow_only({"output", "replica"}, CommandLine::Keys::kRefused);
    if (session.rank() != 0) return;  // one process suffices
    const std::string& named = line.required_option("output");
    if (fs::path(named).extension() != ".safetensors")
      fail(ExitCode::kUsage, "{}: expected the name of a .safetensors file",
           named);
    const fs::path output = output_file(named, {});
    const auto replica = line.options.find("replica");
    const auto build = build_facts(session);
    const std::string& path = line.only_argument("RUN or CHECKPOINT");
    const std::string said =
        read_model(path, [&](const FoundCheckpoint& found) {
          for (const std::string& warning : found.warnings)
            session.log().warning(warning);
          const std::string tensors = export_model(
              found,
              replica == line.options.end() ? evaluated_replica(found)
                                            : replica->second,
              {{"program", fmt::format("syncopate {} ({})", build.at("version"),
                                       build.at("git"))},
               {"run", run_of(found.folder)}},
              output);
          return fmt::format("{}: {}; from {}", output.string(), tensors,
                             found.folder.string());
        });
    session.log().line("{}", said);
  });
  return ExitCode::kDone;
}

}  // namespace syncopate
