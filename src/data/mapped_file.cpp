#include "data/mapped_file.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

#include "base/check.h"

namespace syncopate {

MappedFile::MappedFile(const fs::path& path) : path_(path.string()) {
  const InputFile file(path);  // the mapping remains when it is closed
  const auto num_bytes = static_cast<size_t>(file.bytes());
  if (num_bytes == 0) return;
  void* at = ::mmap(nullptr, num_bytes, PROT_READ, MAP_SHARED, file.get(), 0);
  if (at == MAP_FAILED) fail_errno(ExitCode::kIoError, path_, "map");
  ::madvise(at, num_bytes, MADV_RANDOM);  // only a hint
  bytes_ = {static_cast<const uint8_t*>(at), num_bytes};
}

MappedFile::~MappedFile() {
  if (!bytes_.empty())
    ::munmap(const_cast<uint8_t*>(bytes_.data()), bytes_.size());
}

void MappedFile::will_need(int64_t first_byte, int64_t num_bytes) const {
  CHECK(first_byte >= 0 && num_bytes >= 0 &&
        first_byte + num_bytes <= std::ssize(bytes_));
  const int64_t page = ::sysconf(_SC_PAGESIZE);
  const int64_t first = first_byte / page * page;  // madvise wants whole pages
  ::madvise(const_cast<uint8_t*>(bytes_.data()) + first,
            static_cast<size_t>(first_byte + num_bytes - first), MADV_WILLNEED);
}

std::span<const uint8_t> MappedBlocks::block(int64_t index) const {
  const auto rest =
      file->bytes().subspan(static_cast<size_t>(index * block_bytes));
  return rest.first(std::min(rest.size(), static_cast<size_t>(block_bytes)));
}

std::optional<std::string> MappedBlocks::fault(int64_t index) const {
  const std::span<const uint8_t> bytes = block(index);
  file->will_need(index * block_bytes, std::ssize(bytes));
  if (digest_of({reinterpret_cast<const char*>(bytes.data()), bytes.size()}) ==
      digests[static_cast<size_t>(index)])
    return std::nullopt;
  return fmt::format("{}: offset {}: {} bytes are not those that were written",
                     file->path(), index * block_bytes, bytes.size());
}

std::vector<std::string> MappedBlocks::faults() const {
  std::vector<std::string> lines;
  for (int64_t index = 0; index < std::ssize(digests); ++index)
    if (auto line = fault(index)) lines.push_back(std::move(*line));
  return lines;
}

}  // namespace syncopate
