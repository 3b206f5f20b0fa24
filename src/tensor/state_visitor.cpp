#include "tensor/state_visitor.h"

#include <algorithm>

#include "base/check.h"

namespace syncopate {

void StateVisitor::visit_piece(Owner owner,
                               std::string_view name,
                               const Piece&,
                               std::span<float> values) {
  visit(owner, name, values);
}

void StateVisitor::visit_slice(Owner owner,
                               std::string_view name,
                               const ParameterTable& table,
                               int64_t begin,
                               std::span<float> slice) {
  const int64_t end = begin + std::ssize(slice);
  CHECK(begin >= 0 && end <= table.num_elems());
  for (const ParameterEntry& entry : table.entries()) {
    const int64_t from = std::max(begin, entry.offset);
    const int64_t to = std::min(end, entry.offset + entry.elems());
    if (from >= to) continue;
    visit_piece(owner, std::string(name) + "/" + entry.name,
                {entry.shape, from - entry.offset},
                slice.subspan(from - begin, to - from));
  }
}

void StateVisitor::visit_range(Owner owner,
                               std::string_view name,
                               const ParameterTable& table,
                               std::span<float> range) {
  CHECK(std::ssize(range) == table.num_elems());
  visit_slice(owner, name, table, 0, range);
}

void StateVisitor::visit_device(Owner owner,
                                std::string_view name,
                                const DeviceVector<float>& values) {
  OnHost host(values);
  visit(owner, name, host.values());
  host.put_back();
}

void StateVisitor::visit_device_slice(Owner owner,
                                      std::string_view name,
                                      const ParameterTable& table,
                                      int64_t begin,
                                      const DeviceVector<float>& slice) {
  OnHost host(slice);
  visit_slice(owner, name, table, begin, host.values());
  host.put_back();
}

void StateVisitor::visit_device_range(Owner owner,
                                      std::string_view name,
                                      const ParameterTable& table,
                                      const DeviceVector<float>& range) {
  CHECK(range.size() == table.num_elems());
  visit_device_slice(owner, name, table, 0, range);
}

}  // namespace syncopate
