// SPDX-License-Identifier: Apache-2.0
#include "comm/mpi/transfers.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "comm/mpi/mpi_check.h"
#include "watch/operations.h"

namespace syncopate::mpi {
namespace {

// Elements of one MPI_Iallreduce: MPI counts are int.
constexpr int64_t kReduceElems = int64_t{1} << 30;

int64_t num_pieces(int64_t bytes) {
  return bytes / kPieceBytes + 1;
}

int64_t piece_bytes(int64_t bytes, int64_t piece) {
  return std::min(kPieceBytes, bytes - piece * kPieceBytes);
}

std::exception_ptr internal_error(const std::string& text) {
  return std::make_exception_ptr(Error(ExitCode::kInternal, text));
}

// By a message to oneself: `to` may be device memory.
void copy_by_mpi(std::byte* to, const MessageBytes& from) {
  const int bytes = static_cast<int>(from.size());
  CHECK_MPI(MPI_Sendrecv(from.data(), bytes, MPI_BYTE, 0, 0, to, bytes,
                         MPI_BYTE, 0, 0, MPI_COMM_SELF, MPI_STATUS_IGNORE));
}

MessageBytes joined(std::vector<MessageBytes> parts) {
  if (parts.size() == 1) return std::move(parts.front());
  size_t size = 0;
  for (const MessageBytes& part : parts) size += part.size();
  MessageBytes whole(size);
  std::byte* to = whole.data();
  for (const MessageBytes& part : parts)
    to = std::copy(part.begin(), part.end(), to);
  return whole;
}

bool is_truncation(int code) {
  int kind = MPI_SUCCESS;
  MPI_Error_class(code, &kind);
  return kind == MPI_ERR_TRUNCATE;
}

}  // namespace

Transfers::Transfers(std::deque<std::unique_ptr<Stray>>& strays,
                     std::function<void(Operation&)> ended)
    : strays_(strays), ended_(std::move(ended)) {
  for (const auto& stray : strays_) {
    if (stray->arriving == MPI_REQUEST_NULL) continue;
    track(std::exchange(stray->arriving, MPI_REQUEST_NULL),
          {stray->arrival, static_cast<int64_t>(stray->bytes.size())});
  }
}

void Transfers::begin(const std::shared_ptr<Operation>& operation) {
  if (failure_ != nullptr) {
    if (operation->done) return;  // abandoned while being started
    operation->error = failure_;
    end(*operation);
    return;
  }
  switch (operation->kind) {
    case Operation::Kind::kSend:
      return begin_send(operation);
    case Operation::Kind::kReceive:
      return begin_receive(operation);
    case Operation::Kind::kReceiveAny:
      listeners_.push_back(operation);
      return;
    case Operation::Kind::kAllReduce:
      return begin_all_reduce(operation);
  }
}

void Transfers::track(MPI_Request handle, Piece piece) {
  handles_.push_back(handle);
  pieces_.push_back(std::move(piece));
}

void Transfers::begin_send(const std::shared_ptr<Operation>& operation) {
  operation->pieces_left = num_pieces(operation->bytes);
  for (int64_t i = 0; i < num_pieces(operation->bytes); ++i) {
    MPI_Request handle = MPI_REQUEST_NULL;
    CHECK_MPI(MPI_Isend(operation->data + i * kPieceBytes,
                        static_cast<int>(piece_bytes(operation->bytes, i)),
                        MPI_BYTE, operation->peer, operation->tag,
                        operation->comm, &handle));
    track(handle, {operation, -1});
  }
}

void Transfers::begin_receive(const std::shared_ptr<Operation>& operation) {
  operation->pieces_left = num_pieces(operation->bytes);
  for (int64_t i = 0; i < num_pieces(operation->bytes); ++i) {
    std::byte* data = operation->data + i * kPieceBytes;
    const int64_t bytes = piece_bytes(operation->bytes, i);
    const auto stray =
        std::find_if(strays_.begin(), strays_.end(), [&](const auto& s) {
          return s->from == operation->peer && s->tag == operation->tag &&
                 s->arrival->comm == operation->comm;
        });
    if (stray != strays_.end()) {
      adoptions_.push_back({operation, data, bytes, std::move(*stray)});
      strays_.erase(stray);
      continue;
    }
    MPI_Request handle = MPI_REQUEST_NULL;
    CHECK_MPI(MPI_Irecv(data, static_cast<int>(bytes), MPI_BYTE,
                        operation->peer, operation->tag, operation->comm,
                        &handle));
    track(handle, {operation, bytes});
  }
}

void Transfers::begin_all_reduce(const std::shared_ptr<Operation>& operation) {
  const int64_t elems = operation->bytes / 4;
  auto* values = reinterpret_cast<float*>(operation->data);
  operation->pieces_left = (elems + kReduceElems - 1) / kReduceElems;
  if (elems == 0) return end(*operation);
  for (int64_t first = 0; first < elems; first += kReduceElems) {
    MPI_Request handle = MPI_REQUEST_NULL;
    CHECK_MPI(
        MPI_Iallreduce(MPI_IN_PLACE, values + first,
                       static_cast<int>(std::min(kReduceElems, elems - first)),
                       MPI_FLOAT, MPI_SUM, operation->comm, &handle));
    track(handle, {operation, -1});
  }
}

bool Transfers::poll() {
  bool moved = test_handles();
  if (!listeners_.empty()) {
    moved = take_strays() || moved;
    moved = serve_listeners() || moved;
  }
  if (!adoptions_.empty()) moved = settle_adoptions() || moved;
  return moved;
}

bool Transfers::is_quiet() const {
  return handles_.empty() && listeners_.empty() && adoptions_.empty();
}

void Transfers::progress() {
  int flag = 0;
  CHECK_MPI(
      MPI_Iprobe(MPI_ANY_SOURCE, 0, MPI_COMM_SELF, &flag, MPI_STATUS_IGNORE));
}

bool Transfers::test_handles() {
  if (handles_.empty()) return false;
  const int count = static_cast<int>(handles_.size());
  finished_.resize(handles_.size());
  statuses_.resize(handles_.size());
  int num_finished = 0;
  const int code = MPI_Testsome(count, handles_.data(), &num_finished,
                                finished_.data(), statuses_.data());
  if (code != MPI_ERR_IN_STATUS) CHECK_MPI(code);
  if (num_finished == MPI_UNDEFINED || num_finished == 0) return false;
  // Completing an operation must not modify these vectors: collect first.
  std::vector<std::shared_ptr<Operation>> ending;
  for (int k = 0; k < num_finished; ++k) {
    const Piece& piece = pieces_[finished_[k]];
    const MPI_Status& status = statuses_[k];
    check_piece(piece, status,
                code == MPI_ERR_IN_STATUS ? status.MPI_ERROR : MPI_SUCCESS);
    ending.push_back(piece.operation);
  }
  size_t kept = 0;
  for (size_t i = 0; i < handles_.size(); ++i) {
    if (handles_[i] == MPI_REQUEST_NULL) continue;
    if (kept != i) {
      handles_[kept] = handles_[i];
      pieces_[kept] = std::move(pieces_[i]);
    }
    ++kept;
  }
  handles_.resize(kept);
  pieces_.resize(kept);
  for (const auto& operation : ending) end_piece(*operation);
  return true;
}

void Transfers::check_piece(const Piece& piece,
                            const MPI_Status& status,
                            int error) {
  Operation& operation = *piece.operation;
  if (error != MPI_SUCCESS && error != MPI_ERR_PENDING &&
      !(piece.expected_bytes >= 0 && is_truncation(error))) {
    operation.error = std::make_exception_ptr(Error(
        ExitCode::kPeerLost,
        fmt::format("message between workers {} and {} failed: {}",
                    operation.rank, operation.peer, mpi_error_text(error))));
    return;
  }
  if (piece.expected_bytes < 0) return;
  int received = 0;
  if (error == MPI_SUCCESS) {
    CHECK_MPI(MPI_Get_count(&status, MPI_BYTE, &received));
    if (received == piece.expected_bytes) return;
  }
  operation.error = internal_error(
      error == MPI_SUCCESS
          ? describe_size_mismatch(operation.rank, operation.peer,
                                   operation.tag, piece.expected_bytes,
                                   received)
          : fmt::format("worker {} expected {} bytes from worker {} with tag "
                        "{}, and more came",
                        operation.rank, piece.expected_bytes, operation.peer,
                        operation.tag));
}

void Transfers::end_piece(Operation& operation) {
  if (--operation.pieces_left == 0) end(operation);
}

void Transfers::end(Operation& operation) {
  operations().end(operation.record);
  ended_(operation);
}

bool Transfers::take_strays() {
  bool moved = false;
  for (;;) {
    const MPI_Comm comm = listeners_.front()->comm;
    int found = 0;
    MPI_Message message = MPI_MESSAGE_NULL;
    MPI_Status status;
    CHECK_MPI(MPI_Improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &found, &message,
                          &status));
    if (!found) return moved;
    moved = true;
    int bytes = 0;
    CHECK_MPI(MPI_Get_count(&status, MPI_BYTE, &bytes));
    auto stray = std::make_unique<Stray>();
    stray->from = status.MPI_SOURCE;
    stray->tag = status.MPI_TAG;
    stray->bytes.resize(static_cast<size_t>(bytes));
    stray->arrival = std::make_shared<Operation>();
    stray->arrival->kind = Operation::Kind::kReceive;
    stray->arrival->comm = comm;
    CHECK_MPI(MPI_Comm_rank(comm, &stray->arrival->rank));
    stray->arrival->peer = stray->from;
    stray->arrival->tag = stray->tag;
    stray->arrival->pieces_left = 1;
    MPI_Request handle = MPI_REQUEST_NULL;
    CHECK_MPI(
        MPI_Imrecv(stray->bytes.data(), bytes, MPI_BYTE, &message, &handle));
    track(handle, {stray->arrival, bytes});
    strays_.push_back(std::move(stray));
  }
}

