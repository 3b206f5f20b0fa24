// Base of gossip schemes: neighbours with their weights, rounds of compressed
// messages, and checks of topology and compressor.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ops/combine.h"
#include "sync/exchange.h"
#include "sync/scheme_base.h"

namespace syncopate {

// y = own * y + terms, added in their order.
void add_terms(Context& context,
               std::span<float> y,
               float own,
               std::span<const Term> terms);

class GossipBase : public SchemeBase {
 protected:
  explicit GossipBase(const SchemeParts& parts);

  int degree() const { return static_cast<int>(neighbours_.size()); }

  // The coefficients of `factor` sum_j w_ij (x_j - x_i), by neighbour and of
  // this worker. They are multiples of a power of two that depends on `factor`
  // alone, so that their sum is exactly 0, as are those of the columns:
  // otherwise each step would move the mean of all models to the same side.
  struct Drawn {
    float own;
    std::vector<float> neighbours;
  };
  Drawn drawn(double factor) const;

  std::vector<Neighbour> neighbours_;  // j, w_ij
  std::vector<int> neighbour_ranks_;
  std::vector<int> receivers_;  // the same ranks in the order of sending
};

// A round sends q_i = Q(x) to all neighbours and receives all their q_j. It may
// overlap the next step; at a boundary a round in flight is taken in exactly as
// the next receive() would do.
class CompressedGossip : public GossipBase {
 public:
  void enter() override { round_ = 0; }
  void quiesce() override;

 protected:
  explicit CompressedGossip(const SchemeParts& parts);

  // Starts round `round()`, from 1.
  void send(std::span<const float> x);
  // Waits for the round in flight, if any, and runs take_in().
  void receive();
  virtual void take_in() = 0;

  // The messages of the round: this worker's, and that of the neighbour j.
  using Q = std::span<const uint32_t>;
  Q own() const;
  Q from(int j) const;
  // y = a * y + b * q
  void blend(std::span<float> y, Q q, double a, double b);
  // y = b * q. All workers that decode a message get the same bits.
  void decode(std::span<float> y, Q q, double b);
  // Returns a range for a copy of the neighbour j's model, initially 0, which
  // checkpoints hold.
  std::span<float> keep_copy_of(int j);
  int64_t round() const { return round_; }
  bool is_under_way() const { return exchange_.is_under_way(); }

 private:
  std::unique_ptr<Compressor> compressor_;
  DeviceVector<float> message_;  // 32-bit words
  NeighbourExchange exchange_;
  int64_t round_ = 0;
};

// For SchemeInfo::check: the topology; the compressor too; and, for the named
// scheme, that error feedback gets the contraction it needs.
void check_topology(const SchemeRequest& request);
void check_compression(const SchemeRequest& request);
void check_contraction(const SchemeRequest& request, const char* scheme);
std::vector<Key> choco_keys();  // of choco and deep_squeeze
std::optional<double> compressed_gossip_bytes(const TrafficPlan& plan);

}  // namespace syncopate
