#include "comm/tags.h"

#include <array>
#include <string_view>

#include <fmt/core.h>

namespace syncopate::tags {

std::string name_of(Tag tag) {
  if (tag >= kBucket) return fmt::format("bucket {}", tag - kBucket);
  struct Range {
    Tag first;
    std::string_view name;
  };
  constexpr std::array<Range, 20> kRanges = {
      {{kControl, "control"},
       {kArrival, "arrival"},
       {kCollective, "collective"},
       {kCheckpoint, "checkpoint"},
       {kResults, "results"},
       {kEvaluation, "evaluation"},
       {kTicketRequest, "ticket request"},
       {kTicketAnswer, "ticket answer"},
       {kAverage, "average"},
       {kStateServer, "state server"},
       {kServer, "server"},
       {kServerPull, "server pull"},
       {kServerAnswer, "server answer"},
       {kProbe, "probe"},
       {kProbeAnswer, "probe answer"},
       {kProbeChunk, "probe chunk"},
       {kProbeEnd, "end of probes"},
       {kStepTime, "step time"},
       {kGossip, "gossip"},
       {kBatchNorm, "batchnorm"}}};
  std::string_view name = kRanges[0].name;
  for (const Range& range : kRanges)
    if (tag >= range.first) name = range.name;
  return std::string(name);
}

}  // namespace syncopate::tags