// A listener takes the first message in its range of which all pieces are
// there, so that one that arrives slowly does not delay those of others.
// Messages of one sender stay in order.
bool Transfers::serve(Operation& listener) {
  std::vector<int> senders;
  for (const auto& first : strays_) {
    const int from = first->from;
    const Tag tag = first->tag;
    if (tag < listener.tags.first || tag > listener.tags.last ||
        std::ranges::find(senders, from) != senders.end())
      continue;
    senders.push_back(from);
    if (!first->arrival->done) continue;
    std::vector<std::unique_ptr<Stray>*> pieces;
    for (auto& piece : strays_) {
      if (piece->from != from || piece->tag != tag) continue;
      if (!piece->arrival->done) break;
      pieces.push_back(&piece);
      const bool is_last = std::ssize(piece->bytes) < kPieceBytes ||
                           piece->arrival->error != nullptr;
      if (!is_last) continue;
      take(pieces, listener);
      return true;
    }
  }
  return false;
}

// Moves the pieces of a message out of the strays.
void Transfers::take(const std::vector<std::unique_ptr<Stray>*>& pieces,
                     Operation& listener) {
  Message& message = listener.message;
  message.from = (*pieces.front())->from;
  message.tag = (*pieces.front())->tag;
  std::vector<MessageBytes> parts;
  for (std::unique_ptr<Stray>* const piece : pieces) {
    listener.error = (*piece)->arrival->error;
    parts.push_back(std::move((*piece)->bytes));
    piece->reset();
  }
  message.payload = Payload(joined(std::move(parts)));
  std::erase(strays_, nullptr);
}

