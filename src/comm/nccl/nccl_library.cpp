// libnccl, loaded when it is first asked for: a run without it does not pay
// for its start-up, and starts where there is none.
// SPDX-License-Identifier: Apache-2.0
#include <dlfcn.h>

#include <fmt/core.h>

#include "comm/nccl/nccl_functions.h"

namespace syncopate {
namespace {

constexpr const char* kLibrary = "libnccl.so.2";

class Loader {
 public:
  NcclFunctions load() {
    NcclFunctions all;
    // Never closed: its threads may outlive whoever used it last.
    library_ = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
    if (library_ == nullptr) {
      all.missing = fmt::format(
          "{} cannot be loaded ({}): install NCCL 2.18 or later, or name its "
          "folder in LD_LIBRARY_PATH",
          kLibrary, dlerror());
      return all;
    }
    take(all.get_version, "ncclGetVersion");
    take(all.get_unique_id, "ncclGetUniqueId");
    take(all.get_error_string, "ncclGetErrorString");
    take(all.get_last_error, "ncclGetLastError");
    take(all.comm_init_rank_config, "ncclCommInitRankConfig");
    take(all.comm_split, "ncclCommSplit");
    take(all.comm_count, "ncclCommCount");
    take(all.comm_user_rank, "ncclCommUserRank");
    take(all.comm_get_async_error, "ncclCommGetAsyncError");
    take(all.comm_finalize, "ncclCommFinalize");
    take(all.comm_destroy, "ncclCommDestroy");
    take(all.comm_abort, "ncclCommAbort");
    take(all.all_reduce, "ncclAllReduce");
    take(all.reduce_scatter, "ncclReduceScatter");
    take(all.all_gather, "ncclAllGather");
    take(all.broadcast, "ncclBroadcast");
    take(all.send, "ncclSend");
    take(all.recv, "ncclRecv");
    take(all.group_start, "ncclGroupStart");
    take(all.group_end, "ncclGroupEnd");
    if (absent_.empty()) return all;
    NcclFunctions none;
    none.missing =
        fmt::format("{} has no {}: NCCL 2.18 or later is needed{}", kLibrary,
                    absent_, version_text(all.get_version));
    return none;
  }

 private:
  template <typename Function>
  void take(Function& function, const char* name) {
    function = reinterpret_cast<Function>(dlsym(library_, name));
    if (function == nullptr && absent_.empty()) absent_ = name;
  }

  static std::string version_text(decltype(&ncclGetVersion) get_version) {
    int code = 0;
    if (get_version == nullptr || get_version(&code) != ncclSuccess) return "";
    return fmt::format(" (this one has the version code {})", code);
  }

  void* library_ = nullptr;
  std::string absent_;
};

}  // namespace

const NcclFunctions& nccl_functions() {
  static const NcclFunctions functions = Loader().load();
  return functions;
}

}  // namespace syncopate
