// The contract of device collectives, by MPI ranks with one device each.
// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <cmath>
#include <numeric>
#include <thread>

#include "base/clock.h"
#include "comm/device_collectives.h"
#include "comm/ring.h"
#include "comm/tags.h"
#include "support/mpi_main.h"
#include "support/never_done.h"
#include "unit/comm/endpoint_contract.h"
#include "unit/sync/row_sums.h"

namespace syncopate {
namespace {

using Way = Transfer::Way;
using Collectives = std::unique_ptr<DeviceCollectives>;

// Ample for operations that succeed, and shorter than the watchdog's limit.
constexpr NcclOptions kPatient{.limit_s = 30};

using contract::integer_of;
using contract::integers;

class Nccl : public ::testing::Test {
 protected:
  int rank_ = mpi_session().rank();
  int size_ = mpi_session().size();
  std::unique_ptr<Device> device_ = make_cuda_device(0);
  std::unique_ptr<Stream> stream_ = device_->make_stream();

  Collectives connect(const NcclOptions& options = kPatient) {
    std::vector<std::byte> id = nccl_unique_id();  // rank 0's is used
    mpi_session().make_world()->run([&](Endpoint& endpoint) {
      broadcast(endpoint, endpoint.world_group(), contract::span_of(id), 0,
                tags::kCollective, Traffic::kControl);
    });
    return make_nccl(*device_, rank_, size_, id, options);
  }

  // Values on the device, followed by a few that must not change.
  template <typename T>
  Buffer upload(const std::vector<T>& values) {
    std::vector<T> all = values;
    all.resize(values.size() + kGuards, static_cast<T>(77));
    Buffer buffer(*device_, static_cast<int64_t>(all.size() * sizeof(T)));
    device_->copy(buffer.data(), all.data(), buffer.bytes(), *stream_);
    stream_->synchronize();
    return buffer;
  }
  template <typename T>
  std::vector<T> download(const Buffer& buffer) {
    std::vector<T> all(static_cast<size_t>(buffer.bytes()) / sizeof(T));
    device_->copy(all.data(), buffer.data(), buffer.bytes(), *stream_);
    stream_->synchronize();
    for (int i = 0; i < kGuards; ++i) {
      EXPECT_EQ(all[all.size() - 1 - i], static_cast<T>(77)) << "guard " << i;
    }
    all.resize(all.size() - kGuards);
    return all;
  }
  void finish(DeviceCollectives& collectives) {
    const auto done = device_->make_event();
    done->record(collectives.stream());
    collectives.wait(*done);
  }

  std::vector<float> sums(int64_t count,
                          std::span<const int> ranks,
                          int offset = 0) {
    std::vector<float> values(count);
    for (int64_t i = 0; i < count; ++i) {
      for (const int r : ranks) values[i] += integer_of(r, i + offset);
    }
    return values;
  }
  std::vector<int> everyone() {
    std::vector<int> ranks(size_);
    std::iota(ranks.begin(), ranks.end(), 0);
    return ranks;
  }

  // The exit code of the error that `call` throws.
  template <typename Call>
  static ExitCode code_of(const Call& call) {
    try {
      call();
    } catch (const Error& error) {
      last_line_ = error.what();
      return error.code();
    }
    return ExitCode::kDone;
  }

