// Clicks on advertisements (Criteo): batches of table rows, log loss and the
// area under the curve.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/text.h"
#include "comm/collectives.h"
#include "comm/tags.h"
#include "data/clicks/auc.h"
#include "data/clicks/click_set.h"
#include "data/kinds.h"
#include "data/thread_pool.h"
#include "ops/gather_clicks.h"
#include "problem/feed.h"
#include "problem/problems.h"
#include "problem/setup.h"

namespace syncopate {
namespace {

SampleTable table_of(const ClickSet& set) {
  SampleTable table;
  table.samples = set.samples();
  table.classes = 2;
  table.label_of = [clicked = set.clicked()](int64_t sample) {
    return int32_t{clicked[static_cast<size_t>(sample)]};
  };
  return table;
}

int64_t batch_bytes(int64_t samples, int64_t fields) {
  Batch batch;
  batch.labels = make_const_tensor(nullptr, DType::kI32, Shape{samples});
  batch.rows = make_const_tensor(nullptr, DType::kI32, Shape{samples, fields});
  return packed_bytes(batch);
}

Fill<ClickBatch> fill_from(const ClickSet& set,
                           const ClickSpec& spec,
                           ThreadPool* pool) {
  return [&, pool](ClickBatch& batch, std::span<const int64_t> samples) {
    batch.fill(set, spec, samples, pool);
    return batch.view();
  };
}

// --- training records on the device

// The training records in device memory, shared by the workers of a process.
struct ResidentClicks {
  Buffer memory;
  ConstTensor table;    // (samples, F) i32, rows of the whole table
  ConstTensor clicked;  // (samples) u8
};

// Returns null under the conditions of ResidentSet::make (image_problem.h).
std::unique_ptr<ResidentClicks> make_resident(const Setup& setup,
                                              const ClickSet& set,
                                              const ClickSpec& spec,
                                              int processes_a_device) {
  Device& device = *setup.device;
  const int64_t S = set.samples(), F = spec.fields();
  const int64_t row_bytes = S * F * static_cast<int64_t>(sizeof(int32_t));
  if (device.kind() == DeviceKind::kCpu || S == 0 || S > INT32_MAX ||
      row_bytes + S > device.total_bytes() / 4 / processes_a_device)
    return nullptr;
  auto resident = std::make_unique<ResidentClicks>();
  resident->memory = Buffer(device, row_bytes + S);
  char* memory = resident->memory.as<char>();
  Stream& stream = setup.context->stream();
  constexpr int64_t kChunk = 1 << 20;  // samples
  ThreadPool pool(usable_cores());
  ClickBatch chunk;
  for (int64_t begin = 0; begin < S; begin += kChunk) {
    std::vector<int64_t> samples(
        static_cast<size_t>(std::min(S - begin, kChunk)));
    std::iota(samples.begin(), samples.end(), begin);
    chunk.fill(set, spec, samples, &pool);
    device.copy(memory + begin * F * 4, chunk.rows.data(),
                static_cast<int64_t>(chunk.rows.size() * sizeof(int32_t)),
                stream);
    stream.synchronize();
  }
  device.copy(memory + row_bytes, set.clicked().data(), S, stream);
  stream.synchronize();
  resident->table = make_const_tensor(memory, DType::kI32, Shape{S, F});
  resident->clicked =
      make_const_tensor(memory + row_bytes, DType::kU8, Shape{S});
  return resident;
}

// The numbers of a batch's samples go to the device with the batch rather than
// once an epoch: asynchronously from page-locked memory, 80 kB of 20,480
// samples, some 2 us at 50 GB/s of the 1,365 us that they take at 15 million
// samples/s. That is 0.2%, for which the orders of two epochs, 0.37 GB of 45.8
// million samples, would have to lie on the device.
class ResidentClickFeed final : public Feed {
 public:
  ResidentClickFeed(const Setup& setup,
                    const ResidentClicks& set,
                    int rank,
                    int64_t first_batch)
      : setup_(setup),
        set_(set),
        rank_(rank),
        next_(first_batch),
        staging_(*setup.device, 4 * batch(), setup.options.data.accumulate),
        samples_(*setup.device, 4 * batch()),
        labels_(*setup.device, 4 * batch()),
        rows_(*setup.device, 4 * batch() * fields()) {}

  Batch next() override {
    const std::vector<int64_t> samples = setup_.sampler->batch(rank_, next_++);
    const int64_t N = std::ssize(samples);
    auto* staged = static_cast<int32_t*>(staging_.next());
    std::copy(samples.begin(), samples.end(), staged);
    Context& context = *setup_.context;
    context.device().copy(samples_.data(), staged, 4 * N, context.stream());
    staging_.sent(context.stream());
    const Tensor rows =
        make_tensor(rows_.data(), DType::kI32, Shape{N, fields()});
    const Tensor labels = make_tensor(labels_.data(), DType::kI32, Shape{N});
    gather_clicks(context, rows, labels, set_.table, set_.clicked,
                  make_const_tensor(samples_.data(), DType::kI32, Shape{N}));
    return {.samples = N, .labels = labels, .rows = rows};
  }
  double wait_s() const override { return 0; }

