// The keys of [topology].
#include "keys/key.h"
#include "topology/topology.h"

namespace syncopate {

Keys topology_keys() {
  const std::vector<UsedWhen> hierarchical = {
      {"topology.kind", {"hierarchical"}}};
  return {
      {.name = "topology.kind",
       .place = &TopologyOptions::kind,
       .doc = "The graph that defines each worker's neighbours.",
       .choices = keywords(topology_table())},
      {.name = "topology.group",
       .place = &TopologyOptions::group,
       .doc = "Workers per group, in which averages are exact.",
       .low = 1,
       .used_when = hierarchical},
      {.name = "topology.between",
       .place = &TopologyOptions::between,
       .doc = "Topology of the groups.",
       .choices = keywords(topology_table()),
       .used_when = hierarchical},
  };
}

}  // namespace syncopate
