// PowerSGD (Vogels et al. 2019, algorithms 1 and 2): gradients are sent as
// products of thin matrices, found by one step of power iteration.
//
//   M_i = g_i + e_i                  (rows, cols), rows: the first dimension
//   P   = mean of M_i Q              (rows, rank)
//   P  <- orthonormal columns
//   Q_i = M_i^T P                    (cols, rank)
//   e_i <- M_i - P Q_i^T             e_i = 0 at first
//   Q   = mean of Q_i                where the next step starts (warm start)
//   x   <- optimizer(x, P Q^T)       momentum behind the mean
//
// Tensors that would not shrink, rank (rows + cols) >= rows cols, vectors
// included, are sent uncompressed beside P. Without warm start, Q is drawn from
// N(0, 1) at each step, the same on all workers. Parameters and optimizer
// states stay bitwise equal on all workers; BatchNorm's running statistics are
// local.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "tensor/parameter_table.h"

namespace syncopate {

// How the tensors of a model are sent.
struct PowerSgdLayout {
  struct Matrix {
    int64_t offset, rows, cols;  // in the range of gradients
    int64_t p, q;                // offsets of P (rows, rank), Q^T (rank, cols)
  };
  // Tensors sent uncompressed; adjacent ones are merged.
  struct Whole {
    int64_t offset, elems;  // in the range of gradients
    int64_t p;              // in the range of P
  };
  PowerSgdLayout(const ParameterTable& table, int64_t rank);

  std::vector<Matrix> matrices;
  std::vector<Whole> wholes;
  int64_t p_elems = 0, q_elems = 0;  // as sent
};

}  // namespace syncopate
