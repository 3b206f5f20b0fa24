// A device without values, whose addresses must not be touched.
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "device/device_vector.h"

namespace syncopate {
namespace {

TEST(NoneDevice, GivesAddressesWithoutValues) {
  const auto device = make_none_device();
  const auto stream = device->make_stream();
  const int64_t terabyte = int64_t{1} << 40;
  const Buffer first(*device, terabyte), second(*device, terabyte);
  EXPECT_FALSE(has_values(first.data()));
  EXPECT_FALSE(has_values(first.as<char>() + terabyte - 1));
  EXPECT_GE(second.as<char>() - first.as<char>(), terabyte);
  const int of_host = 0;
  EXPECT_TRUE(has_values(&of_host));
  EXPECT_TRUE(has_values(nullptr));
  EXPECT_TRUE(has_values(HostBuffer(*device, 8).as<char>()));
  EXPECT_THROW(Buffer(*device, int64_t{1} << 50), OutOfMemory);
}

TEST(NoneDevice, StartsAgainWithItsFirstAddresses) {
  const auto device = make_none_device();
  const int64_t most = int64_t{1} << 44;
  for (int i = 0; i < 10; ++i) {
    const Buffer buffer(*device, most);
    EXPECT_FALSE(has_values(buffer.data()));
    EXPECT_FALSE(has_values(buffer.as<char>() + most - 1));
  }
}

TEST(NoneDevice, CopiesZerosToTheHostAndNothingToItself) {
  const auto device = make_none_device();
  const auto stream = device->make_stream();
  DeviceVector<float> values(*device, *stream, 3);
  values.assign(std::vector<float>{1, 2, 3});
  std::vector<float> host = {4, 5, 6};
  device->copy(host.data(), values.data(), 12, *stream);
  EXPECT_EQ(host, std::vector<float>(3, 0.0f));
  OnHost on_host(values);
  EXPECT_FALSE(has_values(on_host.values().data()));
  on_host.put_back();
}

TEST(NoneDeviceDeathTest, ItsMemoryMustNotBeTouched) {
  const auto device = make_none_device();
  const Buffer buffer(*device, 8);
  EXPECT_DEATH(*buffer.as<volatile char>() = 1, "");
}

}  // namespace
}  // namespace syncopate
