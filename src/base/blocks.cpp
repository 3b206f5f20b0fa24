#include "base/blocks.h"

#include <sys/mman.h>

#include <algorithm>

namespace syncopate {

void* allocate_block(size_t bytes, size_t alignment) {
  constexpr size_t kHugePage = size_t{2} << 20;
  const bool is_large = bytes >= 4 * kHugePage;
  if (!is_large && alignment <= alignof(std::max_align_t))
    return std::malloc(std::max<size_t>(bytes, 1));
  alignment = std::max(is_large ? kHugePage : alignment, sizeof(void*));
  void* memory = nullptr;
  if (posix_memalign(&memory, alignment, std::max<size_t>(bytes, 1)) != 0)
    return nullptr;
  // Where the system grants no huge pages on request, this does no harm.
  if (is_large) ::madvise(memory, bytes, MADV_HUGEPAGE);
  return memory;
}

}  // namespace syncopate
