// Files of safetensors. An input that begins with { is a header without its
// length, up to a NUL byte, then values: changes of its size then do not all
// end at the length.
#include <algorithm>
#include <cstring>

#include "data/safetensors.h"
#include "fuzz.h"

namespace syncopate {
namespace {

std::string with_length(std::string_view input) {
  const std::string_view header = input.substr(0, input.find('\0'));
  const uint64_t length = header.size();
  std::string bytes(sizeof length, '\0');
  std::memcpy(bytes.data(), &length, sizeof length);
  bytes += header;
  if (header.size() < input.size()) bytes += input.substr(header.size() + 1);
  return bytes;
}

void use(const fs::path& path) {
  const SafeTensors file(path);
  int64_t end = 0;
  for (const SafeTensors::Tensor& tensor : file.tensors()) {
    if (end != 0 && tensor.first_byte != end) fuzz::found("a hole or overlap");
    end = tensor.end_byte;
    std::vector<float> out(static_cast<size_t>(tensor.elems));
    const std::string& type = tensor.dtype;
    if (type == "F32" || type == "F64" || type == "F16" || type == "BF16")
      file.read(tensor.name, out);
  }
  if (end != 0 && end != static_cast<int64_t>(fs::file_size(path)))
    fuzz::found("values do not end with the file");
}

}  // namespace
}  // namespace syncopate

void syncopate::fuzz::take(std::string_view input) {
  const fs::path path = scratch_file(
      "w", input.starts_with('{') ? with_length(input) : std::string(input));
  accept_or_refuse(path.string(), [&] { use(path); });
}
