// Files of the format written here, whole and damaged in every way.
#include "data/safetensors.h"

#include <bit>
#include <cmath>
#include <cstring>

#include "data_files.h"

namespace syncopate {
namespace {

std::string le64(uint64_t value) {
  std::string bytes;
  for (int shift = 0; shift < 64; shift += 8)
    bytes += static_cast<char>(value >> shift & 0xff);
  return bytes;
}

std::string file_of(const std::string& header, const std::string& values) {
  return le64(header.size()) + header + values;
}

template <typename T>
std::string bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()),
          values.size() * sizeof(T)};
}

std::string entry(const std::string& name,
                  const std::string& dtype,
                  const std::string& shape,
                  int64_t begin,
                  int64_t end) {
  return fmt::format(
      "\"{}\":{{\"dtype\":\"{}\",\"shape\":[{}],\"data_offsets\":[{},{}]}}",
      name, dtype, shape, begin, end);
}

std::string object(const std::string& entries) {
  return fmt::format("{{{}}}", entries);
}

// b: 2 x 3 F32, a: one I64, c: nothing, d: 3 BF16. Not in the order of bytes.
const std::vector<float> kB = {1, -2, 0.5f, 1e30f, -0.0f, 7};
std::string small_file() {
  return file_of(
      "{\"__metadata__\":{\"format\":\"pt\"}," +
          entry("d", "BF16", "3", 32, 38) + "," +
          entry("b", "F32", "2,3", 0, 24) + "," +
          entry("c", "F16", "0,5", 32, 32) + "," +
          entry("a", "I64", "", 24, 32) + "}  ",
      bytes_of(kB) + le64(5) + bytes_of<uint16_t>({0x3f80, 0xc000, 0x7f80}));
}

