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
       .doc = "Who exchanges with whom.",
       .choices = keywords(topology_table())},
      {.name = "topology.group",
       .place = &TopologyOptions::group,
       .doc = "Workers of a group, which average exactly.",
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
