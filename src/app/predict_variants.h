// What each scheme that an input can run with would take on a cluster.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "config/options.h"
#include "run/session.h"
#include "train/simulation.h"
#include "train/update_cost.h"

namespace syncopate {

// A variant of an input: a scheme, with keys that differ from the input's.
struct Variant {
  std::string scheme;
  std::vector<std::string> keys;  // "--section.key=value"

  // The scheme and its keys, as on a command line.
  std::vector<std::string> overrides() const;
  std::string text() const;
  bool has_whole_tables() const;  // instead of rows
};

// Returns `variant` with eval.model = average if `base` evaluates a centre that
// the variant's scheme does not have.
Variant without_centre(Variant variant, const Engine& base);

// Where Prediction::update_s is from. kUnknown: it could not be measured and is
// missing in all times.
enum class UpdateFrom : uint8_t { kInput, kMeasured, kExtrapolated, kUnknown };

struct Prediction {
  Variant variant;
  std::vector<std::string> unused;  // keys of the input that it does not use
  std::string obstacle;             // why it cannot run; empty: it can
  SimulatedWork work;               // of all workers together
  double update_s = 0;              // per step
  UpdateFrom update_from = UpdateFrom::kInput;
  int workers = 0;

  double samples_per_s = 0;

  // Whether it can run, and nothing is missing in its times.
  bool can_be_advised() const {
    return obstacle.empty() && update_from != UpdateFrom::kUnknown;
  }
  bool has_measured_update() const {
    return update_from == UpdateFrom::kMeasured ||
           update_from == UpdateFrom::kExtrapolated;
  }
  // Mean seconds per step of a worker.
  double step_s() const {
    return work.samples / static_cast<double>(work.steps) * workers /
           samples_per_s;
  }
  // The part of a step in which communication blocks a worker.
  double exposed_share() const;
  // What limits the speed: the largest part of a step and its share.
  std::string limit() const;
};

// How variants are predicted. `compute` and `network`, if present, replace
// those of the input.
struct PredictionSettings {
  int64_t steps = 0;           // of each worker
  bool is_adjustable = false;  // steps_of() may choose another number
  std::optional<ComputeOptions> compute;
  std::optional<NetworkOptions> network;
};

class Predictor {
 public:
  // `base` is the input's engine. Both references must outlive this object.
  Predictor(Session& session, const Engine& base, PredictionSettings settings)
      : session_(session), base_(base), settings_(std::move(settings)) {}

  Prediction predict(const Variant& variant);

  // Variants of bulk-synchronous training, the fastest first (those that cannot
  // be advised last): the input's; the other collectives; NCCL, if the network
  // has copies that it avoids; the fastest with other buckets; the fastest of
  // these with bf16 messages. Only the input's, if that cannot run.
  std::vector<Prediction> predict_bsp();
  // All other schemes with the input's keys, except composite ones, whose
  // speed is that of their phases, in the same order. A scheme that a default
  // of its own keeps from running has another value. Schemes that compress are
  // predicted for the input's compress.kind or, if it gives none, for two;
  // those that can use NCCL, with it if it avoids copies. Among at most
  // ModelledSums::kExactWorld workers, a scheme is also predicted with what
  // made bsp faster, `of_bsp`, as far as it uses that, and listed twice if that
  // makes it faster, too.
  std::vector<Prediction> predict_others(const Variant& of_bsp);

 private:
  void measure(Prediction& prediction);
  Prediction predict_able(const SchemeInfo& info,
                          const std::vector<std::string>& keys);
  std::vector<Prediction> predict_kinds(const SchemeInfo& info);
  int64_t steps_of(const Engine& engine) const;
  bool can_bf16(const Variant& variant) const;
  // Those of bsp's keys for collective, buckets and wire that a scheme uses.
  static std::vector<std::string> keys_for(const SchemeInfo& info,
                                           const Variant& of_bsp);
  std::optional<Prediction> predict_tuned(const Prediction& as_given,
                                          const Variant& of_bsp);
  const NetworkOptions& network() const;
  std::string why_left_out(const std::string& collective) const;
  // The key with which a scheme avoids the network's copies, if it can.
  std::vector<std::string> without_copies(const SchemeInfo& info) const;

  Session& session_;
  const Engine& base_;
  PredictionSettings settings_;
  // By the keys that affect the measured time.
  std::map<std::string, std::optional<UpdateCost>> measured_;
  int64_t predicted_ = 0;
};

}  // namespace syncopate