TEST(SafeTensors, ValuesAreThoseOfTheFile) {
  const ScratchFolder folder;
  write_bytes(folder / "w.safetensors", small_file());
  const SafeTensors file(folder / "w.safetensors");
  EXPECT_EQ(file.names(), (std::vector<std::string>{"b", "a", "c", "d"}));
  EXPECT_EQ(file.shape("b"), (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(file.shape("a"), std::vector<int64_t>{});
  EXPECT_EQ(file.tensor("a").elems, 1);
  EXPECT_EQ(file.tensor("c").elems, 0);
  EXPECT_EQ(file.tensor("d").dtype, "BF16");
  EXPECT_TRUE(file.has("d"));
  EXPECT_FALSE(file.has("__metadata__"));
  EXPECT_EQ(file.metadata().at("format"), "pt");
  std::vector<float> b(6), d(3);
  file.read("b", b);
  EXPECT_EQ(bytes_of(b), bytes_of(kB));
  file.read("c", {});
  file.read("d", d);
  EXPECT_EQ(d[0], 1);
  EXPECT_EQ(d[1], -2);
  EXPECT_TRUE(std::isinf(d[2]));
  EXPECT_THROW(file.read("b", d), Error);
}

TEST(SafeTensors, WithoutTensorsAndAtOddAddresses) {
  const ScratchFolder folder;
  write_bytes(folder / "none", file_of("{}", ""));
  EXPECT_TRUE(SafeTensors(folder / "none").names().empty());
  // The header's length moves the values to any address.
  for (int pad = 0; pad < 8; ++pad) {
    const std::string header = object(entry("x", "F64", "2", 0, 16));
    write_bytes(folder / "x",
                file_of(header + std::string(static_cast<size_t>(pad), ' '),
                        bytes_of<double>({0.1, -3})));
    std::vector<float> x(2);
    SafeTensors(folder / "x").read("x", x);
    EXPECT_EQ(x[0], 0.1f);
    EXPECT_EQ(x[1], -3);
  }
}

// The value of 16 bits by the definition of IEEE 754.
double half_by_definition(unsigned bits) {
  const int exponent = static_cast<int>(bits >> 10 & 31);
  const double fraction = static_cast<double>(bits & 1023) / 1024;
  const double size = exponent == 0 ? std::ldexp(fraction, -14)
                                    : std::ldexp(1 + fraction, exponent - 15);
  return bits >> 15 != 0 ? -size : size;
}

TEST(SafeTensors, EveryHalfPrecisionValue) {
  const ScratchFolder folder;
  std::vector<uint16_t> all(1 << 16);
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<uint16_t>(i);
  write_bytes(
      folder / "h",
      file_of(object(entry("h", "F16", "65536", 0, 1 << 17)), bytes_of(all)));
  std::vector<float> out(all.size());
  SafeTensors(folder / "h").read("h", out);
  for (unsigned i = 0; i < out.size(); ++i) {
    const float value = out[i];
    ASSERT_EQ(std::signbit(value), i >> 15 != 0) << i;
    if ((i >> 10 & 31) != 31) {
      ASSERT_EQ(value, half_by_definition(i)) << i;
    } else if ((i & 1023) == 0) {
      ASSERT_TRUE(std::isinf(value)) << i;
    } else {
      ASSERT_TRUE(std::isnan(value)) << i;
    }
  }
}

// The line of the error that reading ends in, without the path.
std::string refusal(const std::string& bytes) {
  const ScratchFolder folder;
  const fs::path path = folder / "w.safetensors";
  write_bytes(path, bytes);
  try {
    const SafeTensors file(path);
    return "";
  } catch (const Error& error) {
    const std::string line = error.what();
    EXPECT_EQ(error.code(), ExitCode::kBadInput) << line;
    EXPECT_EQ(line.find('\n'), std::string::npos) << line;
    EXPECT_TRUE(line.starts_with(path.string() + ": ")) << line;
    return line.substr(path.string().size() + 2);
  }
}

void expect_refused(const std::string& bytes, const std::string& part) {
  const std::string line = refusal(bytes);
  EXPECT_NE(line.find(part), std::string::npos)
      << (line.empty() ? "read without an error" : line) << "\nlacks " << part;
}

std::string with_header(const std::string& header) {
  return file_of(header, std::string(24, '\0'));
}

TEST(SafeTensors, BrokenLengthsAreRefused) {
  expect_refused("", "0 bytes, expected a safetensors file");
  expect_refused("1234567", "7 bytes, expected a safetensors file");
  expect_refused(le64(1), "header length 1, expected");
  expect_refused(le64(~uint64_t{0}) + "{}",
                 "header length 18446744073709551615");
  expect_refused(le64(uint64_t{1} << 63) + "{}", "at most 2 here");
  expect_refused(le64(0), "not JSON at byte 1");
  expect_refused(file_of("{}", "x"), "1 bytes of values, expected 0");
  const std::string whole = small_file();
  for (size_t bytes = 0; bytes < whole.size(); ++bytes)
    EXPECT_NE(refusal(whole.substr(0, bytes)), "") << bytes;
  EXPECT_NE(refusal(whole + "x"), "");
  EXPECT_EQ(refusal(whole), "");
}

TEST(SafeTensors, OtherHeadersAreRefused) {
  const std::pair<const char*, const char*> kRefused[] = {
      {"[]", "found ["},
      {"7", "found the number 7"},
      {R"({"a":7})", R"("a": found the number 7)"},
      {R"({"a":[]})", R"("a": found [)"},
      {R"({"a":null})", R"("a": found null)"},
      {R"({"a":{}})", R"("a": found fewer than three)"},
      {R"({"a":{"b":1}})", R"(the field "b")"},
      {R"({"a":{"dtype":"F31"}})", R"(unknown dtype "F31")"},
      {R"({"a":{"dtype":32}})", "the number 32"},
      {R"({"a":{"dtype":[]}})", "found ["},
      {R"({"a":{"dtype":"F32","dtype":"F32"}})",
       R"("dtype" for the second time)"},
      {R"({"a":{"shape":{}}})", "found {"},
      {R"({"a":{"shape":[-1]}})", "found a number"},
      {R"({"a":{"shape":[1.0]}})", "found a number"},
      {R"({"a":{"shape":[9223372036854775808]}})",
       "the number 9223372036854775808"},
      {R"({"a":{"shape":[99999999999999999999]}})", "found a number"},
      {R"({"a":{"shape":[[1]]}})", "found ["},
      {R"({"a":{"shape":["1"]}})", R"(the text "1")"},
      {R"({"a":{"shape":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]}})",
       "more than 16 numbers"},
      {R"({"a":{"data_offsets":[0]}})", "not two"},
      {R"({"a":{"data_offsets":[0,1,2]}})", "not two"},
      {R"({"a":{"data_offsets":"x"}})", R"(text "x")"},
      {R"({"__metadata__":{"a":1}})", "the number 1"},
      {R"({"__metadata__":{"a":{}}})", "found {"},
      {R"({"__metadata__":{"a":"","a":""}})", R"("a" for the second time)"},
      {R"({"__metadata__":{},"__metadata__":{}})",
       "this name for the second time"},
      {"{\"a\\n\xff\":{}}", "not JSON at byte"},
      {"{\"a\\n\":[]}", "\"a\\n\": found ["},
  };
  for (const auto& [header, said] : kRefused)
    expect_refused(with_header(header), said);
  expect_refused(with_header(std::string(1 << 20, '[')), "found [");
  std::string deep;
  for (int i = 0; i < 1 << 16; ++i) deep += "{\"a\":";
  expect_refused(with_header(deep), "found the field \"a\"");
  const std::string x = entry("x", "F32", "6", 0, 24);
  expect_refused(with_header(object(x + "," + x)),
                 "\"x\": found this name for the second time");
  expect_refused(with_header(object(x) + " x"), "not JSON at byte");
}

TEST(SafeTensors, OffsetsThatDoNotFitAreRefused) {
  const auto file = [](const std::string& entries) {
    return with_header(object(entries));  // 24 bytes of values
  };
  EXPECT_EQ(refusal(file(entry("x", "F32", "6", 0, 24))), "");
  expect_refused(file(entry("x", "F32", "5", 0, 24)), "expected 20 bytes");
  expect_refused(file(entry("x", "F32", "6", 0, 23)), "expected 24 bytes");
  expect_refused(file(entry("x", "F32", "6", 24, 0)), "expected 0 as first");
  expect_refused(file(entry("x", "F32", "0", 0, 0)), "24 bytes of values");
  expect_refused(file(entry("x", "F32", "7", 0, 28)), "at most 24");
  expect_refused(file(entry("x", "F32", "5", 4, 24)), "expected 0 as first");
  expect_refused(file(entry("x", "F32", "5", 0, 20)),
                 "24 bytes of values, expected 20");
  expect_refused(
      file(entry("x", "F32", "3", 0, 12) + "," + entry("y", "F32", "4", 8, 24)),
      "\"y\": data_offsets [8, 24], expected 12 as first");
  expect_refused(
      file(entry("x", "F32", "2", 0, 8) + "," + entry("y", "F32", "3", 12, 24)),
      "\"y\": data_offsets [12, 24], expected 8 as first");
  expect_refused(
      file(entry("x", "F32", "6", 0, 24) + "," + entry("y", "F32", "6", 0, 24)),
      "expected 24 as first");
}

TEST(SafeTensors, ShapesBeyondAnyFileAreRefused) {
  const std::string huge = "9223372036854775807";
  const std::vector<std::string> shapes = {huge,
                                           huge + ",2",
                                           "4294967296,4294967296",
                                           "2147483648,2147483648,4",
                                           "3037000500,3037000500",
                                           huge + "," + huge + "," + huge};
  for (const std::string& shape : shapes)
    expect_refused(with_header(object(entry("x", "F32", shape, 0, 24))),
                   "is beyond any file");
  // 2^62 bytes fit in a number and not in the file.
  expect_refused(with_header(object(entry("x", "F32", "1152921504606846976", 0,
                                          int64_t{1} << 62))),
                 "at most 24");
}

TEST(SafeTensors, WhatIsNotThereOrNoFloatIsOneLine) {
  const ScratchFolder folder;
  write_bytes(folder / "w", small_file());
  const SafeTensors file(folder / "w");
  std::vector<float> out(1);
  const std::string path = (folder / "w").string();
  expect_error(ExitCode::kBadInput,
               path + ": no tensor \"e\", of 4 that it has",
               [&] { file.read("e", out); });
  expect_error(ExitCode::kBadInput,
               path + ": \"a\": I64, expected F32, F64, F16 or BF16",
               [&] { file.read("a", out); });
  EXPECT_EQ(error_of([] { SafeTensors("/nowhere/w"); }).code(),
            ExitCode::kInputMissing);
}

TEST(SafeTensors, WrittenFileIsReadBackAndAligned) {
  const ScratchFolder folder;
  const fs::path path = folder / "w.safetensors";
  const std::vector<float> values = {1.5f, -0.f, 1e-40f};
  const int64_t count = 9;
  const std::vector<SafeTensorValues> tensors = {
      {"b\"", {3, 1}, values, {}},
      {"a", {}, {}, std::span(&count, 1)},
      {"c", {1}, std::span(values).first(1), {}}};
  write_safetensors(path, tensors, {{"format", "pt"}, {"run", "x \"y\""}});
  const SafeTensors file(path);
  EXPECT_EQ(file.metadata().at("run"), "x \"y\"");
  ASSERT_EQ(file.names(), (std::vector<std::string>{"a", "b\"", "c"}));
  EXPECT_EQ(file.tensors()[0].first_byte % 8, 0);
  EXPECT_EQ(file.tensor("a").dtype, "I64");
  EXPECT_EQ(file.shape("b\""), (std::vector<int64_t>{3, 1}));
  std::vector<float> read(3);
  file.read("b\"", read);
  EXPECT_EQ(std::memcmp(read.data(), values.data(), 12), 0);
  const std::string once = read_file(path);
  write_safetensors(path, tensors, {{"format", "pt"}, {"run", "x \"y\""}});
  EXPECT_EQ(read_file(path), once);
  EXPECT_FALSE(fs::exists(folder / "w.safetensors.tmp"));
}

TEST(SafeTensors, WriterNeedsItsFolder) {
  EXPECT_EQ(error_of([] {
              write_safetensors("/nowhere/w.safetensors", {}, {});
            }).code(),
            ExitCode::kCannotCreate);
}

}  // namespace
}  // namespace syncopate
