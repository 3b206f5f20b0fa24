// A GPU-aware MPI for the emulated GPU, by MPI's profiling interface: calls
// that get addresses of device memory are passed on with host memory of this
// file. SYNCOPATE_EMULATED_GPU_AWARE_MPI=1 is an MPICH that is GPU-aware, and 2
// an Open MPI, whose non-blocking reductions are not. Otherwise the library's
// own answer is no. An address of device memory in any other call ends the
// process as any other access by the host does.
// SPDX-License-Identifier: Apache-2.0
#include <mpi.h>

#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <vector>

#include "emulator/emulator.h"
#include "emulator/lanes.h"
#include "emulator/memory.h"

namespace syncopate::emulator {
namespace {

enum Library { kUnaware = 0, kMpich = 1, kOpenMpi = 2 };

Library library() {
  static const auto answer = static_cast<Library>(
      number_of_environment("SYNCOPATE_EMULATED_GPU_AWARE_MPI", kUnaware));
  return answer;
}

bool is_ours(const void* memory) {
  return library() != kUnaware && is_device_memory(memory);
}

// Host memory in the place of device memory.
class Stand {
 public:
  Stand(void* device, int count, MPI_Datatype type) : device_(device) {
    int bytes = 0;
    PMPI_Type_size(type, &bytes);
    host_.resize(static_cast<size_t>(bytes) * static_cast<size_t>(count));
    check_device_range(device, std::ssize(host_), "a call of MPI");
  }
  void* host() { return host_.data(); }
  void fetch() {
    const Access access;
    std::memcpy(host_.data(), device_, host_.size());
  }
  void put_back() {
    const Access access;
    std::memcpy(device_, host_.data(), host_.size());
  }

 private:
  void* device_;
  std::vector<char> host_;
};

struct Pending {
  Stand stand;
  bool receives;
};

std::mutex mutex;
std::map<MPI_Request, Pending> pending;
std::deque<Stand> given_up;  // their requests were freed while under way

int note(int code, MPI_Request request, Stand stand, bool receives) {
  const std::lock_guard lock(mutex);
  pending.insert_or_assign(request, Pending{std::move(stand), receives});
  return code;
}

void complete(MPI_Request request) {
  const std::lock_guard lock(mutex);
  const auto found = pending.find(request);
  if (found == pending.end()) return;
  if (found->second.receives) found->second.stand.put_back();
  pending.erase(found);
}

}  // namespace
}  // namespace syncopate::emulator

using namespace syncopate::emulator;  // NOLINT: what follows is MPI's

extern "C" {

int MPIX_GPU_query_support(int /*gpu_type*/, int* is_supported) {
  *is_supported = library() == kMpich ? 1 : 0;
  return library() == kOpenMpi ? MPI_ERR_OTHER : MPI_SUCCESS;
}

int MPIX_Query_cuda_support() {
  return library() == kUnaware ? 0 : 1;
}

int MPI_Isend(const void* data,
              int count,
              MPI_Datatype type,
              int to,
              int tag,
              MPI_Comm comm,
              MPI_Request* request) {
  if (!is_ours(data))
    return PMPI_Isend(data, count, type, to, tag, comm, request);
  Stand stand(const_cast<void*>(data), count, type);
  stand.fetch();
  const int code =
      PMPI_Isend(stand.host(), count, type, to, tag, comm, request);
  return note(code, *request, std::move(stand), false);
}

int MPI_Irecv(void* data,
              int count,
              MPI_Datatype type,
              int from,
              int tag,
              MPI_Comm comm,
              MPI_Request* request) {
  if (!is_ours(data))
    return PMPI_Irecv(data, count, type, from, tag, comm, request);
  Stand stand(data, count, type);
  const int code =
      PMPI_Irecv(stand.host(), count, type, from, tag, comm, request);
  return note(code, *request, std::move(stand), true);
}

int MPI_Iallreduce(const void* from,
                   void* data,
                   int count,
                   MPI_Datatype type,
                   MPI_Op op,
                   MPI_Comm comm,
                   MPI_Request* request) {
  if (!is_ours(data) || from != MPI_IN_PLACE || library() == kOpenMpi)
    return PMPI_Iallreduce(from, data, count, type, op, comm, request);
  Stand stand(data, count, type);
  stand.fetch();
  const int code =
      PMPI_Iallreduce(from, stand.host(), count, type, op, comm, request);
  return note(code, *request, std::move(stand), true);
}

int MPI_Sendrecv(const void* out,
                 int out_count,
                 MPI_Datatype out_type,
                 int to,
                 int out_tag,
                 void* in,
                 int in_count,
                 MPI_Datatype in_type,
                 int from,
                 int in_tag,
                 MPI_Comm comm,
                 MPI_Status* status) {
  if (!is_ours(in))
    return PMPI_Sendrecv(out, out_count, out_type, to, out_tag, in, in_count,
                         in_type, from, in_tag, comm, status);
  Stand stand(in, in_count, in_type);
  const int code =
      PMPI_Sendrecv(out, out_count, out_type, to, out_tag, stand.host(),
                    in_count, in_type, from, in_tag, comm, status);
  stand.put_back();
  return code;
}

int MPI_Testsome(int count,
                 MPI_Request requests[],
                 int* num_done,
                 int done[],
                 MPI_Status statuses[]) {
  const std::vector<MPI_Request> before(requests, requests + count);
  const int code = PMPI_Testsome(count, requests, num_done, done, statuses);
  if (*num_done != MPI_UNDEFINED)
    for (int i = 0; i < *num_done; ++i) complete(before[done[i]]);
  return code;
}

int MPI_Request_free(MPI_Request* request) {
  {
    const std::lock_guard lock(mutex);
    const auto found = pending.find(*request);
    if (found != pending.end()) {
      given_up.push_back(std::move(found->second.stand));
      pending.erase(found);
    }
  }
  return PMPI_Request_free(request);
}

}  // extern "C"
