// SPDX-License-Identifier: Apache-2.0
#include "emulator/nccl_shim_segment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <system_error>

namespace syncopate::emulator {
namespace {

// A lock of the open file, not of the process: it ends with the process, also
// where its parent has not yet asked how it ended.
struct flock lock_of(int rank, int16_t type) {
  struct flock lock {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_start = rank;
  lock.l_len = 1;
  return lock;
}

[[noreturn]] void fail_system(const std::string& what) {
  throw std::system_error(errno, std::generic_category(), what);
}

}  // namespace

// New shared memory is zero, which is how all of this starts.
struct Segment::Header {
  using Flags = std::array<std::atomic<uint32_t>, kMaxShimRanks>;
  Flags joined, left, finalized;
  std::atomic<uint64_t> spoiled;
};

namespace {
constexpr size_t kHeaderBytes = 4096;
}

Segment::Segment(const std::string& name, int rank, int size)
    : name_(name), rank_(rank), size_(size) {
  static_assert(sizeof(Header) <= kHeaderBytes);
  const auto num_channels = static_cast<size_t>(size) * size;
  bytes_ = kHeaderBytes + num_channels * sizeof(Channel);
  file_ = shm_open(name.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600);
  if (file_ < 0) fail_system("shm_open " + name);
  struct flock lock = lock_of(rank, F_WRLCK);
  void* memory = MAP_FAILED;
  if (ftruncate(file_, static_cast<off_t>(bytes_)) == 0 &&
      fcntl(file_, F_OFD_SETLK, &lock) == 0) {
    memory =
        mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, file_, 0);
  }
  if (memory == MAP_FAILED) {
    close(file_);
    fail_system("shared memory " + name);
  }
  header_ = static_cast<Header*>(memory);
  header_->joined[rank].store(1);
}

Segment::~Segment() {
  if (!is_complete_) shm_unlink(name_.c_str());
  munmap(header_, bytes_);
  close(file_);
}

Channel& Segment::channel(int from, int to) {
  auto* first = reinterpret_cast<std::byte*>(header_) + kHeaderBytes;
  return reinterpret_cast<Channel*>(first)[from * size_ + to];
}

bool Segment::is_complete() {
  if (is_complete_) return true;
  for (int rank = 0; rank < size_; ++rank) {
    if (header_->joined[rank].load() == 0) return false;
  }
  shm_unlink(name_.c_str());  // all have it open; nothing stays behind
  is_complete_ = true;
  return true;
}

bool Segment::is_gone(int rank) const {
  if (rank == rank_ || header_->joined[rank].load() == 0) return false;
  struct flock lock = lock_of(rank, F_WRLCK);
  if (fcntl(file_, F_OFD_GETLK, &lock) != 0) fail_system("F_OFD_GETLK");
  return lock.l_type == F_UNLCK && header_->left[rank].load() == 0;
}

void Segment::leave() {
  header_->left[rank_].store(1);
}

void Segment::finalize() {
  header_->finalized[rank_].store(1);
}

bool Segment::is_finalized() const {
  for (int rank = 0; rank < size_; ++rank) {
    if (header_->finalized[rank].load() == 0) return false;
  }
  return true;
}

void Segment::spoil(uint64_t serial) {
  uint64_t none = 0;
  header_->spoiled.compare_exchange_strong(none, serial);
}

uint64_t Segment::spoiled() const {
  return header_->spoiled.load();
}

}  // namespace syncopate::emulator