  static constexpr int kGuards = 3;
  static inline std::string last_line_;
};

TEST_F(Nccl, SaysWhatItIs) {
  EXPECT_EQ(nccl_missing(), "");
  const Collectives nccl = connect();
  int major = 0, minor = 0, patch = -1;
  EXPECT_EQ(std::sscanf(nccl->library().c_str(), "NCCL %d.%d.%d", &major,
                        &minor, &patch),
            3);
  EXPECT_GE(100 * major + minor, 218);
  EXPECT_EQ(nccl->world().size, size_);
  EXPECT_EQ(nccl->world().position, rank_);
  nccl->check();
}

// Rows of tables, and whole ones, that a reducer sums.
TEST_F(Nccl, TablesAreThoseInHostMemory) {
  if (size_ == 1) GTEST_SKIP() << "one rank";
  const std::unique_ptr<Device> cpu = make_cpu_device();
  const Collectives nccl = connect();
  mpi_session().make_world()->run([&](Endpoint& endpoint) {
    for (const Wire wire : {Wire::kF32, Wire::kBf16})
      for (const auto which : {test::Marks::kMarked, test::Marks::kUnmarked}) {
        const auto sums = [&](Device& device, DeviceCollectives* collectives) {
          const int64_t before = endpoint.traffic().bytes_sent[0];
          auto outcome =
              test::RowSums(device, endpoint, test::Terms::kExact, collectives)
                  .run(wire, which);
          outcome.bytes -= before;
          return outcome;
        };
        const auto by_nccl = sums(*device_, nccl.get());
        const auto in_host_memory = sums(*cpu, nullptr);
        EXPECT_EQ(by_nccl.values, in_host_memory.values);
        EXPECT_EQ(by_nccl.bytes, in_host_memory.bytes);
      }
  });
}

TEST_F(Nccl, AllReduceIsExact) {
  const Collectives nccl = connect();
  for (const int64_t count : {0, 1, 7919, 1000000}) {
    const Buffer values = upload(integers(rank_, count));
    nccl->all_reduce_sum({values.as<float>(), static_cast<size_t>(count)},
                         nccl->world());
    finish(*nccl);
    EXPECT_TRUE(download<float>(values) == sums(count, everyone())) << count;
  }
}

TEST_F(Nccl, AllReduceOfBf16) {
  const Collectives nccl = connect();
  for (const int64_t count : {1, 7919, 300007}) {
    std::vector<uint16_t> own(count), expected(count);
    const std::vector<float> sum = sums(count, everyone());
    for (int64_t i = 0; i < count; ++i) {
      own[i] = bf16_of(integer_of(rank_, i));
      expected[i] = bf16_of(sum[i]);
    }
    const Buffer values = upload(own);
    nccl->all_reduce_sum(values.data(), count, Wire::kBf16, nccl->world());
    finish(*nccl);
    EXPECT_TRUE(download<uint16_t>(values) == expected) << count;
  }
}

TEST_F(Nccl, BroadcastFromEachRoot) {
  const Collectives nccl = connect();
  for (int root = 0; root < size_; ++root) {
    for (const int64_t bytes : {0, 1, 7919, 300007}) {
      std::vector<uint8_t> mine(bytes), expected(bytes);
      for (int64_t i = 0; i < bytes; ++i) {
        mine[i] = static_cast<uint8_t>(i * 7 + rank_);
        expected[i] = static_cast<uint8_t>(i * 7 + root);
      }
      const Buffer data = upload(mine);
      nccl->broadcast(data.data(), bytes, root, nccl->world());
      finish(*nccl);
      EXPECT_TRUE(download<uint8_t>(data) == expected) << bytes;
    }
  }
}

// Into a separate buffer, and in place into the rank's own part.
TEST_F(Nccl, ReduceScatter) {
  const Collectives nccl = connect();
  for (const int64_t count : {0, 1, 7919, 100003}) {
    const std::vector<float> all = sums(count * size_, everyone());
    const std::vector<float> expected(all.begin() + rank_ * count,
                                      all.begin() + (rank_ + 1) * count);
    const Buffer values = upload(integers(rank_, count * size_));
    const Buffer part = upload(std::vector<float>(count, -1));
    nccl->reduce_scatter_sum(part.data(), values.data(), count, Wire::kF32,
                             nccl->world());
    finish(*nccl);
    EXPECT_TRUE(download<float>(part) == expected) << count;

    float* own = values.as<float>() + rank_ * count;
    nccl->reduce_scatter_sum(own, values.data(), count, Wire::kF32,
                             nccl->world());
    finish(*nccl);
    const std::vector<float> after = download<float>(values);
    for (int64_t i = 0; i < count; ++i) {
      EXPECT_EQ(after[rank_ * count + i], expected[i]) << i;
    }
  }
}

TEST_F(Nccl, AllGather) {
  const Collectives nccl = connect();
  for (const int64_t count : {0, 1, 7919, 100003}) {
    std::vector<float> expected;
    for (int r = 0; r < size_; ++r) {
      const std::vector<float> part = integers(r, count);
      expected.insert(expected.end(), part.begin(), part.end());
    }
    const Buffer part = upload(integers(rank_, count));
    Buffer values = upload(std::vector<float>(count * size_, -1));
    nccl->all_gather(values.data(), part.data(), 4 * count, nccl->world());
    finish(*nccl);
    EXPECT_TRUE(download<float>(values) == expected) << count;

    std::vector<float> own_only(count * size_, -1);
    for (int64_t i = 0; i < count; ++i) {
      own_only[rank_ * count + i] = integer_of(rank_, i);
    }
    values = upload(own_only);
    nccl->all_gather(values.data(), values.as<float>() + rank_ * count,
                     4 * count, nccl->world());
    finish(*nccl);
    EXPECT_TRUE(download<float>(values) == expected) << count;
  }
}

// Each rank sends to the next and receives from the previous one; a single rank
// sends to itself.
TEST_F(Nccl, ExchangeOnARing) {
  const Collectives nccl = connect();
  constexpr int64_t kCount = 300007;  // more than one piece of the shim
  const int next = (rank_ + 1) % size_, previous = (rank_ + size_ - 1) % size_;
  const Buffer out = upload(integers(rank_, kCount));
  const Buffer in = upload(std::vector<float>(kCount, -1));
  const std::vector<Transfer> transfers = {
      {Way::kSend, next, out.data(), 4 * kCount},
      {Way::kReceive, previous, in.data(), 4 * kCount},
  };
  nccl->exchange(transfers, nccl->world());
  finish(*nccl);
  EXPECT_TRUE(download<float>(in) == integers(previous, kCount));
  EXPECT_TRUE(download<float>(out) == integers(rank_, kCount));
}

// Two messages between each pair, of sizes that depend on both ends, some of
// them empty.
TEST_F(Nccl, ExchangeOfUnequalSizes) {
  const Collectives nccl = connect();
  const auto bytes_of = [](int from, int to, int which) {
    return int64_t{(from + 2 * to + which) % 3} * 40009 * (1 + from + which);
  };
  const auto byte_of = [](int from, int to, int which, int64_t i) {
    return static_cast<uint8_t>(i + 31 * from + 7 * to + 3 * which);
  };
  std::vector<Buffer> out, in;
  std::vector<Transfer> transfers;
  for (int peer = 0; peer < size_; ++peer) {
    for (const int which : {0, 1}) {
      std::vector<uint8_t> values(bytes_of(rank_, peer, which));
      for (size_t i = 0; i < values.size(); ++i) {
        values[i] = byte_of(rank_, peer, which, i);
      }
      const int64_t incoming = bytes_of(peer, rank_, which);
      out.push_back(upload(values));
      in.push_back(upload(std::vector<uint8_t>(incoming, 1)));
      transfers.push_back({Way::kReceive, peer, in.back().data(), incoming});
      transfers.push_back({Way::kSend, peer, out.back().data(),
                           static_cast<int64_t>(values.size())});
    }
  }
  nccl->exchange(transfers, nccl->world());
  finish(*nccl);
  for (int peer = 0; peer < size_; ++peer) {
    for (const int which : {0, 1}) {
      const auto got = download<uint8_t>(in[2 * peer + which]);
      int64_t wrong = 0;
      for (size_t i = 0; i < got.size(); ++i) {
        wrong += got[i] != byte_of(peer, rank_, which, i);
      }
      EXPECT_EQ(wrong, 0) << "message " << which << " from " << peer;
    }
  }
}

// Only the two ends of a transfer call.
TEST_F(Nccl, ExchangeOfAPair) {
  const Collectives nccl = connect();
  const int last = size_ - 1;
  const Buffer data = upload(integers(rank_, 1009));
  const auto give = [&](Way way, int peer) {
    const Transfer transfer{way, peer, data.data(), 4 * 1009};
    nccl->exchange({&transfer, 1}, nccl->world());
  };
  if (rank_ == 0 && last > 0) give(Way::kSend, last);
  if (rank_ == last && last > 0) give(Way::kReceive, 0);
  nccl->exchange({}, nccl->world());
  finish(*nccl);
  EXPECT_TRUE(download<float>(data) ==
              integers(rank_ == last ? 0 : rank_, 1009));
}

// Odd and even ranks in opposite orders, and a group without rank 0.
TEST_F(Nccl, Groups) {
  const Collectives nccl = connect();
  std::vector<int> members;
  for (int r = size_ - 1; r >= 0; --r) {
    if (r % 2 == rank_ % 2) members.push_back(r);
  }
  const DeviceGroup half = nccl->split(rank_ % 2, -rank_);
  ASSERT_EQ(half.size, static_cast<int>(members.size()));
  EXPECT_EQ(members[half.position], rank_);
  const Buffer values = upload(integers(rank_, 7919));
  nccl->all_reduce_sum({values.as<float>(), 7919}, half);
  finish(*nccl);
  EXPECT_TRUE(download<float>(values) == sums(7919, members));
  for (int root = 0; root < half.size; ++root) {
    const Buffer data = upload(integers(rank_, 100));
    nccl->broadcast(data.data(), 400, root, half);
    finish(*nccl);
    EXPECT_TRUE(download<float>(data) == integers(members[root], 100));
  }

  const DeviceGroup others = nccl->split(rank_ == 0 ? -1 : 5, 0);
  if (rank_ == 0) {
    EXPECT_EQ(others.size, 0);
    EXPECT_EQ(others.position, -1);
    EXPECT_EQ(code_of([&] { nccl->broadcast(nullptr, 4, 0, others); }),
              ExitCode::kInternal);
  } else {
    EXPECT_EQ(others.size, size_ - 1);
    EXPECT_EQ(others.position, rank_ - 1);
    std::vector<int> all_but_0 = everyone();
    all_but_0.erase(all_but_0.begin());
    const Buffer data = upload(integers(rank_, 100));
    nccl->all_reduce_sum({data.as<float>(), 100}, others);
    finish(*nccl);
    EXPECT_TRUE(download<float>(data) == sums(100, all_but_0));
  }
  const Buffer again = upload(integers(rank_, 100));  // the world still works
  nccl->all_reduce_sum({again.as<float>(), 100}, nccl->world());
  finish(*nccl);
  EXPECT_TRUE(download<float>(again) == sums(100, everyone()));
}

// One wait for many operations of two groups that all ranks issue in the same
// order.
TEST_F(Nccl, ManyInFlight) {
  const Collectives nccl = connect();
  const DeviceGroup turned = nccl->split(0, -rank_);
  constexpr int kOperations = 60;
  std::vector<Buffer> buffers;
  for (int i = 0; i < kOperations; ++i) {
    buffers.push_back(upload(integers(rank_, 17 * i * i, i)));
  }
  for (int i = 0; i < kOperations; ++i) {
    nccl->all_reduce_sum(
        {buffers[i].as<float>(), static_cast<size_t>(17 * i * i)},
        i % 3 == 0 ? turned : nccl->world());
  }
  finish(*nccl);
  for (int i = 0; i < kOperations; ++i) {
    EXPECT_TRUE(download<float>(buffers[i]) == sums(17 * i * i, everyone(), i))
        << i;
  }
}

TEST_F(Nccl, OnlyOneAProcess) {
  const Collectives nccl = connect();
  EXPECT_EQ(code_of([&] { make_nccl(*device_, 0, 1, nccl_unique_id()); }),
            ExitCode::kInternal);
  nccl->check();
}

TEST_F(Nccl, WrongCallsAreOurOwnMistakes) {
  const Collectives nccl = connect();
  const Transfer to_nobody{Way::kSend, size_, nullptr, 4};
  EXPECT_EQ(code_of([&] {
              nccl->exchange({&to_nobody, 1}, nccl->world());
            }),
            ExitCode::kInternal);
  EXPECT_EQ(code_of([&] { nccl->broadcast(nullptr, 4, size_, nccl->world()); }),
            ExitCode::kInternal);
  EXPECT_EQ(code_of([&] {
              nccl->all_gather(nullptr, nullptr, 4, {9, 1, 0});
            }),
            ExitCode::kInternal);
  nccl->check();  // the others did not notice any of these
}

TEST_F(Nccl, WaitHasALimit) {
  const Collectives nccl = connect({.limit_s = 2});
  NeverDone event;
  const double start_s = monotonic_s();
  EXPECT_EQ(code_of([&] { nccl->wait(event); }), ExitCode::kPeerLost);
  EXPECT_GE(monotonic_s() - start_s, 2);
  EXPECT_LT(monotonic_s() - start_s, 10);
  EXPECT_NE(last_line_.find("no answer from a peer for 2 s"), std::string::npos)
      << last_line_;
  // From now on every call reports the same error.
  const std::string line = last_line_;
  EXPECT_EQ(code_of([&] { nccl->check(); }), ExitCode::kPeerLost);
  EXPECT_EQ(last_line_, line);
  EXPECT_EQ(code_of([&] { nccl->broadcast(nullptr, 4, 0, nccl->world()); }),
            ExitCode::kPeerLost);
  EXPECT_EQ(code_of([&] { nccl->split(0, 0); }), ExitCode::kPeerLost);
  EXPECT_EQ(last_line_, line);
}

TEST_F(Nccl, AbortTwice) {
  const Collectives nccl = connect();
  nccl->abort();
  nccl->abort();
  EXPECT_EQ(code_of([&] { nccl->check(); }), ExitCode::kPeerLost);
  EXPECT_NE(last_line_.find("aborted"), std::string::npos) << last_line_;
}

TEST_F(Nccl, AbortFromAnotherThreadEndsAWait) {
  const Collectives nccl = connect();
  NeverDone event;
  std::thread other([&] {
    usleep(100'000);
    nccl->abort();
  });
  const double start_s = monotonic_s();
  EXPECT_EQ(code_of([&] { nccl->wait(event); }), ExitCode::kPeerLost);
  EXPECT_LT(monotonic_s() - start_s, 5);
  other.join();
}

// Rank 0 issues the operations of two groups in the opposite order: no rank
// hangs and every rank gets an error. (A single rank agrees with itself.)
TEST_F(Nccl, UnlikeOrderIsReported) {
  const Collectives nccl = connect({.limit_s = 2});
  const DeviceGroup turned = nccl->split(0, -rank_);
  const Buffer values = upload(integers(rank_, 100));
  const auto reduce = [&](const DeviceGroup& group) {
    nccl->all_reduce_sum({values.as<float>(), 100}, group);
  };
  const ExitCode code = code_of([&] {
    reduce(rank_ == 0 ? nccl->world() : turned);
    reduce(rank_ == 0 ? turned : nccl->world());
    finish(*nccl);
  });
  EXPECT_EQ(code, size_ > 1 ? ExitCode::kPeerLost : ExitCode::kDone);
}

// Only the shim can detect this; the library cannot.
TEST_F(Nccl, UnlikeSizesAreReported) {
  const Collectives nccl = connect();
  const Buffer values = upload(integers(rank_, 100));
  const size_t count = rank_ == 0 ? 99 : 100;
  const ExitCode code = code_of([&] {
    nccl->all_reduce_sum({values.as<float>(), count}, nccl->world());
  });
  EXPECT_EQ(code, size_ > 1 ? ExitCode::kInternal : ExitCode::kDone)
      << last_line_;
}

}  // namespace
}  // namespace syncopate
