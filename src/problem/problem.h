// What is learnt from which data, and how it is judged: all in which images,
// questions and clicks differ for the program around a network.
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
  virtual double wait_s() const = 0;  // time next() had to wait, in all
};

// Batches without any random change, on the device.
class BatchSource {
 public:
  virtual ~BatchSource() = default;
  // The view is valid until the next call, for work of the context's stream.
  virtual Batch get(std::span<const int64_t> samples) = 0;
};

// Forms the metrics of one model from batches of one set.
class Scorer {
 public:
  virtual ~Scorer() = default;
  // `model` is the same at every call; samples of a group come together.
  virtual void add(const ReplicaView& model,
                   std::span<const int64_t> samples) = 0;
  // One for each of Problem::metrics(). `all` null: of what this scorer was
  // given. Else collective: of what the scorers of all workers were given, the
  // same at each.
  virtual std::vector<double> metrics(Endpoint* all) = 0;
};

class Problem {
 public:
  virtual ~Problem() = default;

  virtual SampleSpec spec() const = 0;
  virtual SampleTable training_samples() const = 0;
  virtual SampleTable test_samples() const = 0;
  virtual std::string source() const = 0;  // for log and provenance
  virtual std::string digest() const = 0;
  virtual int64_t memory_bytes() const = 0;
  // What training samples decided, by name, as text: for the log, provenance
  // and checkpoints.
  virtual std::map<std::string, std::string> facts() const { return {}; }
  // Takes them from a checkpoint's facts, of which some may be absent: the
  // programs that wrote it formed them in another way, which is repeated.
  virtual void restore(Context&, const std::map<std::string, std::string>&) {}
  // What a sample is, for the plan: "32 x 32 x 3, 10 classes".
  virtual std::string describe() const = 0;
  // Where batches are made, for the log: "" or ", training set on the GPU".
  virtual std::string note(const Setup&) const { return ""; }
  // Looks at data that loading leaves unread: a line of what was read, or
  // Error(kBadInput). "": there is none.
  virtual std::string check() const = 0;

  // The network and its memory are there: what depends on the device.
  virtual void prepare(const Setup&, int /*processes_a_device*/) {}

  // Worker `rank`, from batch `first_batch` of the run on: by make_batches,
  // where nothing is done ahead.
  virtual std::unique_ptr<Feed> make_feed(const Setup& setup,
                                          int rank,
                                          int64_t first_batch) const;
  virtual std::unique_ptr<BatchSource>
  make_batches(const Setup& setup, SetPart part, int64_t max_samples) const = 0;

  // The samples of a part, as indices into the training or the test set.
  std::vector<int64_t> indices(const Setup& setup, SetPart part) const;
  // The same as they are evaluated: batches of up to eval.batch samples, no
  // group of SampleTable divided.
  std::vector<std::vector<int64_t>> evaluation_batches(const Setup& setup,
                                                       SetPart part) const;
  // Of an evaluation: [0] is the loss, [1] the one that says how good it is.
  virtual std::vector<MetricInfo> metrics() const = 0;
  virtual std::unique_ptr<Scorer> make_scorer(const Setup& setup,
                                              SetPart part) const = 0;

  // Writes what `model` says of the set that eval.on names to `output`, returns
  // a line about it. Error(kUsage) where the name's ending is of no format.
  virtual void check_output(const fs::path& output) const = 0;
  virtual std::string predict(const Setup& setup,
                              const ReplicaView& model,
                              const fs::path& output) const = 0;
};

// Reads or makes the data. Errors as load_dataset. `threads` may help.
std::unique_ptr<Problem> make_problem(const Options& options, int threads);

}  // namespace syncopate
