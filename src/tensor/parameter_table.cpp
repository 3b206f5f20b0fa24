#include "tensor/parameter_table.h"

#include <algorithm>

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

}  // namespace syncopate
