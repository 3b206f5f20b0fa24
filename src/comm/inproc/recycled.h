// Objects that are created and destroyed by the million, such as messages: the
// memory of the last ones is used for the next ones, while it is in the cache.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <new>
#include <vector>

namespace syncopate::inproc {

// An allocator for allocate_shared. A thread keeps the memory that it frees.
template <typename T>
class Recycling {
 public:
  using value_type = T;
  Recycling() = default;
  template <typename Other>
  Recycling(const Recycling<Other>& /*other*/) {}

  T* allocate(size_t count) {
    std::vector<void*>& free = pool().free;
    if (count != 1 || free.empty())
      return static_cast<T*>(::operator new(count * sizeof(T)));
    void* const memory = free.back();
    free.pop_back();
    return static_cast<T*>(memory);
  }
  void deallocate(T* memory, size_t count) {
    if (count == 1)
      pool().free.push_back(memory);
    else
      ::operator delete(memory);
  }
  bool operator==(const Recycling&) const { return true; }

 private:
  struct Pool {
    std::vector<void*> free;
    ~Pool() {
      for (void* memory : free) ::operator delete(memory);
    }
  };
  static Pool& pool() {
    thread_local Pool pool;
    return pool;
  }
};

template <typename T>
std::shared_ptr<T> make_recycled() {
  return std::allocate_shared<T>(Recycling<T>());
}

}  // namespace syncopate::inproc
