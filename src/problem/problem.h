// A learning problem: its data, batches and metrics. Everything in which
// images, questions and clicks differ for the program around a network is here.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/log.h"
#include "comm/endpoint.h"
#include "config/options.h"
#include "data/sampler.h"
#include "models/model.h"

namespace syncopate {

struct Setup;

// A worker's training batches in the memory of its device.
class Feed {
 public:
  virtual ~Feed() = default;
  // The view is valid until the next call, for work of the context's stream.
  virtual Batch next() = 0;
  virtual double wait_s() const = 0;  // total time that next() has waited
};

// Batches of given samples, without augmentation, on the device.
class BatchSource {
 public:
  virtual ~BatchSource() = default;
  // The view is valid until the next call, for work of the context's stream.
  virtual Batch get(std::span<const int64_t> samples) = 0;
};

// Computes the metrics of one model from batches of one set.
class Scorer {
 public:
  virtual ~Scorer() = default;
  // `model` must be the same in every call, and the samples of a group must be
  // in the same call.
  virtual void add(const ReplicaView& model,
                   std::span<const int64_t> samples) = 0;
  // Returns one value for each of Problem::metrics(): over this scorer's
  // samples if `all` is null; else, collectively, over the samples of all
  // workers' scorers, with the same result on each.
  virtual std::vector<double> metrics(Endpoint* all) = 0;
};

class Problem {
 public:
  virtual ~Problem() = default;

  virtual SampleSpec spec() const = 0;
  // Empty if options.data.trained.is_used applied.
  virtual SampleTable training_samples() const = 0;
  virtual SampleTable test_samples() const = 0;
  virtual std::string source() const = 0;  // for log and provenance
  virtual std::string digest() const = 0;
  virtual int64_t memory_bytes() const = 0;
  // Returns constants that were derived from the training samples, by name, as
  // text for the log, provenance and checkpoints.
  virtual std::map<std::string, std::string> facts() const { return {}; }
  // Restores them from a checkpoint's facts. If one is absent, an earlier
  // version of the program wrote the checkpoint, and its derivation is
  // repeated.
  virtual void restore(Context&, const std::map<std::string, std::string>&) {}
  // Call after restore(). Says why the test set can hardly be what the model
  // was trained for; "" if nothing speaks against it.
  virtual std::string doubt() const { return ""; }
  // The digest of what numbers the words or values in the data, which must be
  // the one that a model was trained with; "" if there is nothing of the kind.
  virtual std::string vocabulary() const { return ""; }
  // By label; empty where the data have none.
  virtual std::vector<std::string> class_names() const { return {}; }
  // Describes a sample, for the plan: "32 x 32 x 3, 10 classes".
  virtual std::string describe() const = 0;
  // Says where batches are made, for the log: "" or ", training set on the
  // GPU".
  virtual std::string note(const Setup&) const { return ""; }
  // Reads data that loading has not read and returns a line about it, or "" if
  // there is none. Throws Error(kBadInput).
  virtual std::string check() const = 0;

  // Throws Error(kBadInput) if samples that an evaluation needs lack labels.
  virtual void require_labels() const {}

  // Prepares what depends on the device, once the network and its memory exist.
  virtual void prepare(const Setup&, int /*processes_a_device*/) {}

  // Returns the training batches of worker `rank` from batch `first_batch` of
  // the run on.
  virtual std::unique_ptr<Feed> make_feed(const Setup& setup,
                                          int rank,
                                          int64_t first_batch) const = 0;
  // Returns, for each embedding table in the order of the model's parameters,
  // the sorted numbers of the rows that batches [first_batch, first_batch +
  // batches) of worker `rank` touch. Empty for networks without tables.
  virtual std::vector<std::vector<int32_t>> touched_rows(
      const Setup& /*setup*/,
      int /*rank*/,
      int64_t /*first_batch*/,
      int64_t /*batches*/) const {
    return {};
  }
  virtual std::unique_ptr<BatchSource>
  make_batches(const Setup& setup, SetPart part, int64_t max_samples) const = 0;

  // Returns the samples of a part as indices into the training or the test set.
  std::vector<int64_t> indices(const Setup& setup, SetPart part) const;
  // Returns the same samples in batches of up to eval.batch samples, which
  // divide no group of SampleTable.
  std::vector<std::vector<int64_t>> evaluation_batches(const Setup& setup,
                                                       SetPart part) const;
  // The metrics of an evaluation: [0] is the loss, [1] the score.
  virtual std::vector<MetricInfo> metrics() const = 0;
  virtual std::unique_ptr<Scorer> make_scorer(const Setup& setup,
                                              SetPart part) const = 0;

  // predict writes the model's predictions for the set that eval.on names to
  // `output` and returns a line about them. check_output throws Error(kUsage)
  // if the file name's extension belongs to no format.
  virtual void check_output(const fs::path& output) const = 0;
  virtual std::string predict(const Setup& setup,
                              const ReplicaView& model,
                              const fs::path& output) const = 0;

 protected:
  // Returns the network's outputs for the samples of a part, end to end.
  std::vector<float> outputs(const Setup& setup,
                             const ReplicaView& model,
                             SetPart part) const;
};

// Reads or generates the data with up to `threads` threads. Throws the errors
// of load_dataset.
std::unique_ptr<Problem> make_problem(const Options& options, int threads);

}  // namespace syncopate
