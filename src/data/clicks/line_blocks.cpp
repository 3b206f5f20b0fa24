#include "data/clicks/line_blocks.h"

#include <fcntl.h>
#include <zlib.h>

#include <algorithm>
#include <new>

#include "base/check.h"

namespace syncopate {
namespace {

// The size of zlib's buffer. Uncompressed files bypass it.
constexpr unsigned kUnpackBytes = 1 << 18;

gzFile as_gz(void* file) {
  return static_cast<gzFile>(file);
}

}  // namespace

LineBlocks::LineBlocks(const fs::path& path,
                       int64_t block_bytes,
                       int64_t line_limit)
    : path_(path.string()), block_bytes_(block_bytes), line_limit_(line_limit) {
  CHECK(block_bytes >= 1 && line_limit >= 1);
  InputFile file(path);
  file_bytes_ = file.bytes();
  ::posix_fadvise(file.get(), 0, 0, POSIX_FADV_SEQUENTIAL);  // a hint
  file_ = ::gzdopen(file.get(), "rb");
  if (file_ == nullptr) throw std::bad_alloc();
  file.release();
  ::gzbuffer(as_gz(file_), kUnpackBytes);
}

LineBlocks::~LineBlocks() {
  ::gzclose(as_gz(file_));
}

int64_t LineBlocks::file_offset() const {
  return ::gzoffset(as_gz(file_));
}

// Returns fewer bytes than `num_bytes` only at the end of the file.
size_t LineBlocks::read(char* to, size_t num_bytes) {
  size_t done = 0;
  while (done < num_bytes) {
    const auto wanted =
        static_cast<unsigned>(std::min<size_t>(num_bytes - done, 1 << 30));
    const int got = ::gzread(as_gz(file_), to + done, wanted);
    int status = Z_OK;
    const char* said = ::gzerror(as_gz(file_), &status);
    if (status == Z_ERRNO) fail_errno(ExitCode::kIoError, path_, "read");
    if (status != Z_OK)
      fail(ExitCode::kBadInput, "{}: offset {}: {}", path_, file_offset(),
           status == Z_BUF_ERROR ? "the gzip data ends early"
                                 : fmt::format("damaged gzip data: {}", said));
    if (got == 0) break;
    done += static_cast<size_t>(got);
  }
  text_bytes_ += static_cast<int64_t>(done);
  return done;
}

void LineBlocks::next(std::string& block) {
  for (;;) {
    block.swap(rest_);
    rest_.clear();
    const size_t before = block.size();
    block.resize(before + static_cast<size_t>(block_bytes_));
    const size_t got =
        read(block.data() + before, static_cast<size_t>(block_bytes_));
    block.resize(before + got);
    if (got == 0) {
      if (!block.empty()) block += '\n';
      return;
    }
    if (is_cutting_) {  // drop the rest of a line that is too long
      const size_t line_end = block.find('\n', before);
      block.erase(before, std::min(line_end, block.size()) - before);
      is_cutting_ = line_end == std::string::npos;
    }
    const size_t last = block.rfind('\n');
    const size_t whole = last == std::string::npos ? 0 : last + 1;
    rest_.assign(block, whole);
    block.resize(whole);
    if (std::ssize(rest_) > line_limit_) {
      is_cutting_ = true;
      rest_.resize(static_cast<size_t>(line_limit_) + 1);
    }
    if (whole > 0) return;
  }
}

}  // namespace syncopate
