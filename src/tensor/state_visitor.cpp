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

void StateVisitor::visit_device(Owner owner,
                                std::string_view name,
                                const DeviceVector<float>& values) {
  OnHost host(values);
  visit(owner, name, host.values());
  host.put_back();
}

void StateVisitor::visit_device_range(Owner owner,
                                      std::string_view name,
                                      const ParameterTable& table,
                                      const DeviceVector<float>& range) {
  OnHost host(range);
  visit_range(owner, name, table, host.values());
  host.put_back();
}

}  // namespace syncopate
