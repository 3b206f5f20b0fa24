// syncopate inspect PATH: a checkpoint, a results file, a run directory,
// prepared images or click records, predictions or exported samples.
#include "app/commands.h"
#include "base/hdf5_file.h"
#include "checkpoint/checkpoint.h"
#include "data/clicks/click_set.h"
#include "data/images/prepared_images.h"
#include "results/results.h"

namespace syncopate {
namespace {

std::string describe_clicks(const fs::path& folder) {
  std::string text =
      fmt::format("prepared click records {}\n", folder.string());
  const std::vector<std::string> faults = check_clicks(folder);
  for (const std::string& fault : faults) text += "  damaged: " + fault + "\n";
  if (!faults.empty()) return text;
  DataOptions options;
  options.kind = "criteo";
  options.path = folder.string();
  const ClickData data = load_clicks(options);
  return text + fmt::format(
                    "  {} training and {} test records, {} fields of {} rows "
                    "together; all digests are right\n",
                    data.train->samples(), data.test->samples(),
                    data.spec.fields(), data.spec.total_rows());
}

std::string describe(const fs::path& path) {
  std::error_code error;
  if (!fs::exists(path, error))
    fail(ExitCode::kInputMissing, "{}: {}", path.string(),
         error ? error.message() : "no such file or folder");
  if (fs::exists(path / "manifest.json")) return describe_checkpoint(path);
  if (!fs::is_directory(path)) {
    if (!is_hdf5(path))
      fail(ExitCode::kBadInput,
           "{}: expected a run, a checkpoint, a results.h5 or prepared data",
           path.string());
    const fs::path folder = fs::absolute(path).parent_path();
    return fs::exists(folder / "manifest.json") ? describe_checkpoint(folder)
                                                : describe_results(path);
  }
  if (is_prepared_images(path)) return describe_prepared_images(path);
  if (fs::exists(path / "clicks.h5")) return describe_clicks(path);
  std::string text;
  const bool is_run = fs::exists(path / "results.h5");
  const Detail detail = is_run ? Detail::kOutline : Detail::kAll;
  if (is_run) text += describe_results(path / "results.h5", detail);
  const fs::path folder =
      fs::is_directory(path / "checkpoints") ? path / "checkpoints" : path;
  try {
    if (const auto found = find_newest_checkpoint(folder)) {
      for (const std::string& warning : found->warnings)
        text += "  damaged: " + warning + "\n";
      text += describe_checkpoint(found->folder, detail);
      if (is_run)
        text += fmt::format("  every tensor: syncopate inspect {}\n",
                            found->folder.string());
    }
  } catch (const Error& error) {  // there are some, but all are damaged
    if (error.code() != ExitCode::kBadInput) throw;
    text += fmt::format("checkpoints {}\n  damaged: {}\n", folder.string(),
                        error.what());
  }
  if (text.empty())
    fail(ExitCode::kBadInput,
         "{}: holds neither results.h5 nor a checkpoint nor prepared data",
         path.string());
  return text;
}

}  // namespace

ExitCode command_inspect(Session& session, const CommandLine& line) {
  session.agree_on([&] {
    line.allow_only({}, CommandLine::Keys::kRefused);
    const std::string& path = line.only_argument("PATH");
    if (session.rank() != 0) return;
    const std::string text = describe(path);
    std::fputs(text.c_str(), stdout);
    std::fflush(stdout);  // before the error that refers to it
    if (text.find("\n  damaged") != std::string::npos)
      fail(ExitCode::kBadInput, "{}: damaged, see above", path);
  });
  return ExitCode::kDone;
}

}  // namespace syncopate
