// Names every piece of state that a checkpoint holds, once: the same visit
// saves it, restores it or prints it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "device/device_vector.h"
#include "tensor/parameter_table.h"

namespace syncopate {

// Who has it: kShared is equal on all workers and stored once.
enum class Owner : uint8_t { kShared, kWorker };

// A saving visitor reads the values, a loading one overwrites them in place;
// names are unique within an owner, and a name that is missing or of another
// size at loading is Error(kBadInput).
class StateVisitor {
 public:
  virtual ~StateVisitor() = default;
  virtual void visit(Owner owner,
                     std::string_view name,
                     std::span<float> values) = 0;
  virtual void visit(Owner owner,
                     std::string_view name,
                     std::span<int64_t> values) = 0;
  virtual void visit(Owner owner,
                     std::string_view name,
                     std::span<double> values) = 0;

  // A part of a tensor, all of it as a rule: `values` are its elements from
  // `piece.first` on. By default as visit() without its shape.
  struct Piece {
    const Shape& shape;  // of the whole tensor
    int64_t first = 0;
  };
  virtual void visit_piece(Owner owner,
                           std::string_view name,
                           const Piece& piece,
                           std::span<float> values);

  // Elements [begin, begin + slice.size()) of a flat range, stored tensor by
  // tensor under "NAME/TENSOR" so that people can read single tensors.
  virtual void visit_slice(Owner owner,
                           std::string_view name,
                           const ParameterTable& table,
                           int64_t begin,
                           std::span<float> slice);
  // All of it.
  void visit_range(Owner owner,
                   std::string_view name,
                   const ParameterTable& table,
                   std::span<float> range);

  // The same for values in a device's memory, of which the host sees a copy.
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
