#include "data/clicks/line_blocks.h"

#include <fcntl.h>

#include "base/check.h"

namespace syncopate {
namespace {

// The size of the buffer of packed bytes. Other files bypass it.
constexpr size_t kPackedBytes = 1 << 18;
constexpr std::string_view kGzipMagic = "\x1f\x8b";

}  // namespace

LineBlocks::LineBlocks(const fs::path& path,
                       int64_t block_bytes,
                       int64_t line_limit)
    : file_(path), block_bytes_(block_bytes), line_limit_(line_limit) {
  CHECK(block_bytes >= 1 && line_limit >= 1);
  ::posix_fadvise(file_.get(), 0, 0, POSIX_FADV_SEQUENTIAL);  // a hint
  buffer_.resize(kPackedBytes);
  refill();
  if (left_.starts_with(kGzipMagic))
    gunzip_ = std::make_unique<Gunzip>(path.string());
}

int64_t LineBlocks::file_offset() const {
  return read_bytes_ - std::ssize(left_);
}

void LineBlocks::refill() {
  const size_t got = file_.read(buffer_.data(), buffer_.size());
  left_ = std::string_view(buffer_).substr(0, got);
  read_bytes_ += static_cast<int64_t>(got);
}

// Returns fewer bytes than `num_bytes` only at the end of the file.
size_t LineBlocks::read(char* to, size_t num_bytes) {
  size_t done = 0;
  if (gunzip_) {
    while (done < num_bytes) {
      if (left_.empty()) refill();
      if (left_.empty()) {
        gunzip_->expect_end();
        break;
      }
      done += gunzip_->unpack(left_, {to + done, num_bytes - done});
    }
  } else {
    done = left_.copy(to, num_bytes);
    left_.remove_prefix(done);
    const size_t got = file_.read(to + done, num_bytes - done);
    read_bytes_ += static_cast<int64_t>(got);
    done += got;
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
