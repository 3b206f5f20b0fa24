#include "base/check.h"

namespace syncopate {

void check_failed(const char* expression,
                  const std::string& detail,
                  std::source_location where) {
  fail(ExitCode::kInternal, "internal: {}:{}: check failed: {}{}{}",
       where.file_name(), where.line(), expression, detail.empty() ? "" : ": ",
       detail);
}

}  // namespace syncopate
