#include "data/safetensors.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "base/check.h"
#include "data/strict_json.h"
#include "tensor/tensor.h"

namespace syncopate {
namespace {

static_assert(std::endian::native == std::endian::little,
              "values are read as they lie in the file");

constexpr int64_t kLengthBytes = 8;
// The limit of the format's own reader, far above the header of any network. It
// bounds how much a corrupt length can make us parse.
constexpr uint64_t kMaxHeaderBytes = 100'000'000;
constexpr size_t kMaxRank = 16;  // of a shape

using Listed = SafeTensors::Tensor;

// Bytes of a value; 0 for an unknown type.
int64_t value_bytes(std::string_view dtype) {
  constexpr std::pair<std::string_view, int64_t> kKnown[] = {
      {"F32", 4},     {"F16", 2}, {"BF16", 2},    {"F64", 8},     {"I64", 8},
      {"I32", 4},     {"I16", 2}, {"I8", 1},      {"U64", 8},     {"U32", 4},
      {"U16", 2},     {"U8", 1},  {"F8_E4M3", 1}, {"F8_E5M2", 1}, {"BOOL", 1},
      {"F8_E8M0", 1}, {"C64", 8}};
  for (const auto& [name, bytes] : kKnown)
    if (name == dtype) return bytes;
  return 0;
}

// Parses the header event by event; the JSON grammar guarantees that events are
// properly nested.
class HeaderReader : public StrictJson {
 public:
  explicit HeaderReader(const std::string& path)
      : StrictJson(path,
                   "the header {\"name\": {\"dtype\": \"F32\", \"shape\": [2, "
                   "3], \"data_offsets\": [0, 24]}, ...}") {}

  bool start_object(size_t) override {
    if (state_ == State::kFile) {
      state_ = State::kNames;
    } else if (state_ == State::kEntry) {
      state_ = is_metadata_ ? State::kTextNames : State::kFieldNames;
    } else {
      refuse("{");
    }
    return true;
  }
  bool key(string_t& name) override {
    if (state_ == State::kNames) return begin_entry(std::move(name));
    const char* const known[] = {"dtype", "shape", "data_offsets"};
    field_ = std::move(name);
    if (!fields_.insert(field_).second)
      refuse(as_json(field_) + " for the second time");
    if (state_ == State::kFieldNames &&
        std::ranges::find(known, field_) == std::end(known))
      refuse("the field " + as_json(field_));
    state_ = state_ == State::kTextNames ? State::kText
             : field_ == "dtype"         ? State::kDtype
                                         : State::kList;
    return true;
  }
  bool string(string_t& text) override {
    if (state_ == State::kText) {
      metadata[field_] = std::move(text);
      state_ = State::kTextNames;
    } else if (state_ == State::kDtype) {
      if (value_bytes(text) == 0) refuse("the unknown dtype " + as_json(text));
      tensor_.dtype = std::move(text);
      state_ = State::kFieldNames;
    } else {
      refuse("the text " + as_json(text));
    }
    return true;
  }
  bool start_array(size_t) override {
    if (state_ != State::kList) refuse("[");
    state_ = State::kNumbers;
    numbers_.clear();
    return true;
  }
  bool number_unsigned(number_unsigned_t value) override {
    if (state_ != State::kNumbers || value > uint64_t{INT64_MAX})
      refuse(fmt::format("the number {}", value));
    if (numbers_.size() == kMaxRank)
      refuse(fmt::format("more than {} numbers", kMaxRank));
    numbers_.push_back(static_cast<int64_t>(value));
    return true;
  }
  bool end_array() override {
    if (field_ == "shape") {
      tensor_.shape = numbers_;
    } else {
      if (numbers_.size() != 2) refuse("data_offsets that are not two numbers");
      tensor_.first_byte = numbers_[0];
      tensor_.end_byte = numbers_[1];
    }
    state_ = State::kFieldNames;
    return true;
  }
  bool end_object() override {
    if (state_ == State::kFieldNames) {
      if (fields_.size() != 3) refuse("fewer than three fields");
      tensors.push_back(std::move(tensor_));
    }
    // The last one ends the text; the parser refuses anything after it.
    state_ = State::kNames;
    place_.clear();
    return true;
  }

  std::vector<Listed> tensors;  // offsets count from the end of the header
  std::map<std::string, std::string> metadata;

 private:
  // The next expected token.
  enum class State {
    kFile,
    kNames,
    kEntry,
    kFieldNames,
    kDtype,
    kList,
    kNumbers,
    kTextNames,
    kText,
  };

