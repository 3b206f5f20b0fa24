// A small process between the launcher and a rank. When a rank dies by a
// signal, launchers kill all others with SIGKILL at once and report that
// signal; the guardian in between gives the others time to say which rank it
// was, says so itself if no rank was left (under hydra), and makes the exit
// code 71. It also ends a rank that stays stopped. If the guardian itself is
// killed, its rank says so in one line and ends with 71, which the launcher may
// not pass on.
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace syncopate {

// Continues in a child process. The calling process stays behind as its
// guardian and never returns: it ends the way the child does. Call it before
// starting threads. Does nothing with SYNCOPATE_GUARDIAN=0 or under a debugger.
// `argv`, terminated by nullptr, holds the words given to main(), or is null:
// in the guardian they become "guardian of PID", so that `ps`, and anyone who
// looks for the program to signal it, sees the rank itself.
void go_on_under_guardian(char** argv = nullptr);

// Called in the child: tells whether other ranks watch this one. Until then, or
// if they do not, the guardian dies by the same signal as its child.
void tell_guardian(bool is_watched);

// Called in the child: the run is about to end and another rank says why. If
// the launcher now kills the guardian, its rank ends silently.
void end_in_silence();

// A process has one set of last words, for whoever comes first: silence because
// another rank speaks, or the report that its guardian was killed. After the
// report the process ends as soon as others_know() is called, or half a second
// later.
enum class LastWords : int {
  kUnspoken,
  kSilence,
  kReporting,  // the line may not have reached the launcher yet
  kReported,
  kKnown,  // to the other ranks
};
LastWords last_words();
void others_know();

}  // namespace syncopate
