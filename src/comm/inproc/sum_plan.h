// What the members of a modelled sum send to each other, and when: by ring, and
// by exchanges between pairs (comm/exchange.h: butterfly and binary blocks).
//
// A plan divides the members into classes and follows the first member of each.
// The others of its class do the same at about the same time. In exchanges by
// pairs, what they would send to it comes from the followed member of a similar
// class: an exchange with itself would never wait, because both members reach
// it at the same time. With a class for every member, a plan is exact.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "comm/collectives.h"
#include "comm/exchange.h"

namespace syncopate::inproc {

bool is_by_pairs(CollectiveAlgorithm algorithm);

// A member's exchanges in both halves of a sum by pairs, in their order.
std::vector<ExchangeStep> exchange_steps(CollectiveAlgorithm algorithm,
                                         int group_size,
                                         int position,
                                         int64_t elems);

class SumPlan {
 public:
  // Follows every member, or at most `classes` (a power of two, at least 4) of
  // each block of a power of two of members. By classes, ranges that are
  // divided equally often have the size of the largest, which is an element
  // more than that of others.
  //   ring:       all members are one class
  //   by pairs:   members with the same first digits of their place in a block
  //   butterfly:  folds a multiple of core / classes members, at least one
  static constexpr int kEveryMember = 0;
  static SumPlan make(CollectiveAlgorithm algorithm,
                      int group_size,
                      int64_t elems,
                      int classes);

  // An exchange between two members, or a phase of a ring.
  struct Step {
    int64_t out = 0, in = 0;          // elements sent, received in each chunk
    int64_t chunks = 1;               // one after the other
    int64_t ahead = kAhead;           // by how many messages sends run ahead
    std::vector<int64_t> sizes = {};  // of the messages, if chunks differ
    // Where `out` arrives: nowhere if the receiver is neither followed nor of
    // this class; one entry per sender if several members of this class send to
    // the same member.
    struct Arrival {
      int at_class, at_step;
    };
    std::vector<Arrival> to = {};

    int64_t num_out() const { return chunks * num_segments(out); }
    int64_t num_in() const { return chunks * num_segments(in); }
    // Elements of message i < num_out().
    int64_t elems_of(int64_t i) const {
      if (!sizes.empty()) return sizes[i];
      const int64_t segment = chunks == 1 ? i : i % num_segments(out);
      return segment_of({0, out}, segment).elems;
    }
  };

  int num_classes() const { return static_cast<int>(steps_.size()); }
  int class_of(int position) const { return class_of_[position]; }
  // When each class enters a sum, from when its members do, by position. A
  // class enters with the member that is followed, so that the times of classes
  // vary like those of members; the class of the last member enters with that
  // one, because no member ends before it has entered. -kNever: the class has
  // no member.
  std::vector<Time> entered_at(std::span<const Time> by_position) const;
  std::span<const Step> steps_of(int member_class) const {
    return steps_[member_class];
  }

 private:
  static SumPlan of_ring(int group_size, int64_t elems, int classes);
  // The class whose followed member replaces a peer of the same class;
  // `num_larger` exchanges inside the class are larger than this one.
  using StandIn = std::function<int(int member_class, int num_larger)>;
  static SumPlan of_pairs(CollectiveAlgorithm algorithm,
                          int64_t elems,
                          std::vector<int> class_of,
                          const StandIn& stand_in);
  static SumPlan of_classes(CollectiveAlgorithm algorithm,
                            int group_size,
                            int64_t elems,
                            int classes);

  std::vector<int> class_of_;             // by position
  std::vector<std::vector<Step>> steps_;  // by class
};

}  // namespace syncopate::inproc
