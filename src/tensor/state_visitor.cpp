#include "tensor/state_visitor.h"

namespace syncopate {

void StateVisitor::visit_range(Owner owner,
                               std::string_view name,
                               const ParameterTable& table,
                               std::span<float> range) {
  CHECK(std::ssize(range) == table.num_elems());
  for (const ParameterEntry& entry : table.entries())
    visit(owner, std::string(name) + "/" + entry.name,
          range.subspan(entry.offset, entry.elems()));
}

}  // namespace syncopate
