#include <gtest/gtest.h>

#include "comm/device_collectives.h"
#include "device/cuda/shared_library.h"
#include "device/device.h"
#include "library/cublaslt.h"
#include "library/cudnn.h"
#include "support/expect_error.h"

namespace syncopate::cuda {
namespace {

// Binding fails for the first function that a library does not have.
TEST(Libraries, HaveEveryFunctionInUse) {
  EXPECT_TRUE(cudnn_version().starts_with("cuDNN 9."));
  EXPECT_TRUE(cublaslt_version().starts_with("cuBLASLt 1"));
  EXPECT_EQ(nccl_missing(), "");
  EXPECT_TRUE(nccl_name().starts_with("NCCL 2."));
}

TEST(Libraries, AMissingOneIsNamedWithItsMend) {
  for (const char* part :
       {"Example 9", "libexample_none.so.9", "LD_LIBRARY_PATH"})
    expect_error_has(ExitCode::kInputMissing, part, [] {
      SharedLibrary("Example 9", {"libexample_none.so.9"});
    });
}

TEST(Libraries, AMissingFunctionIsNamed) {
  expect_error_has(ExitCode::kInputMissing, "cudnnHasNoSuchThing", [] {
    const SharedLibrary library("cuDNN 9", {"libcudnn.so.9"});
    void (*function)() = nullptr;
    library.bind(function, "cudnnHasNoSuchThing");
  });
}

TEST(CudaDevice, OneThatIsNotThereIsARefusal) {
  const Error error = error_of([] { make_cuda_device(cuda_device_count()); });
  EXPECT_EQ(error.code(), ExitCode::kBadInput);
  EXPECT_TRUE(std::string(error.what()).starts_with("run.device: cuda: "))
      << error.what();
}

}  // namespace
}  // namespace syncopate::cuda
