// The keys of [sync], of each scheme, of [compress] and [topology].
#include "keys/key.h"

#include <algorithm>
#include <functional>

#include "comm/collectives.h"
#include "sync/scheme.h"

namespace syncopate {
namespace {

std::vector<std::string> schemes_that(
    const std::function<bool(const SchemeInfo&)>& has) {
  return names_of(scheme_table(), &SchemeInfo::keyword, has);
}

Keys general_keys() {
  return {
      {.name = "sync.scheme",
       .place = &SyncOptions::scheme,
       .doc = "The scheme that synchronizes workers.",
       .choices = schemes_that({}),
       .traits = {{"collectives", schemes_that(&SchemeInfo::uses_collectives)},
                  {"ranges", schemes_that(&SchemeInfo::reduces_ranges)},
                  {"wire", schemes_that(&SchemeInfo::uses_wire)},
                  {"rows", schemes_that(&SchemeInfo::sends_rows)},
                  {"topology", schemes_that(&SchemeInfo::uses_topology)},
                  {"compressor", schemes_that(&SchemeInfo::uses_compressor)},
                  // A composite scheme's phases decide.
                  {"equal replicas", schemes_that([](const SchemeInfo& info) {
                     return info.keeps_replicas_equal || info.is_composite;
                   })}}},
      {.name = "sync.transport",
       .place = &SyncOptions::transport,
       .doc = "Transport of sums and messages between GPUs of different "
              "ranks: NCCL, or MPI through host memory; auto: NCCL if "
              "every rank has its own GPU, the library is installed and "
              "the scheme can use it. In virtual time, nccl sends without "
              "the copies of network.device_mbit_s.",
       .used_when = {{"sync.scheme", {}, "collectives"}}},
      {.name = "sync.collective",
       .place = &SyncOptions::collective,
       .doc = "Algorithm of the all-reduce through host memory; "
              "hierarchical: inside each host first (in one process: inside "
              "each network.group); native: the MPI library's own.",
       .used_when = {{"sync.scheme", {}, "ranges"}}},
      {.name = "sync.wire",
       .place = &SyncOptions::wire,
       .doc = "Number format of uncompressed messages. Values are added in "
              "fp32; every message is rounded, also the partial sums that all "
              "collectives but parameter_server pass on.",
       .used_when = {{"sync.scheme", {}, "wire"}}},
      {.name = "sync.bucket_mb",
       .place = &SyncOptions::bucket_mb,
       .doc = "Megabytes of gradients or parameters per message; auto: "
              "an eighth of the total, within 0.064 to 4, or 32 with "
              "NCCL.",
       .low = 0.001,
       .high = 65536,
       .zero_word = "auto",
       .used_when = {{"sync.scheme", {}, "ranges"}}},
      {.name = "sync.tables",
       .place = &SyncOptions::tables,
       .doc = "How gradients of embedding tables are sent: only rows "
              "that some worker used, or whole tables.",
       .used_when = {{"sync.scheme", {}, "rows"},
                     {"model.family", {}, "tables"}}},
  };
}

// Sections in the order of scheme_table(), but those of schemes that compress
// come last, gossip first: next to [compress] and [topology].
int place_of(const SchemeInfo& info) {
  if (!info.uses_compressor) return 0;
  return info.uses_topology ? 1 : 2;
}

// A key is in use if one of the run's schemes lists it; under a composite
// scheme, the schemes of its phases count.
Keys scheme_keys() {
  std::map<std::string, std::vector<std::string>> users;
  for (const SchemeInfo& info : scheme_table())
    if (info.keys != nullptr)
      for (const Key& key : info.keys())
        users[key.name].push_back(info.keyword);
  Keys keys;
  for (const int place : {0, 1, 2})
    for (const SchemeInfo& info : scheme_table()) {
      if (info.keys == nullptr || place_of(info) != place) continue;
      for (Key& key : info.keys()) {
        const auto user = users.extract(key.name);
        if (user.empty()) continue;  // already added
        key.used_when.insert(key.used_when.begin(),
                             {"sync.scheme", user.mapped()});
        keys.push_back(std::move(key));
      }
    }
  return keys;
}

Keys used_by_schemes(const std::string& trait, Keys keys) {
  for (Key& key : keys)
    key.used_when.insert(key.used_when.begin(), {"sync.scheme", {}, trait});
  return keys;
}

}  // namespace

Keys sync_keys() {
  Keys keys = general_keys();
  append(keys, scheme_keys());
  append(keys, used_by_schemes("compressor", within(&SyncOptions::compress,
                                                    compressor_keys())));
  append(keys, used_by_schemes("topology", within(&SyncOptions::topology,
                                                  topology_keys())));
  return keys;
}

}  // namespace syncopate
