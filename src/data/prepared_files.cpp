#include "data/prepared_files.h"

#include <algorithm>

#include "base/check.h"

namespace syncopate {
namespace {

constexpr int64_t kDigestLetters = 32;  // of XXH3-128 in hexadecimal

fs::path checked_seal(const fs::path& path) {
  check_seal(path);
  return path;
}

}  // namespace

void BlockWriter::write(std::string_view bytes) {
  while (!bytes.empty()) {
    const size_t count = std::min(bytes.size(), block_bytes_ - block_.size());
    block_ += bytes.substr(0, count);
    bytes.remove_prefix(count);
    if (block_.size() == block_bytes_) flush();
  }
}

void BlockWriter::flush() {
  file_.write(block_);
  digests_ += digest_of(block_);
  block_.clear();
}

void BlockWriter::finish() {
  if (!block_.empty()) flush();
  file_.finish();
}

void BlockWriter::write_digests(Hdf5Writer& header,
                                const std::string& name,
                                const std::string& description) const {
  write_text(header, name,
             {std::ssize(digests_) / kDigestLetters, kDigestLetters}, digests_);
  header.attribute(name, "description", description);
}

PreparedHeader::PreparedHeader(const fs::path& path,
                               const std::string& writer,
                               const std::string& kind,
                               int64_t version)
    : path_(path.string()), writer_(writer), file_(checked_seal(path)) {
  if (file_.text_attribute("/", "kind") != kind) fail_in("something else");
  if (file_.int_attribute("/", "version") != version)
    fail_in("another version");
}

int64_t PreparedHeader::number(const std::string& name) const {
  const auto value = file_.int_attribute("/", name);
  if (!value) fail_in("no attribute " + name);
  if (*value < 1) fail_in(fmt::format("{} = {}", name, *value));
  return *value;
}

MappedBlocks PreparedHeader::map(const fs::path& path,
                                 const std::string& name,
                                 int64_t samples,
                                 int64_t sample_bytes,
                                 int64_t block_samples,
                                 const std::string& sample) const {
  const int64_t num_blocks = (samples - 1) / block_samples + 1;
  const auto letters = values<uint8_t>(name, {num_blocks, kDigestLetters});
  MappedBlocks blocks;
  for (auto at = letters.begin(); at != letters.end(); at += kDigestLetters)
    blocks.digests.emplace_back(at, at + kDigestLetters);
  blocks.file = std::make_shared<MappedFile>(path);
  const int64_t bytes = std::ssize(blocks.file->bytes());
  if (bytes / sample_bytes != samples || bytes % sample_bytes != 0)
    fail(ExitCode::kBadInput, "{}: {} bytes, expected {} {}", path.string(),
         bytes, samples, sample);
  blocks.block_bytes = std::min(block_samples, samples) * sample_bytes;
  return blocks;
}

void PreparedHeader::fail_in(const std::string& what) const {
  fail(ExitCode::kBadInput, "{}: {}, expected what {} writes", path_, what,
       writer_);
}

void PreparedHeader::check_type(const Hdf5Dataset& found,
                                ElementType type,
                                const std::vector<int64_t>& dims) const {
  const bool is_expected =
      found.type == type && found.elems() > 0 &&
      std::ranges::equal(found.dims, dims, [](int64_t have, int64_t wanted) {
        return wanted < 0 || have == wanted;
      });
  if (!is_expected) fail_in(found.name + ": " + describe(found));
}

void write_text(Hdf5Writer& file,
                const std::string& name,
                std::vector<int64_t> dims,
                std::string_view text) {
  file.write(
      name, dims,
      std::span(reinterpret_cast<const uint8_t*>(text.data()), text.size()));
}

}  // namespace syncopate
