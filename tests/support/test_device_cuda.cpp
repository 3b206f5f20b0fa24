// GPU 0 if linked with the real CUDA files, otherwise the emulator.
#include "support/test_device.h"

namespace syncopate::test {

// Never destroyed: at exit, the driver may be gone first.
Device& test_device() {
  static Device* device = make_cuda_device(0).release();
  return *device;
}

}  // namespace syncopate::test