 private:
  int64_t batch() const { return setup_.options.data.batch_of(rank_); }
  int64_t fields() const { return set_.table.shape[1]; }

  const Setup& setup_;
  const ResidentClicks& set_;
  int rank_;
  int64_t next_;
  Staging staging_;
  Buffer samples_, labels_, rows_;
};

// --- evaluation

// Computes the exact area under the curve over the samples of all workers.
// Distinct scores are merged in ranges that are small enough for every worker.
double area_of_all(Endpoint& endpoint, const SortedScores& mine) {
  constexpr int kParts = 1024;
  constexpr double kRange = 1 << 18;       // samples that are merged at a time
  constexpr double kShift = 1 << 26;       // more than one score's negatives
  std::vector<double> counts(kParts + 1);  // and whether there is a NaN
  const std::vector<int64_t> own = mine.histogram(kParts);
  for (int part = 0; part < kParts; ++part)
    counts[part] = static_cast<double>(own[part]);
  counts[kParts] = mine.has_nan() ? 1 : 0;
  agree(endpoint, endpoint.world_group(), counts, Combine::kSum,
        tags::kEvaluation, Traffic::kEvaluation);
  if (counts[kParts] > 0) return NAN;
  AucSum sum;
  for (int begin = 0; begin < kParts;) {
    int end = begin + 1;
    double samples = counts[begin];
    while (end < kParts && samples + counts[end] <= kRange)
      samples += counts[end++];
    std::vector<double> packed;
    for (const SortedScores::Entry& entry :
         mine.entries(SortedScores::part_begin(begin, kParts),
                      SortedScores::part_begin(end, kParts))) {
      CHECK(entry.negative < kShift && entry.positive < kShift);
      packed.push_back(entry.ordered);
      packed.push_back(entry.negative + kShift * entry.positive);
    }
    std::vector<SortedScores::Entry> merged;
    for (const std::vector<double>& part :
         all_gather(endpoint, endpoint.world_group(), packed, tags::kEvaluation,
                    Traffic::kEvaluation))
      for (size_t i = 0; i < part.size(); i += 2) {
        const double positive = std::floor(part[i + 1] / kShift);
        merged.push_back(
            {static_cast<uint32_t>(part[i]),
             static_cast<uint32_t>(part[i + 1] - kShift * positive),
             static_cast<uint32_t>(positive)});
      }
    sum.add(std::move(merged));
    begin = end;
  }
  return sum.value();
}

class ClickScorer final : public Scorer {
 public:
  ClickScorer(const Setup& setup,
              const ClickSet& set,
              std::unique_ptr<BatchSource> batches)
      : setup_(setup), set_(set), batches_(std::move(batches)) {}

  void add(const ReplicaView& model,
           std::span<const int64_t> samples) override {
    const size_t before = logits_.size();
    setup_.model->predict(*setup_.context, model, batches_->get(samples),
                          logits_);
    CHECK(logits_.size() == before + samples.size());
    for (const int64_t sample : samples)
      clicked_.push_back(set_.clicked()[static_cast<size_t>(sample)]);
  }

  std::vector<double> metrics(Endpoint* all) override {
    const auto own = static_cast<double>(logits_.size());
    std::vector<double> sums = {
        logits_.empty() ? 0 : own * log_loss(logits_, clicked_), own};
    if (!all) return {sums[0] / sums[1], area_under_curve(logits_, clicked_)};
    agree(*all, all->world_group(), sums, Combine::kSum, tags::kEvaluation,
          Traffic::kEvaluation);
    return {sums[0] / sums[1],
            area_of_all(*all, SortedScores(logits_, clicked_))};
  }

 private:
  const Setup& setup_;
  const ClickSet& set_;
  std::unique_ptr<BatchSource> batches_;
  std::vector<float> logits_;
  std::vector<uint8_t> clicked_;
};

// --- the problem

class ClickProblem final : public Problem {
 public:
  explicit ClickProblem(const Options& options)
      : data_(load_clicks(options.data)),
        folder_(is_synthetic(options.data.kind) ? "" : options.data.path) {}

  SampleSpec spec() const override { return data_.spec; }
  std::string source() const override { return data_.source; }
  std::string digest() const override { return data_.digest; }
  std::string vocabulary() const override { return data_.vocabulary; }

  std::string doubt() const override {
    const std::span<const uint8_t> clicked = data_.test->clicked();
    const auto clicks = std::ranges::count(clicked, uint8_t{1});
    if (clicks > 0 && clicks < std::ssize(clicked)) return "";
    return fmt::format("{}: {} test record is a click, so there is no AUC",
                       data_.source, clicks == 0 ? "no" : "every");
  }

