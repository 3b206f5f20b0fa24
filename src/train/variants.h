// An input with other values of some keys: a variant that a command tries, or a
// phase of sync_switch.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "config/config.h"
#include "train/saved_run.h"

namespace syncopate {

// Parses the input at `path` with `own` ("--section.key=value") instead of
// those of `overrides` that are of the same keys. Keys of the input that the
// variant does not use are allowed; unused keys of `own` are mistakes.
ParsedInput parse_variant(const std::string& path,
                          const std::vector<std::string>& overrides,
                          const std::vector<std::string>& own,
                          const std::optional<SavedRun>& saved);

// Returns the options of each phase of sync_switch.order: those of the `whole`
// input, which is valid and of which the run uses `used`, with the phase's
// scheme and its keys of sync_switch.overrides. Throws Error(kBadInput) if one
// of these is not the phase's own or is not used in it.
std::vector<Options> phase_options(const ParsedInput& whole,
                                   const Options& used,
                                   const std::optional<SavedRun>& saved);

}  // namespace syncopate
