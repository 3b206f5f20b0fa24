// Input files; lines that begin with -- are overrides of the command line.
#include "base/text.h"
#include "config/config.h"
#include "config/world.h"
#include "fuzz.h"

namespace syncopate {
namespace {

void check_lines(const std::vector<std::string>& lines,
                 const std::string& path) {
  for (const std::string& line : lines) {
    if (line.find('\n') != line.npos) fuzz::found("not one line: " + line);
    if (!line.starts_with(path) && !line.starts_with("command line"))
      fuzz::found("does not say where: " + line);
  }
}

// What is echoed is an input that resolves to the same.
void check_echo(const ParsedInput& input) {
  const std::string echo = echo_input(input);
  const ParsedInput again =
      parse_input(fuzz::scratch_file("echo.ini", echo).string(), {});
  if (!again.errors.empty())
    fuzz::found("the echo is refused: " + again.errors[0]);
  if (again.resolved != input.resolved || echo_input(again) != echo)
    fuzz::found("the echo resolves to something else");
  if (!resume_conflicts(input.resolved, again.resolved).empty())
    fuzz::found("the echo cannot resume");
}

void use(const std::string& path, const std::vector<std::string>& overrides) {
  ParsedInput input = parse_input(path, overrides);
  check_lines(input.errors, path);
  if (input.errors.empty()) check_echo(input);
  check_world(input, 2);
  check_lines(input.errors, path);
  if (!input.errors.empty())
    fail(ExitCode::kBadInput, "{}",
         input.errors[0].starts_with(path) ? input.errors[0]
                                           : path + input.errors[0]);
}

}  // namespace
}  // namespace syncopate

void syncopate::fuzz::take(std::string_view input) {
  std::string file;
  std::vector<std::string> overrides;
  for (const std::string& line : split(input, '\n'))
    if (line.starts_with("--"))
      overrides.push_back(line);
    else
      file += line + '\n';
  const std::string path = scratch_file("input.ini", file).string();
  accept_or_refuse(path, [&] { use(path, overrides); });
}
