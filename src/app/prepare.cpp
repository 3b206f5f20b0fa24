// syncopate prepare images INPUT.ini -o FILE.h5: what [data] of the input
// names, as one file of kind hdf5.
#include "app/commands.h"
#include "base/hdf5_file.h"
#include "config/config.h"
#include "data/loader.h"

namespace syncopate {
namespace {

void write_set(Hdf5Writer& file,
               const std::string& group,
               const ImageSet& set) {
  const std::vector<int64_t> dims = {set.samples, set.spec.H, set.spec.W,
                                     set.spec.C};
  const std::vector<int64_t> rows = {set.samples};
  std::visit(
      [&](const auto& pixels) {
        file.write(group + "/images", dims, std::span(pixels));
      },
      set.pixels);
  file.write(group + "/labels", rows, std::span(set.labels));
  file.attribute(group + "/images", "description",
                 "pixels (samples, height, width, channels)");
}

std::string class_list(const ImageSet& set) {
  std::string text;
  for (const std::string& name : set.class_names)
    text += (text.empty() ? "" : "\n") + name;
  return text;
}

}  // namespace

ExitCode command_prepare(Session& session, const CommandLine& line) {
  session.agree_on([&] {
    line.allow_only({"output"}, CommandLine::Keys::kTaken);
    if (line.positional.size() != 2 || line.positional[0] != "images")
      fail(ExitCode::kUsage,
           "prepare: expected: prepare images INPUT.ini -o FILE.h5");
    if (session.rank() != 0) return;
    const fs::path output = line.required_option("output");
    const ParsedInput input = parse_input(line.positional[1], line.overrides);
    refuse_errors(input);
    const Dataset data = load_dataset(input.options.data);
    replace_file(output, [&](const fs::path& temporary) {
      Hdf5Writer file(temporary);
      write_set(file, "train", data.train);
      write_set(file, "test", data.test);
      file.attribute("/", "source", data.source);
      if (!data.train.class_names.empty())
        file.attribute("/", "class_names", class_list(data.train));
      file.close();
    });
    session.log().line(
        "{}: {} training and {} test images of {} x {} x {}, {} classes; use "
        "data.kind = hdf5, data.path = {}",
        output.string(), data.train.samples, data.test.samples,
        data.train.spec.H, data.train.spec.W, data.train.spec.C,
        data.train.spec.classes, output.string());
  });
  return ExitCode::kDone;
}

}  // namespace syncopate
