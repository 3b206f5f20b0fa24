// Linked with the real CUDA files it is GPU 0; with the emulator, that.
#include "support/test_device.h"

namespace syncopate::test {

// Never destroyed: at the program's end the driver may be gone before it.
Device& test_device() {
  static Device* device = make_cuda_device(0).release();
  return *device;
}

}  // namespace syncopate::test
