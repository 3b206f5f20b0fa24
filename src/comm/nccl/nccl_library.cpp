// libnccl, loaded on first use: runs without it neither pay for its start-up
// nor need it to be installed.
#include "base/error.h"
#include "comm/nccl/nccl_functions.h"
#include "device/cuda/shared_library.h"

namespace syncopate {
namespace {

NcclFunctions load_nccl() {
  NcclFunctions all;
  try {
    const cuda::SharedLibrary library("NCCL 2.18 or later", {"libnccl.so.2"});
    library.bind(all.get_version, "ncclGetVersion");
    library.bind(all.get_unique_id, "ncclGetUniqueId");
    library.bind(all.get_error_string, "ncclGetErrorString");
    library.bind(all.get_last_error, "ncclGetLastError");
    library.bind(all.comm_init_rank_config, "ncclCommInitRankConfig");
    library.bind(all.comm_split, "ncclCommSplit");
    library.bind(all.comm_count, "ncclCommCount");
    library.bind(all.comm_user_rank, "ncclCommUserRank");
    library.bind(all.comm_get_async_error, "ncclCommGetAsyncError");
    library.bind(all.comm_finalize, "ncclCommFinalize");
    library.bind(all.comm_destroy, "ncclCommDestroy");
    library.bind(all.comm_abort, "ncclCommAbort");
    library.bind(all.all_reduce, "ncclAllReduce");
    library.bind(all.reduce_scatter, "ncclReduceScatter");
    library.bind(all.all_gather, "ncclAllGather");
    library.bind(all.broadcast, "ncclBroadcast");
    library.bind(all.send, "ncclSend");
    library.bind(all.recv, "ncclRecv");
    library.bind(all.group_start, "ncclGroupStart");
    library.bind(all.group_end, "ncclGroupEnd");
    return all;
  } catch (const Error& error) {
    NcclFunctions none;
    none.missing = error.what();
    return none;
  }
}

}  // namespace

const NcclFunctions& nccl_functions() {
  static const NcclFunctions functions = load_nccl();
  return functions;
}

}  // namespace syncopate
