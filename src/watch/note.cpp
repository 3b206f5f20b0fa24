#include "watch/note.h"

#include <algorithm>
#include <cstring>

namespace syncopate {
namespace {

struct Framed {
  uint32_t text_bytes = 0;
  NoteHead head;
};
static_assert(std::is_trivially_copyable_v<Framed>);

}  // namespace

std::string encode(const Note& note) {
  const Framed framed = {
      static_cast<uint32_t>(std::min(note.text.size(), kMaxTextBytes)), note};
  std::string bytes(sizeof framed, '\0');
  std::memcpy(bytes.data(), &framed, sizeof framed);
  return bytes + note.text.substr(0, framed.text_bytes);
}

std::optional<Note> take_note(std::string& bytes, bool& is_broken) {
  Framed framed;
  if (bytes.size() < sizeof framed) return std::nullopt;
  std::memcpy(&framed, bytes.data(), sizeof framed);
  const auto& [text_bytes, head] = framed;
  if (text_bytes > kMaxTextBytes || head.kind > NoteKind::kAnswer ||
      head.state.stage > Stage::kEnd) {
    bytes.clear();
    is_broken = true;
    return std::nullopt;
  }
  if (bytes.size() < sizeof framed + text_bytes) return std::nullopt;
  Note note{head, bytes.substr(sizeof framed, text_bytes)};
  note.state.operation.back() = 0;
  bytes.erase(0, sizeof framed + text_bytes);
  return note;
}

}  // namespace syncopate
