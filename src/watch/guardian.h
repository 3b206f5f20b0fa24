// A small process between the launcher and a rank. Launchers end all ranks by
// SIGKILL the moment one of them dies by a signal, and report that signal; with
// the guardian in between, the others have the time to say who it was, and the
// code is 71. It also ends a rank that stays stopped. Where the guardian itself
// is killed, its rank says so in one line and ends with 71, which the launcher
// may not pass on.
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace syncopate {

// Goes on in a child process; the calling one stays behind as its guardian and
// never returns: it ends as the child does. To be called before there are
// threads. SYNCOPATE_GUARDIAN=0, or under a debugger: does nothing.
// `argv`, ended by nullptr, are the words that main() was given, or none: in
// the guardian they become "guardian of PID", so that `ps`, and whoever looks
// for the program to signal it, sees the rank itself.
void go_on_under_guardian(char** argv = nullptr);

// From the child: whether other ranks watch over this one. Until then, and
// where they do not, the guardian dies of what its child died of.
void tell_guardian(bool is_watched);

// From the child: the run is about to end and somebody else says why. If the
// launcher kills the guardian now, its rank ends without a word.
void end_in_silence();

}  // namespace syncopate
