// Operations in flight at MPI: starts, tests and completes them. Used by the
// communication thread only.
//
// Messages are cut into pieces of kPieceBytes; a shorter piece, possibly empty,
// ends a message. Counts thus fit MPI's int, and a receiver that does not know
// the size detects the end.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "comm/mpi/communicators.h"
#include "comm/mpi/operation.h"

namespace syncopate::mpi {

inline constexpr int64_t kPieceBytes = int64_t{64} << 20;

class Transfers {
 public:
  // `ended` is called for every operation that has completed or failed.
  Transfers(std::deque<std::unique_ptr<Stray>>& strays,
            std::function<void(Operation&)> ended);

  void begin(const std::shared_ptr<Operation>& operation);
  bool poll();            // whether anything completed or arrived
  bool is_quiet() const;  // nothing in flight
  void progress();        // lets MPI send what it buffers, when quiet
  // Gives up what is in flight: that, and whatever is started later, ends with
  // the error.
  void abandon(const std::exception_ptr& error);

 private:
  struct Piece {
    std::shared_ptr<Operation> operation;
    int64_t expected_bytes;  // of receives; otherwise -1
  };
  // A posted receive whose piece was among the strays.
  struct Adoption {
    std::shared_ptr<Operation> operation;
    std::byte* data;
    int64_t expected_bytes;
    std::unique_ptr<Stray> stray;
  };

  void begin_send(const std::shared_ptr<Operation>& operation);
  void begin_receive(const std::shared_ptr<Operation>& operation);
  void begin_all_reduce(const std::shared_ptr<Operation>& operation);
  void track(MPI_Request handle, Piece piece);
  bool test_handles();
  void check_piece(const Piece& piece, const MPI_Status& status, int error);
  bool take_strays();
  bool serve_listeners();
  bool serve(Operation& listener);
  void take(const std::vector<std::unique_ptr<Stray>*>& pieces,
            Operation& listener);
  bool settle_adoptions();
  void end_piece(Operation& operation);
  void end(Operation& operation);

  std::deque<std::unique_ptr<Stray>>& strays_;  // in order of arrival
  std::function<void(Operation&)> ended_;
  std::vector<MPI_Request> handles_;
  std::vector<Piece> pieces_;  // parallel to handles_
  std::vector<int> finished_;
  std::vector<MPI_Status> statuses_;
  std::deque<std::shared_ptr<Operation>> listeners_;
  std::vector<Adoption> adoptions_;
  std::exception_ptr failure_;
};

}  // namespace syncopate::mpi
