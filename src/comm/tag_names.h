// Readable names of message tags, for the report of a hang.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "comm/tags.h"

namespace syncopate::tags {

std::string name_of(Tag tag);  // "bucket 3", "checkpoint"

}  // namespace syncopate::tags
