// What is in flight at MPI: begins operations, tests them, and ends them. Used
// by the communication thread only.
//
// Messages are cut into pieces of kPieceBytes; a message ends with a piece
// that is shorter, possibly empty. So counts fit MPI's int, and a receiver
// that does not know a size finds the end.
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
  // `ended` is told of every operation that is complete or has failed.
  Transfers(std::deque<std::unique_ptr<Stray>>& strays,
            std::function<void(Operation&)> ended);

  void begin(const std::shared_ptr<Operation>& operation);
  bool poll();            // whether anything ended or came
  bool is_quiet() const;  // nothing in flight
  void progress();        // lets MPI send what it holds back, when quiet
  // Gives up what is in flight; all of it, and what is begun later, ends with
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
  bool settle_adoptions();
  void end_piece(Operation& operation);
  void end(Operation& operation);

  std::deque<std::unique_ptr<Stray>>& strays_;  // in order of arrival
  std::function<void(Operation&)> ended_;
  std::vector<MPI_Request> handles_;
  std::vector<Piece> pieces_;  // beside handles_
  std::vector<int> finished_;
  std::vector<MPI_Status> statuses_;
  std::deque<std::shared_ptr<Operation>> listeners_;
  std::vector<Adoption> adoptions_;
  std::exception_ptr failure_;
};

}  // namespace syncopate::mpi
