#include "problem/image_problem.h"

#include <algorithm>
#include <cmath>

#include "base/hdf5_file.h"
#include "base/text.h"
#include "comm/collectives.h"
#include "comm/tags.h"
#include "data/images/loader.h"
#include "data/images/prepared_images.h"
#include "models/classifier.h"
#include "problem/feed.h"
#include "problem/jpeg_feed.h"
#include "problem/setup.h"

namespace syncopate {
namespace {

DataOptions reading(const Options& options, int threads) {
  DataOptions data = options.data;
  if (data.decode_threads == 0) data.decode_threads = threads;
  return data;
}

constexpr const char* kNormalization = "normalization";

}  // namespace

ImageProblem::ImageProblem(const Options& options, int threads)
    : options_(options.data), data_(load_dataset(reading(options, threads))) {
  if (data_.has_train())
    normalization_ = make_normalization(
        options_, data_.train,
        split_validation(options_, data_.train,
                         static_cast<uint64_t>(options.run.seed))
            .train);
  else if (options_.normalize != "auto")
    normalization_ = make_normalization(options_, data_.train, {});
}

std::map<std::string, std::string> ImageProblem::facts() const {
  if (options_.normalize != "auto") return {};
  return {{kNormalization, format_normalization(normalization_)}};
}

// Earlier programs, which did not store the constants, derived them from the
// whole training set, including held-out samples.
void ImageProblem::restore(Context& context,
                           const std::map<std::string, std::string>& facts) {
  if (options_.normalize != "auto") return;
  const auto found = facts.find(kNormalization);
  if (found == facts.end() && !data_.has_train())
    fail(ExitCode::kBadInput,
         "{}: has no training set, and the checkpoint does not record how its "
         "images were normalized: give data.normalize as means / deviations",
         data_.source);
  if (found == facts.end() && options_.validation == 0) return;  // the same
  DataOptions saved = options_;
  if (found != facts.end()) saved.normalize = found->second;
  const Normalization before = std::move(normalization_);
  normalization_ = make_normalization(saved, data_.train);
  if (resident_ &&
      (normalization_.mean != before.mean || normalization_.std != before.std))
    resident_->set_scale(context, pixel_scale(data_.train, normalization_));
}

// Floats are used unchanged, so pixels from 0 to 255 do not suit a model that
// was trained on bytes, which are divided by 255.
std::string ImageProblem::doubt() const {
  constexpr float kFar = 50;         // standard deviations
  constexpr size_t kLooked = 65536;  // pixels
  const std::span<const float> pixels = data_.test.resident().floats;
  const size_t channels = normalization_.mean.size();
  for (size_t i = 0; i < std::min(kLooked * channels, pixels.size()); ++i) {
    const float mean = normalization_.mean[i % channels];
    const float deviation = normalization_.std[i % channels];
    if (!(std::abs(pixels[i] - mean) > kFar * deviation)) continue;
    return fmt::format(
        "{}: images have values such as {:g}, where the model was trained on "
        "{:.3g} with a standard deviation of {:.3g}; floats are used as they "
        "are, bytes are divided by 255",
        data_.source, pixels[i], mean, deviation);
  }
  return "";
}

int64_t ImageProblem::memory_bytes() const {
  return data_.train.memory_bytes() + data_.test.memory_bytes();
}

std::string ImageProblem::describe() const {
  const ImageSpec& spec = data_.train.spec;
  return fmt::format("{} x {} x {}, {} classes", spec.H, spec.W, spec.C,
                     spec.classes);
}

std::string ImageProblem::note(const Setup& setup) const {
  if (resident_) return ", training set on the GPU";
  return decodes_on_device(setup, *this) ? ", decoded on the GPU" : "";
}

// Reads a sample of the pixels that loading does not read.
std::string ImageProblem::check() const {
  int64_t read = 0;
  for (const ImageSet* set : {&data_.train, &data_.test}) {
    const PixelCheck check = check_pixels(*set, Extent::kSample);
    read += check.images;
    if (!check.faults.empty())
      fail(ExitCode::kBadInput, "{}", join(check.faults, "\nerror: "));
  }
  return fmt::format("images    {} of {} read, all intact", read,
                     data_.train.samples + data_.test.samples);
}

void ImageProblem::require_labels() const {
  syncopate::require_labels(data_);
}

void ImageProblem::prepare(const Setup& setup, int processes_a_device) {
  resident_ = ResidentSet::make(*setup.context, data_.train, normalization_,
                                processes_a_device);
}

namespace {

// A GPU works while the next batch is prepared; the host waits only at the end.
class ImageScorer final : public Scorer {
 public:
  ImageScorer(const Setup& setup, std::unique_ptr<BatchSource> batches)
      : setup_(setup), batches_(std::move(batches)) {}

  void add(const ReplicaView& model,
           std::span<const int64_t> samples) override {
    pending_.push_back(
        setup_.model->evaluate(*setup_.context, model, batches_->get(samples)));
  }

  std::vector<double> metrics(Endpoint* all) override {
    MetricSums sums;
    for (const PendingSums& part : pending_) sums.add(part.get());
    std::vector<double> means = sums.values;
    means.resize(setup_.model->metrics().size());  // if there was no batch
    means.push_back(sums.samples);
    if (all)
      agree(*all, all->world_group(), means, Combine::kSum, tags::kEvaluation,
            Traffic::kEvaluation);
    const double samples = means.back();
    means.pop_back();
    for (double& sum : means) sum /= samples;
    return means;
  }

