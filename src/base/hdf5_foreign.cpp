#include "base/hdf5_foreign.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/confined.h"
#include "base/text.h"

namespace syncopate {
namespace {

constexpr int64_t kBlockBytes = 64 << 20;     // the part that is held twice
constexpr int64_t kLibraryBytes = 256 << 20;  // more than HDF5 itself needs
constexpr int64_t kChunkBytes = int64_t{4} << 30;  // the largest HDF5 allows
constexpr int64_t kLeast_s = 2;
constexpr int64_t kBytesASecond = 20'000'000;  // a tenth of the decompression
                                               // rate

// Encodes an answer as text: type and extents separated by blanks; empty means
// nullopt.
std::string text_of(const Hdf5Dataset& dataset) {
  std::string text = fmt::format("{}", static_cast<int>(dataset.type));
  for (const int64_t dim : dataset.dims) text += fmt::format(" {}", dim);
  return text;
}

std::optional<Hdf5Dataset> dataset_of(const std::string& text,
                                      const std::string& name) {
  if (text.empty()) return std::nullopt;
  std::vector<int64_t> numbers;
  for (const std::string& word : split(text, ' '))
    numbers.push_back(parse_int(word).value_or(-1));
  return Hdf5Dataset{name,
                     static_cast<ElementType>(numbers[0]),
                     {numbers.begin() + 1, numbers.end()}};
}

}  // namespace

ForeignHdf5::ForeignHdf5(const fs::path& path) : path_(path) {
  initialise_hdf5();  // once, not in each child
}

std::string ForeignHdf5::ask(
    int64_t value_bytes,
    const std::function<std::string(const Hdf5Reader&)>& work) const {
  std::error_code error;
  const auto size = fs::file_size(path_, error);
  const int64_t file_bytes = error ? 0 : static_cast<int64_t>(size);
  // One block, plus a chunk both compressed and uncompressed.
  const int64_t memory_bytes =
      kLibraryBytes + 3 * std::min(value_bytes, kChunkBytes);
  const int64_t cpu_s = kLeast_s + (file_bytes + value_bytes) / kBytesASecond;
  return run_confined(path_.string(), "the HDF5 library",
                      {.memory_bytes = memory_bytes, .cpu_s = cpu_s},
                      [&] { return work(Hdf5Reader(path_)); });
}

std::optional<Hdf5Dataset> ForeignHdf5::find(const std::string& name) const {
  const std::string answer = ask(0, [&](const Hdf5Reader& file) {
    return file.has(name) ? text_of(file.dataset(name)) : "";
  });
  return dataset_of(answer, name);
}

std::optional<std::string> ForeignHdf5::text_attribute(
    const std::string& object,
    const std::string& name) const {
  const std::string answer = ask(0, [&](const Hdf5Reader& file) {
    const auto text = file.text_attribute(object, name);
    return text ? '=' + *text : "";
  });
  if (answer.empty()) return std::nullopt;
  return answer.substr(1);
}

std::optional<std::vector<std::string>> ForeignHdf5::texts_attribute(
    const std::string& object,
    const std::string& name) const {
  // "=" and the texts, each with a NUL byte behind it; empty means nullopt.
  const std::string answer = ask(0, [&](const Hdf5Reader& file) {
    const auto texts = file.texts_attribute(object, name);
    std::string joined = texts ? "=" : "";
    if (texts)
      for (const std::string& text : *texts) joined += text + '\0';
    return joined;
  });
  if (answer.empty()) return std::nullopt;
  std::vector<std::string> texts;
  for (size_t at = 1; at < answer.size(); at += texts.back().size() + 1)
    texts.push_back(answer.substr(at, answer.find('\0', at) - at));
  return texts;
}

std::string ForeignHdf5::listing() const {
  return ask(0, [](const Hdf5Reader& file) {
    std::string text;
    for (const Hdf5Dataset& dataset : file.datasets())
      text += fmt::format(
          "  {:<32} {:<20} {}\n", dataset.name, describe(dataset),
          file.text_attribute(dataset.name, "description").value_or(""));
    return text;
  });
}

void ForeignHdf5::read_blocks(const Hdf5Dataset& dataset,
                              std::span<std::byte> out,
                              int64_t elem_bytes,
                              const ReadBlock& read_block) const {
  CHECK(dataset.elems() * elem_bytes == std::ssize(out));
  if (out.empty()) return;
  const int64_t rows = dataset.dims.empty() ? 1 : dataset.dims[0];
  const int64_t row_elems = dataset.elems() / rows;
  const int64_t block_rows =
      std::clamp<int64_t>(kBlockBytes / (row_elems * elem_bytes), 1, rows);
  const SharedBytes shared(block_rows * row_elems * elem_bytes);
  for (int64_t first = 0; first < rows; first += block_rows) {
    const int64_t count = std::min(block_rows, rows - first);
    const Block block = {first, count, count * row_elems};
    ask(std::ssize(out), [&](const Hdf5Reader& file) {
      read_block(file, block, shared.bytes().data());
      return std::string();
    });
    std::memcpy(out.data() + first * row_elems * elem_bytes,
                shared.bytes().data(),
                static_cast<size_t>(block.num_elems * elem_bytes));
  }
}

}  // namespace syncopate
