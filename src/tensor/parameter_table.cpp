#include "tensor/parameter_table.h"

#include <algorithm>
#include <cmath>

namespace syncopate {

int ParameterTable::add(std::string name, Shape shape, Role role) {
  entries_.push_back({std::move(name), shape, num_elems_, role});
  num_elems_ += shape.elems();
  return static_cast<int>(entries_.size()) - 1;
}

int ParameterTable::find(int64_t offset) const {
  CHECK(offset >= 0 && offset < num_elems_);
  const auto after =
      std::upper_bound(entries_.begin(), entries_.end(), offset,
                       [](int64_t at, const ParameterEntry& entry) {
                         return at < entry.offset;
                       });
  return static_cast<int>(after - entries_.begin()) - 1;
}

ParameterTable thinned(const ParameterTable& table, double share) {
  ParameterTable thin;
  for (const ParameterEntry& entry : table.entries()) {
    std::vector<int64_t> dims;
    for (int axis = 0; axis < entry.shape.rank(); ++axis)
      dims.push_back(entry.shape[axis]);
    if (!dims.empty())
      dims[0] = std::max<int64_t>(
          1, std::llround(share * static_cast<double>(dims[0])));
    thin.add(entry.name, Shape(dims), entry.role);
  }
  return thin;
}

}  // namespace syncopate
