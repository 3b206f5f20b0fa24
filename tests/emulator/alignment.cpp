// What code compiled with -fsanitize=alignment calls before an access at an
// address that is no multiple of its type's alignment. On a GPU it ends the
// run, and so it does here, with one line.
#include <fmt/format.h>

#include <string>

#include "emulator/lanes.h"
#include "emulator/memory.h"
#include "emulator/region.h"

namespace syncopate::emulator {
namespace {

// What the compiler passes (compiler-rt, ubsan_handlers.h: TypeMismatchData;
// ubsan_value.h: SourceLocation, TypeDescriptor).
struct Place {
  const char* file;
  uint32_t line, column;
};
struct Type {
  uint16_t kind, info;
  char name[1];  // quoted, and longer
};
struct Mismatch {
  Place place;
  const Type* type;
  uint8_t log_alignment, access;
};

}  // namespace
}  // namespace syncopate::emulator

extern "C" [[noreturn]] void __ubsan_handle_type_mismatch_v1_abort(
    const syncopate::emulator::Mismatch* what,
    const std::byte* address) {
  using namespace syncopate::emulator;
  const std::string lane = running_lane(), path = what->place.file;
  report_and_exit(fmt::format(
      "{}: access to {} as {} ({}:{}), which must be at a multiple of {} "
      "bytes{}",
      lane.empty() ? current_work() : lane, fmt::ptr(address),
      static_cast<const char*>(what->type->name),
      path.substr(path.rfind('/') + 1), what->place.line,
      1 << what->log_alignment,
      is_device_memory(address) ? ", " + nearest_allocation(address) : ""));
}
