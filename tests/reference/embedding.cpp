#include "reference/embedding.h"

#include <cstddef>

namespace syncopate::reference {

void add_embedding(Values& y,
                   int64_t D,
                   const Values& table,
                   const Values& ids) {
  const auto columns = static_cast<size_t>(D);
  for (size_t t = 0; t < ids.size(); ++t)
    for (size_t d = 0; d < columns; ++d)
      y[t * columns + d] += table[static_cast<size_t>(ids[t]) * columns + d];
}

void add_embedding_gradient(Values& dtable,
                            int64_t D,
                            const Values& dy,
                            const Values& ids) {
  const auto columns = static_cast<size_t>(D);
  for (size_t t = 0; t < ids.size(); ++t)
    for (size_t d = 0; d < columns; ++d)
      dtable[static_cast<size_t>(ids[t]) * columns + d] += dy[t * columns + d];
}

}  // namespace syncopate::reference
