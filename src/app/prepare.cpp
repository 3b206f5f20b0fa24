// syncopate prepare images: a folder of JPEGs to large files that training
// maps, or the data set of an input as one HDF5 file.
// syncopate prepare criteo: a TSV of click records to what training maps.

#include "app/commands.h"
#include "app/output_file.h"
#include "base/clock.h"
#include "base/hdf5_file.h"
#include "base/text.h"
#include "config/config.h"
#include "data/clicks/click_set.h"
#include "data/images/dataset.h"
#include "data/images/prepare_images.h"
#include "data/kinds.h"
#include "data/thread_pool.h"

namespace syncopate {
namespace {

void write_set(Hdf5Writer& file,
               const std::string& group,
               const ImageSet& set) {
  const ImageSet::Resident stored = set.resident();
  const std::vector<int64_t> dims = {set.samples, stored.H, stored.W,
                                     set.spec.C};
  if (set.is_bytes())
    file.write(group + "/images", dims, stored.bytes);
  else
    file.write(group + "/images", dims, stored.floats);
  const std::vector<int64_t> rows = {set.samples};
  file.write(group + "/labels", rows, std::span(set.labels));
  file.attribute(group + "/images", "description",
                 "pixels (samples, height, width, channels)");
}

void prepare_hdf5(Session& session, const CommandLine& line) {
  for (const char* name : {"path", "size", "threads"})
    if (line.options.contains(name))
      fail(ExitCode::kUsage,
           "prepare images INPUT.ini: --{} belongs to prepare images "
           "--path=DIR",
           name);
  const ParsedInput input = parse_input(line.positional[1], line.overrides);
  refuse_errors(input);
  const fs::path output =
      output_file(line.required_option("output"),
                  {line.positional[1], input.options.data.path});
  const std::string& kind = input.options.data.kind;
  const Samples samples = find_data_kind(kind)->samples;
  if (samples != Samples::kImages)
    fail(ExitCode::kUsage,
         "prepare images: {}: data.kind = {}: no images, expected prepare {}",
         line.positional[1], kind,
         samples == Samples::kQuestions ? "squad" : "criteo");
  if (kind == "image_folder")
    fail(ExitCode::kUsage,
         "{}: data.kind = image_folder: expected prepare images --path={} "
         "-o DIR",
         line.positional[1], input.options.data.path);
  const Dataset data = load_dataset(input.options.data);
  require_labels(data);
  replace_file(output, [&](const fs::path& temporary) {
    Hdf5Writer file(temporary);
    write_set(file, "train", data.train);
    write_set(file, "test", data.test);
    file.attribute("/", "source", data.source);
    file.attribute("/", "layout", "NHWC");  // whatever the shapes look like
    if (!data.train.class_names.empty())
      file.attribute("/", "class_names", join(data.train.class_names, "\n"));
    file.close();
  });
  const ImageSet::Resident stored = data.train.resident();
  session.log().line(
      "{}: {} training and {} test images of {} x {} x {}, {} classes; use "
      "data.kind = hdf5, data.path = {}",
      output.string(), data.train.samples, data.test.samples, stored.H,
      stored.W, data.train.spec.C, data.train.spec.classes, output.string());
}

void prepare_folder(Session& session, const CommandLine& line) {
  if (!line.overrides.empty())
    fail(ExitCode::kUsage,
         "prepare images --path=DIR takes no input keys, given: {}",
         line.overrides[0]);
  PrepareImages wanted;
  wanted.from = line.required_option("path");
  wanted.to = line.required_option("output");
  wanted.size = line.whole_number("size", 1, 4096, 256);
  wanted.threads =
      static_cast<int>(line.whole_number("threads", 1, 1024, usable_cores()));
  wanted.progress = [&](int64_t done, int64_t total) {
    session.log().progress(done, total);
  };
  const double begin_s = monotonic_s();
  const Dataset data = prepare_images(wanted);
  const double seconds = monotonic_s() - begin_s;
  const auto images =
      static_cast<double>(data.train.samples + data.test.samples);
  session.log().line(
      "{}: {} training and {} test images of {} x {} x 3, {} classes, {}, "
      "in {} ({:.0f} images/s); use data.kind = prepared_images, data.path = "
      "{}",
      wanted.to.string(), data.train.samples, data.test.samples, wanted.size,
      wanted.size, data.train.spec.classes,
      human_bytes(images * static_cast<double>(wanted.size * wanted.size * 3)),
      human_seconds(seconds), images / seconds, wanted.to.string());
}

void prepare_clicks(Session& session, const CommandLine& line) {
  PrepareCriteo wanted;
  wanted.from = line.positional[1];
  wanted.to = line.required_option("output");
  wanted.threshold = line.whole_number(
      "threshold", 1, PrepareCriteo::kThresholdLimit, wanted.threshold);
  wanted.seed =
      static_cast<uint64_t>(line.whole_number("seed", 0, INT64_MAX, 42));
  wanted.threads =
      static_cast<int>(line.whole_number("threads", 1, 1024, usable_cores()));
  if (const auto earlier = line.options.find("vocabulary");
      earlier != line.options.end()) {
    wanted.vocabulary = earlier->second;
    for (const char* name : {"threshold", "test-share", "seed"})
      if (line.options.contains(name))
        fail(ExitCode::kUsage,
             "--{} cannot be combined with --vocabulary={}, which writes all "
             "records as a test set",
             name, earlier->second);
  }
  if (const auto share = line.options.find("test-share");
      share != line.options.end()) {
    const auto value = parse_double(share->second);
    if (!value || !(*value > 0 && *value < 1))
      fail(ExitCode::kUsage, "--test-share={}: expected more than 0, below 1",
           share->second);
    wanted.test_share = *value;
  }
  if (const auto bad = line.options.find("on-bad-line");
      bad != line.options.end()) {
    if (bad->second != "fail" && bad->second != "skip")
      fail(ExitCode::kUsage, "--on-bad-line={}: expected fail or skip",
           bad->second);
    wanted.skips_bad_lines = bad->second == "skip";
  }
  wanted.progress = [&](int64_t done, int64_t total) {
    session.log().progress(done, total);
  };
  const double begin_s = monotonic_s();
  const PreparedCriteo done = prepare_criteo(wanted);
  const double seconds = monotonic_s() - begin_s;
  session.log().line(
      "{}: {} training and {} test records{}, {} fields of {} rows together, "
      "in {} ({:.0f} MB/s); use data.kind = criteo, data.path = {}",
      wanted.to.string(), done.train, done.test,
      done.skipped > 0
          ? fmt::format(", {} skipped", counted(done.skipped, "bad line"))
          : "",
      done.spec.fields(), done.spec.total_rows(), human_seconds(seconds),
      static_cast<double>(done.bytes) * 1e-6 / seconds, wanted.to.string());
}

void refuse_options(const CommandLine& line,
                    std::initializer_list<const char*> names,
                    const char* of) {
  for (const char* name : names)
    if (line.options.contains(name))
      fail(ExitCode::kUsage, "--{} belongs to prepare {}", name, of);
}

}  // namespace

ExitCode command_prepare(Session& session, const CommandLine& line) {
  session.agree_on([&] {
    line.allow_only({"output", "path", "size", "threads", "threshold", "seed",
                     "test-share", "vocabulary", "on-bad-line"},
                    CommandLine::Keys::kTaken);
    const auto& words = line.positional;
    const std::string what = words.empty() ? "" : words[0];
    const bool is_input = words.size() == 2 && words[1].ends_with(".ini");
    if (what == "squad" || (what == "criteo" && is_input)) {
      if (!is_input)
        fail(ExitCode::kUsage,
             "prepare squad: expected: prepare squad INPUT.ini -o FILE.h5");
      refuse_options(line,
                     {"path", "size", "threads", "threshold", "seed",
                      "test-share", "vocabulary", "on-bad-line"},
                     "images, or criteo of a TSV");
      if (session.rank() == 0) prepare_samples(session, line);
      return;
    }
    if (what == "criteo" && words.size() == 2) {
      refuse_options(line, {"path", "size"}, "images");
      if (!line.overrides.empty())
        fail(ExitCode::kUsage, "prepare criteo takes no input keys, given: {}",
             line.overrides[0]);
      if (session.rank() == 0) prepare_clicks(session, line);
      return;
    }
    const bool is_folder = words.size() == 1 && line.options.contains("path");
    if (what != "images" || (words.size() != 2 && !is_folder))
      fail(ExitCode::kUsage,
           "prepare: expected: prepare images --path=DIR -o DIR [--size=256] "
           "[--threads=N], prepare images|squad|criteo INPUT.ini -o FILE.h5, "
           "or prepare criteo FILE.tsv -o DIR [--threshold=10] "
           "[--test-share=0.1] [--seed=42] [--vocabulary=DIR] "
           "[--on-bad-line=fail|skip] [--threads=N]");
    refuse_options(
        line, {"threshold", "seed", "test-share", "vocabulary", "on-bad-line"},
        "criteo");
    if (session.rank() != 0) return;
    if (is_folder)
      prepare_folder(session, line);
    else
      prepare_hdf5(session, line);
  });
  return ExitCode::kDone;
}

}  // namespace syncopate