  bool begin_entry(std::string name) {
    place_ = as_json(name) + ": ";
    if (!names_.insert(name).second) refuse("this name for the second time");
    is_metadata_ = name == "__metadata__";
    tensor_ = Listed();
    tensor_.name = std::move(name);
    fields_.clear();
    state_ = State::kEntry;
    return true;
  }

  State state_ = State::kFile;
  bool is_metadata_ = false;
  Listed tensor_;
  std::string field_;
  std::vector<int64_t> numbers_;
  std::set<std::string> names_, fields_;  // of the file, of the entry
};

// The offset at which the values begin.
int64_t header_end(std::span<const uint8_t> bytes, const std::string& path) {
  if (std::ssize(bytes) < kLengthBytes)
    fail(ExitCode::kBadInput,
         "{}: {} bytes, expected a safetensors file: 8 bytes of header length",
         path, bytes.size());
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), sizeof length);
  const uint64_t most =
      std::min(kMaxHeaderBytes, uint64_t{bytes.size()} - kLengthBytes);
  if (length > most)
    fail(ExitCode::kBadInput,
         "{}: header length {}, expected a safetensors file: at most {} here",
         path, length, most);
  return kLengthBytes + static_cast<int64_t>(length);
}

// The product of the shape; fails if that many values of `bytes` bytes exceed
// 63 bits.
int64_t count_elems(const Listed& tensor,
                    int64_t bytes,
                    const std::string& path) {
  int64_t elems = 1;
  for (const int64_t dim : tensor.shape)
    if (__builtin_mul_overflow(elems, dim, &elems)) elems = INT64_MAX;
  if (elems > INT64_MAX / bytes)
    fail(ExitCode::kBadInput, "{}: {}: shape [{}] is beyond any file", path,
         as_json(tensor.name), fmt::join(tensor.shape, ", "));
  return elems;
}

// Sorts by offset and checks that the tensors are contiguous up to the end of
// the file and have the sizes of their shapes.
void place_tensors(std::vector<Listed>& tensors,
                   int64_t values,
                   int64_t file_bytes,
                   const std::string& path) {
  std::ranges::stable_sort(tensors, {}, [](const Listed& tensor) {
    return std::pair(tensor.first_byte, tensor.end_byte);
  });
  int64_t end = 0;
  for (Listed& tensor : tensors) {
    const int64_t bytes = value_bytes(tensor.dtype);
    tensor.elems = count_elems(tensor, bytes, path);
    if (tensor.first_byte != end)
      fail(ExitCode::kBadInput,
           "{}: {}: data_offsets [{}, {}], expected {} as first since values "
           "lie end to end",
           path, as_json(tensor.name), tensor.first_byte, tensor.end_byte, end);
    if (tensor.end_byte < tensor.first_byte ||
        tensor.end_byte - tensor.first_byte != tensor.elems * bytes)
      fail(ExitCode::kBadInput,
           "{}: {}: data_offsets [{}, {}], expected {} bytes of {} [{}]", path,
           as_json(tensor.name), tensor.first_byte, tensor.end_byte,
           tensor.elems * bytes, tensor.dtype, fmt::join(tensor.shape, ", "));
    end = tensor.end_byte;
    if (end > file_bytes - values)
      fail(ExitCode::kBadInput,
           "{}: {}: data_offsets [{}, {}], expected at most {} from the size "
           "of the file",
           path, as_json(tensor.name), tensor.first_byte, tensor.end_byte,
           file_bytes - values);
    tensor.first_byte += values;
    tensor.end_byte += values;
  }
  if (end != file_bytes - values)
    fail(ExitCode::kBadInput,
         "{}: {} bytes of values, expected {} as the header has it", path,
         file_bytes - values, end);
}

// IEEE 754 binary16: 1 sign, 5 exponent, 10 fraction.
float from_f16(uint16_t bits) {
  const uint32_t sign = uint32_t{bits} >> 15 << 31;
  const uint32_t exponent = bits >> 10 & 31, fraction = bits & 1023;
  if (exponent == 0) {
    const float value = static_cast<float>(fraction) * 0x1p-24f;
    return sign != 0 ? -value : value;
  }
  const uint32_t wide = exponent == 31 ? 255 : exponent - 15 + 127;
  return std::bit_cast<float>(sign | wide << 23 | fraction << 13);
}

// Converts values of type Stored, which may be unaligned.
template <typename Stored, typename ToF32>
void convert(const uint8_t* from, std::span<float> out, const ToF32& to_f32) {
  for (float& value : out) {
    Stored stored;
    std::memcpy(&stored, from, sizeof stored);
    value = to_f32(stored);
    from += sizeof stored;
  }
}

}  // namespace

