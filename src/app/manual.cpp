#include "app/manual.h"

#include <regex>
#include <set>
#include <span>
#include <utility>
#include <variant>

#include "app/commands.h"
#include "base/text.h"
#include "config/keys.h"
#include "config/value.h"
#include "sync/scheme.h"

namespace syncopate {
namespace {

// Text as troff shows it: hyphens that can be copied, no line that looks like a
// request. Lines are filled, but items of a list begin new ones: they are
// indented further than the help of a command.
std::string roff(const std::string& text) {
  constexpr int kHelpIndent = 6;
  std::string out;
  int indent = 0;
  for (const char c : text) {
    if (out.empty() || out.back() == '\n') {
      indent = c == ' ' ? indent + 1 : c == '\n' ? 0 : indent;
      if (c == ' ' || c == '\n') continue;  // would break the line
      if (std::exchange(indent, 0) > kHelpIndent) out += ".br\n";
      if (c == '.' || c == '\'') out += "\\&";
    }
    out += c == '\\' ? "\\e" : c == '-' ? "\\-" : std::string(1, c);
  }
  return out;
}

// The options that a command's usage names: "--checkpoint", "--output" (also
// for -o).
std::vector<std::string> options_in(const std::string& usage) {
  static const std::regex option("--[a-z][a-z-]*(?=[=\\]])");
  std::set<std::string> found;
  for (std::sregex_iterator it(usage.begin(), usage.end(), option), end;
       it != end; ++it)
    found.insert(it->str());
  if (usage.find(" -o ") != std::string::npos) found.insert("--output");
  return {found.begin(), found.end()};
}

std::string commands_page() {
  std::string text = ".SH COMMANDS\n";
  for (const Command& command : command_table()) {
    // Further forms of a command are lines of their own.
    std::string tag = ".TP\n";
    for (const std::string& line : split(command.usage, '\n')) {
      const std::string form(trim(line));
      text += tag + ".B " +
              roff(form.starts_with("syncopate ") ? form.substr(10) : form) +
              '\n';
      tag = ".TQ\n";
    }
    text += roff(command.description) + '\n';
  }
  return text;
}

std::string keys_page() {
  std::string text =
      ".SH KEYS\n"
      "An input is an INI file. Each key can also be given on the command "
      "line, "
      "as \\-\\-section.key=value.\n";
  std::string section;
  for (const Key& key : key_table()) {
    if (section != key.section()) {
      section = key.section();
      text += ".SS [" + section + "]\n";
    }
    const std::string value = format_value(key, Options{});
    text += fmt::format(".TP\n.B {}\n{} Accepts {}.{}\n", roff(key.word()),
                        roff(key.doc), roff(accepted_values(key)),
                        value.empty() ? "" : " Default: " + roff(value) + ".");
  }
  return text;
}

}  // namespace

std::string man_page() {
  return fmt::format(
             ".TH SYNCOPATE 1\n"
             ".SH NAME\n"
             "syncopate \\- trains networks under {} synchronization schemes\n"
             ".SH SYNOPSIS\n"
             ".B syncopate\n"
             ".I COMMAND\n"
             "[\\fIINPUT.ini\\fR] [\\-\\-\\fIsection.key\\fR=\\fIvalue\\fR "
             "...]\n"
             ".br\n"
             ".B mpiexec \\-n \\fIN\\fR syncopate train\n"
             ".I INPUT.ini\n",
             scheme_table().size()) +
         commands_page() + keys_page() + ".SH EXIT STATUS\n" +
         std::string(kExitCodes) +
         ".\n"
         ".SH ENVIRONMENT\n"
         ".TP\n.B SYNCOPATE_RUNS\nthe folder of runs, where run.directory is "
         "not given\n"
         ".TP\n.B SYNCOPATE_INTERFACE\nthe network interface of the watchdogs\n"
         ".TP\n.B SYNCOPATE_START_TIMEOUT_S\nseconds that MPI may take to "
         "start, "
         "120 by default\n"
         ".TP\n.B SYNCOPATE_RANKS_PER_HOST\ntreats this many consecutive ranks "
         "of a host as a separate host\n"
         ".TP\n.B SYNCOPATE_GUARDIAN\n0: ranks start without their guardian "
         "process (for debuggers)\n"
         ".TP\n.B OMP_NUM_THREADS\nthe threads of a worker, where run.threads "
         "is auto\n"
         ".SH FILES\n"
         ".TP\n.I runs/NAME/input.ini\nevery key with the value used; itself a "
         "runnable input\n"
         ".TP\n.I runs/NAME/results.h5\nseries, provenance and summary\n"
         ".TP\n.I runs/NAME/checkpoints/\nwhat the run resumes from\n";
}

std::string bash_completion() {
  std::vector<std::string> commands = {"help"}, keys;
  for (const Command& command : command_table())
    commands.push_back(command.name);
  std::string values;
  for (const Key& key : key_table()) {
    keys.push_back("--" + key.name);
    const bool is_bool = std::holds_alternative<bool*>(key.place.type());
    if (is_bool || !key.choices.empty())
      values += fmt::format("      --{}) words=\"{}\" ;;\n", key.name,
                            is_bool ? "yes no" : join(key.choices, " "));
  }
  std::vector<std::string> subjects = section_names();  // of list keys
  for (const SchemeInfo& info : scheme_table())
    if (std::ranges::count(subjects, info.keyword) == 0)
      subjects.push_back(info.keyword);
  std::string options, first_words;
  for (const Command& command : command_table()) {
    const std::vector<std::string> own = options_in(command.usage);
    if (!own.empty())
      options += fmt::format("      {}) own=\"{}\" ;;\n", command.name,
                             join(own, " "));
    if (!command.words.empty())
      first_words += fmt::format("      {}) words=\"{}\" ;;\n", command.name,
                                 command.words);
  }
  first_words += fmt::format("      help) words=\"man completion {}\" ;;\n",
                             join(std::span(commands).subspan(1), " "));
  return fmt::format(
      R"(# bash completion of syncopate: source <(syncopate help completion)
_syncopate() {{
  local current=${{COMP_WORDS[COMP_CWORD]}} key='' words='' own=''
  COMPREPLY=()
  # bash splits --section.key=value at the equals sign.
  if [[ $current == = ]]; then
    key=${{COMP_WORDS[COMP_CWORD - 1]}} current=''
  elif ((COMP_CWORD > 1)) && [[ ${{COMP_WORDS[COMP_CWORD - 1]}} == = ]]; then
    key=${{COMP_WORDS[COMP_CWORD - 2]}}
  fi
  if [[ -n $key ]]; then
    case $key in
{}      *) mapfile -t COMPREPLY < <(compgen -f -- "$current")
         compopt -o filenames 2>/dev/null ;;
    esac
  elif [[ $current == -* ]]; then
    case ${{COMP_WORDS[1]}} in
{}    esac
    words="{}"
    compopt -o nospace 2>/dev/null
    COMPREPLY=($(compgen -S = -W "$own $words" -- "$current"))
    return
  elif ((COMP_CWORD == 1)); then
    words="{}"
  elif ((COMP_CWORD == 2)); then
    case ${{COMP_WORDS[1]}} in
{}      *) mapfile -t COMPREPLY < <(compgen -f -- "$current")
         compopt -o filenames 2>/dev/null ;;
    esac
  elif [[ ${{COMP_WORDS[1]}} == list && ${{COMP_WORDS[2]}} == keys ]]; then
    words="{}"
  else
    mapfile -t COMPREPLY < <(compgen -f -- "$current")
    compopt -o filenames 2>/dev/null
  fi
  [[ -z $words ]] || COMPREPLY=($(compgen -W "$words" -- "$current"))
}}
complete -F _syncopate syncopate
)",
      values, options, join(keys, " "), join(commands, " "), first_words,
      join(subjects, " "));
}

}  // namespace syncopate
