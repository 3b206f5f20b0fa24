// What watchdogs tell each other, and how it travels: a length, a head of
// fixed size, a text. All ranks run the same program on the same kind of
// machine.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <optional>
#include <string>

#include "watch/activity.h"

namespace syncopate {

enum class NoteKind : uint8_t {
  kHello,       // to a neighbour: who calls, and the token of the run
  kBeat,        // to a neighbour: still there, and at what
  kGoodbye,     // to a neighbour: an agreed end
  kLeaving,     // to all: `origin` fails alone, with `code`, and will say why
  kVerdict,     // to all: `subject` died, stopped or hangs; the text says it
  kOperations,  // to all: the last operations of `origin`
  kSpoken,      // to all: the one line is out, leave with `code`
  kQuestion,    // to all: what is each at?
  kAnswer,      // to all: the state of `origin`
};

// Those that go round the ring, each rank passing them on once.
constexpr bool goes_round(NoteKind kind) {
  return kind >= NoteKind::kLeaving;
}

using Token = std::array<uint64_t, 2>;

// What a rank is at, as it tells others.
struct State {
  Stage stage = Stage::kStart;
  bool is_waiting = false;  // for other ranks
  int64_t step = 0;
  double idle_s = 0;   // the worker itself has not got on for so long
  double still_s = 0;  // nor has any message
  double limit_s = 0;  // of its stage
  std::array<char, 96> operation = {};
};

struct Note {
  NoteKind kind = NoteKind::kBeat;
  int32_t origin = -1;
  int32_t serial = 0;  // of the origin's notes that go round
  int32_t subject = -1;
  int32_t code = 0;
  Token token = {};
  State state;
  std::string text;
};

// Longer texts are cut.
constexpr size_t kMaxTextBytes = 64 << 10;

std::string encode(const Note& note);  // with its length in front
// Takes the first whole note from `bytes`; none yet: nullopt. What is no note
// empties `bytes` and sets `is_broken`.
std::optional<Note> take_note(std::string& bytes, bool& is_broken);

}  // namespace syncopate