SafeTensors::SafeTensors(const fs::path& path) : file_(path) {
  const std::span<const uint8_t> bytes = file_.bytes();
  const int64_t values = header_end(bytes, file_.path());
  file_.will_need(0, values);
  HeaderReader header(file_.path());
  header.parse({reinterpret_cast<const char*>(bytes.data()) + kLengthBytes,
                static_cast<size_t>(values - kLengthBytes)});
  tensors_ = std::move(header.tensors);
  metadata_ = std::move(header.metadata);
  place_tensors(tensors_, values, std::ssize(bytes), file_.path());
  for (size_t i = 0; i < tensors_.size(); ++i) places_[tensors_[i].name] = i;
}

std::vector<std::string> SafeTensors::names() const {
  std::vector<std::string> names;
  for (const Listed& tensor : tensors_) names.push_back(tensor.name);
  return names;
}

const SafeTensors::Tensor& SafeTensors::tensor(const std::string& name) const {
  const auto found = places_.find(name);
  if (found == places_.end())
    fail(ExitCode::kBadInput, "{}: no tensor {}, of {} that it has", path(),
         as_json(name), tensors_.size());
  return tensors_[found->second];
}

bool SafeTensors::can_read(const std::string& name) const {
  const std::string& dtype = tensor(name).dtype;
  return dtype == "F32" || dtype == "F64" || dtype == "F16" || dtype == "BF16";
}

void SafeTensors::read(const std::string& name, std::span<float> out) const {
  const Listed& wanted = tensor(name);
  CHECK(std::ssize(out) == wanted.elems);
  file_.will_need(wanted.first_byte, wanted.end_byte - wanted.first_byte);
  const uint8_t* from = file_.bytes().data() + wanted.first_byte;
  if (wanted.dtype == "F32") {
    convert<float>(from, out, [](float value) { return value; });
  } else if (wanted.dtype == "F64") {
    convert<double>(from, out,
                    [](double value) { return static_cast<float>(value); });
  } else if (wanted.dtype == "F16") {
    convert<uint16_t>(from, out, from_f16);
  } else if (wanted.dtype == "BF16") {
    convert<Bf16>(from, out, [](Bf16 value) { return to_float(value); });
  } else {
    fail(ExitCode::kBadInput, "{}: {}: {}, expected F32, F64, F16 or BF16",
         path(), as_json(name), wanted.dtype);
  }
}

namespace {

std::span<const uint8_t> bytes_of(const SafeTensorValues& tensor) {
  const auto bytes = [](const auto& values) {
    return std::span(reinterpret_cast<const uint8_t*>(values.data()),
                     values.size_bytes());
  };
  return tensor.floats.empty() ? bytes(tensor.integers) : bytes(tensor.floats);
}

// The length and the header, padded with spaces so that the values begin at a
// multiple of 8.
std::string header_of(const std::vector<const SafeTensorValues*>& tensors,
                      const std::map<std::string, std::string>& metadata) {
  nlohmann::ordered_json header;
  if (!metadata.empty()) header["__metadata__"] = metadata;
  size_t end = 0;
  for (const SafeTensorValues* tensor : tensors) {
    const size_t begin = end;
    end += bytes_of(*tensor).size();
    CHECK_MSG(!header.contains(tensor->name), "two of {}", tensor->name);
    header[tensor->name] = {{"dtype", tensor->floats.empty() ? "I64" : "F32"},
                            {"shape", tensor->shape},
                            {"data_offsets", {begin, end}}};
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const uint64_t length = text.size();
  return std::string(reinterpret_cast<const char*>(&length), sizeof length) +
         text;
}

}  // namespace

void write_safetensors(const fs::path& path,
                       const std::vector<SafeTensorValues>& tensors,
                       const std::map<std::string, std::string>& metadata) {
  std::vector<const SafeTensorValues*> order;
  for (const SafeTensorValues& tensor : tensors) order.push_back(&tensor);
  // Integers first, so that all values are aligned.
  std::ranges::stable_partition(order, [](const SafeTensorValues* tensor) {
    return tensor->floats.empty();
  });
  const std::string header = header_of(order, metadata);
  replace_file(path, [&](const fs::path& temporary) {
    OutputFile file(temporary);
    file.write(header);
    for (const SafeTensorValues* tensor : order) {
      const std::span<const uint8_t> bytes = bytes_of(*tensor);
      file.write({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    }
    file.finish();
  });
}

}  // namespace syncopate
