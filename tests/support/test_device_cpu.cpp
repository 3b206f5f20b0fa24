#include "support/test_device.h"

namespace syncopate::test {

Device& test_device() {
  static const std::unique_ptr<Device> device = make_cpu_device();
  return *device;
}

}  // namespace syncopate::test
