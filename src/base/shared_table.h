// Immutable tables that the workers of a process share, because N copies of a
// table of N numbers do not fit into memory for large N.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <mutex>

namespace syncopate {

// Returns the table for `key` that somebody still holds, or else the one that
// `make` returns. Tables of the same type have different keys if and only if
// they differ. Thread-safe.
template <typename Table, typename Key, typename Make>
std::shared_ptr<const Table> shared_table(const Key& key, const Make& make) {
  static std::mutex mutex;
  static std::map<Key, std::weak_ptr<const Table>> tables;
  const std::lock_guard lock(mutex);
  std::weak_ptr<const Table>& known = tables[key];
  std::shared_ptr<const Table> table = known.lock();
  if (table == nullptr) known = table = std::make_shared<const Table>(make());
  return table;
}

}  // namespace syncopate
