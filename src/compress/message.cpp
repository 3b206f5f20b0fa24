// SPDX-License-Identifier: Apache-2.0
#include "compress/message.h"

#include <map>
#include <utility>
#include <vector>

#include "ops/context.h"

namespace syncopate {
namespace {

// Segments that tensors share, by where their values begin.
struct SharedSegments {
  std::map<std::vector<int64_t>, Segments> made;
};

}  // namespace

const Segments& segments_of(Context& context, const ParameterTable& table) {
  std::vector<int64_t> begins;
  for (const ParameterEntry& entry : table.entries())
    begins.push_back(entry.offset);
  begins.push_back(table.num_elems());
  auto& made = context.cache<SharedSegments>().made;
  auto found = made.find(begins);
  if (found == made.end())
    found = made.emplace(begins, Segments(context, begins)).first;
  return found->second;
}

}  // namespace syncopate
