// syncopate list WHAT: everything that a key can choose from, and the keys.
#include "app/commands.h"
#include "base/text.h"
#include "config/config.h"
#include "optim/schedule.h"
#include "sync/scheme.h"

namespace syncopate {
namespace {

using Rows = std::vector<std::pair<std::string, std::string>>;

Rows model_rows() {
  Rows rows;
  for (const ModelInfo& info : model_table())
    rows.emplace_back(
        info.family,
        info.description + (info.options.empty()
                                ? std::string()
                                : " (keys: " + join(info.options, ", ") + ")"));
  return rows;
}

Rows scheme_rows() {
  Rows rows;
  for (const SchemeInfo& info : scheme_table())
    rows.emplace_back(info.keyword, info.description);
  return rows;
}

Rows data_rows() {
  static const std::map<std::string, std::string> text = {
      {"idx", "MNIST's format, a folder of four files, .gz too"},
      {"cifar10", "CIFAR-10's binary files"},
      {"cifar100", "CIFAR-100's binary files, fine labels"},
      {"hdf5", "one's own images and labels (inputs/data_formats.md)"},
      {"image_folder", "train/CLASS/*.jpg and val/CLASS/*.jpg, as ImageNet"},
      {"prepared_images", "what prepare images made of such a folder"},
      {"synthetic_images", "procedural classes of any size, seeded"},
  };
  Rows rows;
  for (const std::string& kind : data_kinds())
    rows.emplace_back(kind, text.at(kind));
  return rows;
}

Rows collective_rows() {
  return {{"ring", "reduce-scatter and all-gather; the same bits everywhere"},
          {"native",
           "the MPI library's own; a sum in rank order in one "
           "process"}};
}

}  // namespace

ExitCode command_list(Session& session, const CommandLine& line) {
  session.agree_on([&] {
    line.allow_only({}, CommandLine::Keys::kRefused);
    const std::string& what = line.only_argument(
        "what to list (models data schemes optimizers schedules collectives "
        "keys)");
    std::string text;
    if (what == "keys") {
      text = list_keys();
    } else {
      Rows rows;
      if (what == "models")
        rows = model_rows();
      else if (what == "data")
        rows = data_rows();
      else if (what == "schemes")
        rows = scheme_rows();
      else if (what == "optimizers")
        rows = optimizer_table();
      else if (what == "schedules")
        rows = schedule_table();
      else if (what == "collectives")
        rows = collective_rows();
      else
        fail(ExitCode::kUsage,
             "list {}: one of models data schemes optimizers schedules "
             "collectives keys",
             what);
      for (const auto& [name, description] : rows)
        text += fmt::format("{:<18} {}\n", name, description);
    }
    if (session.rank() == 0) std::fputs(text.c_str(), stdout);
  });
  return ExitCode::kDone;
}

}  // namespace syncopate
