// Enumerates the state that a checkpoint holds: the same visit saves it,
// restores it or prints it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "device/device_vector.h"
#include "tensor/parameter_table.h"

namespace syncopate {

// kShared state is equal on all workers and stored once.
enum class Owner : uint8_t { kShared, kWorker };

// A saving visitor reads the values, a loading one overwrites them in place.
// Names are unique per owner; when loading, a name that is missing or has
// another size is Error(kBadInput).
class StateVisitor {
 public:
  virtual ~StateVisitor() = default;
  using Values =
      std::variant<std::span<float>, std::span<int64_t>, std::span<double>>;
  virtual void visit(Owner owner, std::string_view name, Values values) = 0;

  // A part of a tensor, usually all of it: `values` are its elements starting
  // at `piece.first`. The default implementation calls visit() without the
  // shape.
  struct Piece {
    const Shape& shape;  // of the whole tensor
    int64_t first = 0;
  };
  virtual void visit_piece(Owner owner,
                           std::string_view name,
                           const Piece& piece,
                           std::span<float> values);

  // Visits elements [begin, begin + slice.size()) of a flat range, stored
  // tensor by tensor under "NAME/TENSOR" so that single tensors can be
  // inspected.
  virtual void visit_slice(Owner owner,
                           std::string_view name,
                           const ParameterTable& table,
                           int64_t begin,
                           std::span<float> slice);
  // Visits the whole range.
  void visit_range(Owner owner,
                   std::string_view name,
                   const ParameterTable& table,
                   std::span<float> range);

  // Does the same for values in device memory; the host sees a copy.
  virtual void visit_device(Owner owner,
                            std::string_view name,
                            const DeviceVector<float>& values);
  virtual void visit_device_slice(Owner owner,
                                  std::string_view name,
                                  const ParameterTable& table,
                                  int64_t begin,
                                  const DeviceVector<float>& slice);
  void visit_device_range(Owner owner,
                          std::string_view name,
                          const ParameterTable& table,
                          const DeviceVector<float>& range);
};

}  // namespace syncopate
