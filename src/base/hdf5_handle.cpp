#include "base/hdf5_handle.h"

#include <cstdlib>
#include <cstring>

#include "base/check.h"

namespace syncopate {

static herr_t note_cause(unsigned n, const H5E_error2_t* entry, void* data) {
  Hdf5Cause& cause = *static_cast<Hdf5Cause*>(data);
  const char* text = entry->desc ? entry->desc : "";
  if (n == 0) cause.text = text;  // walking upward: the innermost error
  const char* mark = std::strstr(text, "errno = ");
  if (mark && cause.error_number == 0)
    cause.error_number = std::atoi(mark + std::strlen("errno = "));
  return 0;
}

Hdf5Cause last_hdf5_cause() {
  Hdf5Cause cause;
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, note_cause, &cause);
  if (cause.error_number != 0) cause.text = std::strerror(cause.error_number);
  for (char& c : cause.text)
    if (static_cast<unsigned char>(c) < ' ') c = ' ';
  if (cause.text.empty()) cause.text = "HDF5 gives no reason";
  return cause;
}

hid_t native_type(ElementType type) {
  CHECK(type != ElementType::kOther);
  const hid_t types[] = {H5T_NATIVE_FLOAT, H5T_NATIVE_DOUBLE,
                         H5T_NATIVE_INT32, H5T_NATIVE_INT64,
                         H5T_NATIVE_UINT8, H5T_NATIVE_UINT64};
  return types[static_cast<int>(type)];
}

}  // namespace syncopate
