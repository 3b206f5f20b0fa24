#include <functional>

#include <gtest/gtest.h>

#include "comm/device_collectives.h"
#include "device/cuda/shared_library.h"
#include "device/device.h"
#include "library/cublaslt.h"
#include "library/cudnn.h"

namespace syncopate::cuda {
namespace {

// Binding fails for the first function that a library does not have.
TEST(Libraries, HaveEveryFunctionInUse) {
  EXPECT_TRUE(cudnn_version().starts_with("cuDNN 9."));
  EXPECT_TRUE(cublaslt_version().starts_with("cuBLASLt 1"));
  EXPECT_EQ(nccl_missing(), "");
}

std::string line_of(const std::function<void()>& act, ExitCode code) {
  try {
    act();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code);
    return error.what();
  }
  return "no error";
}

TEST(Libraries, AMissingOneIsNamedWithItsMend) {
  const std::string line =
      line_of([] { SharedLibrary("Example 9", {"libexample_none.so.9"}); },
              ExitCode::kInputMissing);
  EXPECT_NE(line.find("Example 9"), std::string::npos) << line;
  EXPECT_NE(line.find("libexample_none.so.9"), std::string::npos) << line;
  EXPECT_NE(line.find("LD_LIBRARY_PATH"), std::string::npos) << line;
  EXPECT_EQ(line.find('\n'), std::string::npos) << line;
}

TEST(Libraries, AMissingFunctionIsNamed) {
  const std::string line = line_of(
      [] {
        const SharedLibrary library("cuDNN 9", {"libcudnn.so.9"});
        void (*function)() = nullptr;
        library.bind(function, "cudnnHasNoSuchThing");
      },
      ExitCode::kInputMissing);
  EXPECT_NE(line.find("cudnnHasNoSuchThing"), std::string::npos) << line;
}

TEST(CudaDevice, OneThatIsNotThereIsARefusal) {
  const std::string line = line_of(
      [] { make_cuda_device(cuda_device_count()); }, ExitCode::kBadInput);
  EXPECT_TRUE(line.starts_with("run.device: cuda: ")) << line;
}

}  // namespace
}  // namespace syncopate::cuda
