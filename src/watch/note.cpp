#include "watch/note.h"

#include <algorithm>
#include <cstring>

namespace syncopate {
namespace {

struct Head {
  uint32_t text_bytes = 0;
  NoteKind kind = NoteKind::kBeat;
  int32_t origin = -1, serial = 0, subject = -1, code = 0;
  Token token = {};
  State state;
};
static_assert(std::is_trivially_copyable_v<Head>);

}  // namespace

std::string encode(const Note& note) {
  Head head;
  head.text_bytes =
      static_cast<uint32_t>(std::min(note.text.size(), kMaxTextBytes));
  head.kind = note.kind;
  head.origin = note.origin;
  head.serial = note.serial;
  head.subject = note.subject;
  head.code = note.code;
  head.token = note.token;
  head.state = note.state;
  std::string bytes(sizeof head, '\0');
  std::memcpy(bytes.data(), &head, sizeof head);
  return bytes + note.text.substr(0, head.text_bytes);
}

std::optional<Note> take_note(std::string& bytes, bool& is_broken) {
  Head head;
  if (bytes.size() < sizeof head) return std::nullopt;
  std::memcpy(&head, bytes.data(), sizeof head);
  if (head.text_bytes > kMaxTextBytes || head.kind > NoteKind::kAnswer ||
      head.state.stage > Stage::kEnd) {
    bytes.clear();
    is_broken = true;
    return std::nullopt;
  }
  if (bytes.size() < sizeof head + head.text_bytes) return std::nullopt;
  Note note{head.kind, head.origin, head.serial, head.subject,
            head.code, head.token,  head.state,  {}};
  note.state.operation.back() = 0;
  note.text = bytes.substr(sizeof head, head.text_bytes);
  bytes.erase(0, sizeof head + head.text_bytes);
  return note;
}

}  // namespace syncopate