bool Transfers::serve_listeners() {
  bool moved = false;
  for (size_t i = 0; i < listeners_.size();) {
    if (!serve(*listeners_[i])) {
      ++i;
      continue;
    }
    const std::shared_ptr<Operation> listener = listeners_[i];
    listeners_.erase(listeners_.begin() + static_cast<ptrdiff_t>(i));
    end(*listener);
    moved = true;
  }
  return moved;
}

bool Transfers::settle_adoptions() {
  bool moved = false;
  for (size_t i = 0; i < adoptions_.size();) {
    Adoption& adoption = adoptions_[i];
    if (!adoption.stray->arrival->done) {
      ++i;
      continue;
    }
    const std::shared_ptr<Operation> operation = adoption.operation;
    const Stray& stray = *adoption.stray;
    const auto came = static_cast<int64_t>(stray.bytes.size());
    if (stray.arrival->error != nullptr)
      operation->error = stray.arrival->error;
    else if (came != adoption.expected_bytes)
      operation->error = internal_error(describe_size_mismatch(
          operation->rank, operation->peer, operation->tag,
          adoption.expected_bytes, came));
    else
      copy_by_mpi(adoption.data, stray.bytes);
    adoptions_.erase(adoptions_.begin() + static_cast<ptrdiff_t>(i));
    end_piece(*operation);
    moved = true;
  }
  return moved;
}

void Transfers::abandon(const std::exception_ptr& error) {
  failure_ = error;
  std::vector<std::shared_ptr<Operation>> ending;
  // MPI may still write into a message on its way, which cannot be cancelled.
  for (Adoption& adoption : std::exchange(adoptions_, {})) {
    ending.push_back(std::move(adoption.operation));
    if (!adoption.stray->arrival->done)
      strays_.push_back(std::move(adoption.stray));
  }
  for (size_t i = 0; i < handles_.size(); ++i) {
    const std::shared_ptr<Operation>& operation = pieces_[i].operation;
    // A peer sent this message ahead of time, for the next run.
    const auto stray =
        std::find_if(strays_.begin(), strays_.end(),
                     [&](const auto& s) { return s->arrival == operation; });
    if (stray != strays_.end()) {
      (*stray)->arriving = handles_[i];
      continue;
    }
    ending.push_back(operation);
    // MPI allows a collective to be neither cancelled nor freed.
    if (operation->kind == Operation::Kind::kAllReduce) continue;
    if (operation->kind == Operation::Kind::kReceive) MPI_Cancel(&handles_[i]);
    MPI_Request_free(&handles_[i]);
  }
  handles_.clear();
  pieces_.clear();
  for (auto& listener : std::exchange(listeners_, {}))
    ending.push_back(std::move(listener));
  for (const auto& operation : ending) {
    if (operation->done) continue;
    operation->error = error;
    end(*operation);
  }
}

}  // namespace syncopate::mpi