  SampleTable training_samples() const override {
    return table_of(*data_.train);
  }

  SampleTable test_samples() const override { return table_of(*data_.test); }

  int64_t memory_bytes() const override {
    return data_.train->memory_bytes() + data_.test->memory_bytes();
  }

  std::string describe() const override {
    return fmt::format(
        "{} fields of {} rows together{}", data_.spec.fields(),
        data_.spec.total_rows(),
        data_.best_auc
            ? fmt::format(", best possible AUC {:.4f}", *data_.best_auc)
            : "");
  }

  std::string check() const override {
    if (folder_.empty()) return "";
    const std::vector<std::string> faults = check_clicks(folder_);
    if (!faults.empty())
      fail(ExitCode::kBadInput, "{}", join(faults, "\nerror: "));
    return fmt::format("records   all {} read, all intact",
                       data_.train->samples() + data_.test->samples());
  }

  void prepare(const Setup& setup, int processes_a_device) override {
    pool_ = std::make_unique<ThreadPool>(setup.feed_threads);
    resident_ =
        make_resident(setup, *data_.train, data_.spec, processes_a_device);
  }

  std::string note(const Setup& setup) const override {
    if (resident_) return ", training set on the GPU";
    if (setup.options.data.prefetch == 0) return "";
    const int threads = pool_ ? pool_->threads() : 1;
    return fmt::format(", batches made ahead by {} thread{}", threads,
                       threads == 1 ? "" : "s");
  }

  std::unique_ptr<Feed> make_feed(const Setup& setup,
                                  int rank,
                                  int64_t first_batch) const override {
    if (resident_)
      return std::make_unique<ResidentClickFeed>(setup, *resident_, rank,
                                                 first_batch);
    return std::make_unique<AheadFeed<ClickBatch>>(
        setup, rank, first_batch,
        batch_bytes(setup.options.data.batch_of(rank), data_.spec.fields()),
        fill_from(*data_.train, data_.spec, pool_.get()));
  }

  std::vector<std::vector<int32_t>> touched_rows(
      const Setup& setup,
      int rank,
      int64_t first_batch,
      int64_t batches) const override {
    return syncopate::touched_rows(
        setup, rank, first_batch, batches,
        fill_from(*data_.train, data_.spec, pool_.get()));
  }

  std::unique_ptr<BatchSource> make_batches(
      const Setup& setup,
      SetPart part,
      int64_t max_samples) const override {
    return std::make_unique<HostBatches<ClickBatch>>(
        *setup.context, batch_bytes(max_samples, data_.spec.fields()),
        fill_from(set(part), data_.spec, pool_.get()));
  }

  std::vector<MetricInfo> metrics() const override {
    return {{"loss", "mean log loss, nats a sample"},
            {"auc",
             "area under the receiver operating characteristic, exact, ties "
             "counted half"}};
  }

  std::unique_ptr<Scorer> make_scorer(const Setup& setup,
                                      SetPart part) const override {
    return std::make_unique<ClickScorer>(
        setup, set(part), make_batches(setup, part, setup.options.eval.batch));
  }

  void check_output(const fs::path& output) const override {
    if (output.extension() != ".csv")
      fail(ExitCode::kUsage, "--output={}: expected a name ending in .csv",
           output.string());
  }

  // Writes sample,label,probability.
  std::string predict(const Setup& setup,
                      const ReplicaView& model,
                      const fs::path& output) const override {
    const SetPart part = setup.options.eval.on;
    const std::vector<float> logits = outputs(setup, model, part);
    const std::vector<int64_t> samples = indices(setup, part);
    std::vector<uint8_t> clicked;
    std::string text = "sample,label,probability\n";
    for (size_t n = 0; n < samples.size(); ++n) {
      clicked.push_back(set(part).clicked()[static_cast<size_t>(samples[n])]);
      text += fmt::format("{},{},{:.9g}\n", samples[n], clicked.back(),
                          1 / (1 + std::exp(-double{logits[n]})));
    }
    write_file_atomically(output, text);
    return fmt::format(
        "{} of the {} set, AUC {:.6f}", counted(std::ssize(logits), "sample"),
        setup.options.eval.on, area_under_curve(logits, clicked));
  }

 private:
  const ClickSet& set(SetPart part) const {
    return part == SetPart::kTest ? *data_.test : *data_.train;
  }

  ClickData data_;
  std::string folder_;                        // of prepared files; empty: made
  std::unique_ptr<ThreadPool> pool_;          // reads batches
  std::unique_ptr<ResidentClicks> resident_;  // null: batches from the host
};

}  // namespace

std::unique_ptr<Problem> make_click_problem(const Options& options) {
  return std::make_unique<ClickProblem>(options);
}

}  // namespace syncopate
