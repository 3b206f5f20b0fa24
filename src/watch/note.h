// Messages between watchdogs and their encoding: a length, a fixed-size head
// and a text. All ranks run the same program on the same kind of machine.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <optional>
#include <string>

#include "watch/activity.h"

namespace syncopate {

enum class NoteKind : uint8_t {
  kHello,       // to a neighbour: the caller, and the run's token
  kBeat,        // to a neighbour: alive, and its current state
  kGoodbye,     // to a neighbour: an agreed end
  kLeaving,     // to all: `origin` fails alone, with `code`, and will say why
  kVerdict,     // to all: `subject` died, stopped or hangs; see text
  kOperations,  // to all: the last operations of `origin`
  kSpoken,      // to all: the report is out, leave with `code`
  kQuestion,    // to all: what is each rank doing?
  kAnswer,      // to all: the state of `origin`
};

// These travel round the ring; each rank forwards them once.
constexpr bool goes_round(NoteKind kind) {
  return kind >= NoteKind::kLeaving;
}

using Token = std::array<uint64_t, 2>;

// What a rank reports about itself.
struct State {
  Stage stage = Stage::kStart;
  bool is_waiting = false;  // for other ranks
  int64_t step = 0;
  double idle_s = 0;   // time without progress of the worker itself
  double still_s = 0;  // time in which no message moved either
  double limit_s = 0;  // limit of its stage
  std::array<char, 96> operation = {};
};

// The part of a note that has a fixed size.
struct NoteHead {
  NoteKind kind = NoteKind::kBeat;
  int32_t origin = -1;
  int32_t serial = 0;  // per origin, for notes that go round
  int32_t subject = -1;
  int32_t code = 0;
  Token token = {};
  State state = {};
};
struct Note : NoteHead {
  std::string text = {};
};

// Longer texts are truncated.
constexpr size_t kMaxTextBytes = 64 << 10;

std::string encode(const Note& note);  // with its length in front
// Takes the first complete note from `bytes`, or returns nullopt if there is
// none yet. Malformed input empties `bytes` and sets `is_broken`.
std::optional<Note> take_note(std::string& bytes, bool& is_broken);

}  // namespace syncopate
