# Writes the header HEADER with the revision of the checkout SOURCE as git
# describes it, "-dirty" where files differ from the commit, "unknown" outside a
# checkout. The header is left alone where the revision is unchanged.
execute_process(COMMAND git describe --always --dirty
                WORKING_DIRECTORY ${SOURCE} OUTPUT_VARIABLE revision
                OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
if(NOT revision)
  set(revision "unknown")
endif()
set(text "// Written at every build.
#pragma once

namespace syncopate::build_info {

inline constexpr const char* kGit = \"${revision}\";

}  // namespace syncopate::build_info
")
if(EXISTS ${HEADER})
  file(READ ${HEADER} present)
endif()
if(NOT text STREQUAL present)
  file(WRITE ${HEADER} "${text}")
endif()