 private:
  const Setup& setup_;
  std::unique_ptr<BatchSource> batches_;
  std::vector<PendingSums> pending_;
};

}  // namespace

std::unique_ptr<BatchSource> ImageProblem::make_batches(
    const Setup& setup,
    SetPart part,
    int64_t max_samples) const {
  const ImageSet& from = set(part);
  return std::make_unique<HostBatches<HostBatch>>(
      *setup.context, image_batch_bytes(from.spec, max_samples),
      [&](HostBatch& batch, std::span<const int64_t> samples) {
        fill_evaluation_batch(batch, from, normalization_, samples);
        return batch.view(from.spec);
      });
}

std::vector<MetricInfo> ImageProblem::metrics() const {
  return classification_metrics(data_.train.spec.classes);
}

std::unique_ptr<Scorer> ImageProblem::make_scorer(const Setup& setup,
                                                  SetPart part) const {
  return std::make_unique<ImageScorer>(
      setup, make_batches(setup, part, setup.options.eval.batch));
}

// --- predictions

namespace {

struct Predictions {
  int64_t classes;
  std::vector<int64_t> samples;
  std::vector<float> scores;               // (samples, classes)
  std::vector<int32_t> labels, predicted;  // no labels if the set has none
};

// A cell of CSV (RFC 4180).
std::string quoted(const std::string& text) {
  std::string cell;
  for (const char c : text) cell.append(c == '"' ? 2 : 1, c);
  return fmt::format("\"{}\"", cell);
}

// sample,label,predicted,score_0,...: label is empty if the set has none. Then
// the predicted class's name and the image's file, where they are known.
std::string as_csv(const Predictions& all,
                   const ImageSet& set,
                   const std::vector<std::string>& names) {
  const auto* files = std::get_if<JpegFiles>(&set.pixels);
  std::string text = "sample,label,predicted";
  for (int64_t k = 0; k < all.classes; ++k) text += fmt::format(",score_{}", k);
  if (!names.empty()) text += ",name";
  if (files != nullptr) text += ",file";
  text += '\n';
  for (size_t n = 0; n < all.samples.size(); ++n) {
    const std::string label =
        all.labels.empty() ? std::string() : std::to_string(all.labels[n]);
    text += fmt::format("{},{},{}", all.samples[n], label, all.predicted[n]);
    for (int64_t k = 0; k < all.classes; ++k)
      text += fmt::format(",{}", all.scores[n * all.classes + k]);
    if (!names.empty())
      text += fmt::format(",{}", quoted(names[all.predicted[n]]));
    if (files != nullptr)
      text += fmt::format(",{}", quoted(files->names[all.samples[n]]));
    text += '\n';
  }
  return text;
}

void write_h5(const fs::path& path,
              const Predictions& all,
              const std::vector<std::string>& names) {
  const std::vector<int64_t> rows = {std::ssize(all.samples)};
  const std::vector<int64_t> table = {std::ssize(all.samples), all.classes};
  replace_file(path, [&](const fs::path& temporary) {
    Hdf5Writer file(temporary);
    file.write<int64_t>("sample", rows, all.samples);
    if (!all.labels.empty()) file.write<int32_t>("label", rows, all.labels);
    file.write<int32_t>("predicted", rows, all.predicted);
    file.write<float>("scores", table, all.scores);
    file.attribute("scores", "description",
                   "logits by class; softmax of a row gives probabilities");
    if (!names.empty()) file.attribute("/", "class_names", join(names, "\n"));
    file.close();
  });
}

}  // namespace

void ImageProblem::check_output(const fs::path& output) const {
  if (output.extension() != ".csv" && output.extension() != ".h5")
    fail(ExitCode::kUsage, "--output={}: expected a name ending in .csv or .h5",
         output.string());
}

std::string ImageProblem::predict(const Setup& setup,
                                  const ReplicaView& model,
                                  const fs::path& output) const {
  // A test set without labels is there to be predicted.
  const SetPart part =
      data_.test.is_labelled ? setup.options.eval.on : SetPart::kTest;
  Predictions all{.classes = data_.test.spec.classes,
                  .samples = indices(setup, part),
                  .scores = outputs(setup, model, part),
                  .labels = {},
                  .predicted = {}};
  int64_t correct = 0;
  for (auto row = all.scores.begin(); const int64_t sample : all.samples) {
    all.predicted.push_back(
        static_cast<int32_t>(std::max_element(row, row + all.classes) - row));
    row += all.classes;
    if (!set(part).is_labelled) continue;
    all.labels.push_back(set(part).labels[sample]);
    correct += all.predicted.back() == all.labels.back();
  }
  // A set without labels has no names of classes, but the model was trained on
  // some.
  const std::vector<std::string>& names =
      set(part).class_names.empty() ? setup.options.data.trained.class_names
                                    : set(part).class_names;
  if (output.extension() == ".csv")
    write_file_atomically(output, as_csv(all, set(part), names));
  else
    write_h5(output, all, names);
  const std::string what = fmt::format(
      "{} of the {} set", counted(std::ssize(all.samples), "sample"), part);
  if (all.labels.empty()) return what + ", which has no labels";
  return fmt::format(
      "{}, accuracy {:.4f}", what,
      static_cast<double>(correct) / static_cast<double>(all.samples.size()));
}

}  // namespace syncopate
