// Runs the command that argv names and turns its outcome into an exit code.
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <system_error>

#include "app/commands.h"
#include "app/manual.h"
#include "base/hdf5_file.h"
#include "base/process.h"
#include "base/text.h"
#include "checkpoint/agreement.h"
#include "data/mapped_file.h"
#include "run/signals.h"
#include "sync/scheme.h"
#include "watch/guardian.h"

namespace syncopate {

constexpr const char* kStatusHelp =
    "state of a run, by its folder or its input: one name and value per\n"
    "      line; missing values are shown as none (0 for step and logged)\n"
    "        directory   the run's folder\n"
    "        step        of the newest intact checkpoint\n"
    "        logged      last step in results.h5\n"
    "        owner       process that is training there\n"
    "        ended       finished, stopped, diverged, or requeued as job N\n"
    "        stopped_by  signal, time limit or STOP file\n"
    "        request     STOP or SAVE, if such a file is there";

const std::vector<Command>& command_table() {
  static const std::vector<Command> table = {
      {"train", "train INPUT.ini [--section.key=value ...]", "train a network",
       &command_train},
      {"evaluate",
       "evaluate INPUT.ini [--section.key=value ...] --checkpoint=PATH\n"
       "  syncopate evaluate INPUT.ini [--section.key=value ...] "
       "--predictions=FILE",
       "metrics of a checkpoint's model, or of answers to questions",
       &command_evaluate},
      {"predict",
       "predict INPUT.ini [--section.key=value ...] --checkpoint=PATH\n"
       "            --output=FILE",
       "labels and scores of images (.csv, .h5), answers to questions "
       "(.json),\n"
       "      click probabilities (.csv)",
       &command_predict},
      {"export",
       "export RUN|CHECKPOINT -o FILE.safetensors "
       "[--replica=K|average|centre|ema]",
       "a model for PyTorch, with torchvision's names (resnet, wrn) or\n"
       "      Hugging Face's (bert), including running statistics: the model "
       "that\n"
       "      the run evaluates (the average for eval.model = each), or the "
       "one\n"
       "      chosen by --replica; model.weights = FILE starts a run from it",
       &command_export},
      {"prepare",
       "prepare images --path=DIR -o DIR [--size=256] [--threads=N]\n"
       "  syncopate prepare images|squad|criteo INPUT.ini -o FILE.h5\n"
       "  syncopate prepare criteo FILE.tsv -o DIR [--threshold=10]\n"
       "            [--test-share=0.1] [--seed=42] [--vocabulary=DIR]\n"
       "            [--on-bad-line=fail|skip] [--threads=N]",
       "convert a folder of JPEGs or click records to files that training\n"
       "      maps, or write the samples that a network is fed as one HDF5 "
       "file",
       &command_prepare, "images squad criteo"},
      {"validate", "validate INPUT.ini [--section.key=value ...]",
       "check input and data, print the plan, run nothing", &command_validate},
      {"status",
       "status RUN\n"
       "  syncopate status INPUT.ini [--section.key=value ...]",
       kStatusHelp, &command_status},
      {"inspect", "inspect PATH",
       "summary, contents and integrity of a run, a checkpoint, a results\n"
       "      file or prepared data",
       &command_inspect},
      {"bench",
       "bench ops|step|layers INPUT.ini [--section.key=value ...]\n"
       "  syncopate bench ops INPUT.ini [--section.key=value ...] --tune=FILE\n"
       "  syncopate bench comm INPUT.ini [--section.key=value ...]\n"
       "            [--bytes=N,N] [--by=ring,native] [--repeats=N]",
       "throughput of this machine; --tune: on a GPU, measures the plans of\n"
       "      cuDNN and cuBLASLt for the input's steps and keeps the fastest "
       "in\n"
       "      a file for run.plans",
       &command_bench, "ops step layers comm"},
      {"simulate",
       "simulate INPUT.ini [--section.key=value ...] [--output=FILE.h5]\n"
       "            [--sums=computed|sent]",
       "predict time, waiting and traffic of the run on the cluster that\n"
       "      [compute], [network] and [stragglers] describe; trains nothing.\n"
       "      --sums=sent: simulates every message of an all-reduce, which is\n"
       "      exact and slow among many workers",
       &command_simulate},
      {"advise",
       "advise INPUT.ini [--section.key=value ...] [--gain=1.3] [--steps=N]",
       "recommend a scheme: predicts all of them on the cluster that the\n"
       "      input describes or, under MPI, on this one, which it measures",
       &command_advise},
      {"list", "list [WHAT]",
       "list the choices: models, data, schemes, ..., and all keys",
       &command_list, list_words()},
      {"doctor", "doctor",
       "check this machine: resources, problems and their remedies",
       &command_doctor},
  };
  return table;
}

namespace {

std::string help_text() {
  std::string text = fmt::format(
      "syncopate: trains networks under {} synchronization schemes\n\n"
      "  syncopate train inputs/smoke.ini                 one process\n"
      "  syncopate train inputs/smoke.ini --run.workers=4 four workers in it\n"
      "  mpiexec -n 2 syncopate train inputs/smoke.ini    two MPI ranks\n\n",
      scheme_table().size());
  for (const Command& command : command_table())
    text += fmt::format("  syncopate {}\n      {}\n", command.usage,
                        command.description);
  text +=
      "  syncopate help [COMMAND] | --help | --version\n"
      "  syncopate help man | completion\n"
      "      the manual page (for man -l -); bash completion of commands and "
      "keys\n\n"
      "In the folder of a run, `touch STOP` writes a checkpoint and ends the\n"
      "run (exit 75); `touch SAVE` writes a checkpoint, and the run "
      "continues.\n\n"
      "Exit codes: ";
  return text + kExitCodes + ". Keys: syncopate list keys.\n";
}

// If the caller has closed stdout, no file of a run may take its descriptor.
void open_standard_files() {
  for (int number = STDIN_FILENO; number <= STDERR_FILENO; ++number)
    if (fcntl(number, F_GETFD) < 0) ::open("/dev/null", O_RDWR);
}

// Throws Error(kUsage) if there is no such command.
const Command& command_called(const std::string& name) {
  std::vector<std::string> names;
  for (const Command& command : command_table()) {
    if (command.name == name) return command;
    names.push_back(command.name);
  }
  const auto near = nearest(name, names);
  fail(ExitCode::kUsage, "{}: no such command{} (syncopate --help)", name,
       near ? "; did you mean " + *near + "?" : "");
}

// The whole help, or that of what `words` names.
std::string help_text(const std::vector<std::string>& words) {
  if (words.empty()) return help_text();
  if (words.size() > 1)
    fail(ExitCode::kUsage, "help: one command expected, also given: {}",
         words[1]);
  if (words[0] == "man") return man_page();
  if (words[0] == "completion") return bash_completion();
  if (words[0] == "help")
    return "  syncopate help [COMMAND]\n      describe a command, or all\n";
  const Command& command = command_called(words[0]);
  return fmt::format("  syncopate {}\n      {}\n", command.usage,
                     command.description);
}

// Errors: kIoError if standard output has lost something. A reader that closes
// the pipe, as `| head` does, is not an error.
void check_standard_output() {
  const bool is_whole = std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
  pollfd output{STDOUT_FILENO, POLLOUT, 0};
  const bool has_reader =
      ::poll(&output, 1, 0) < 0 || (output.revents & POLLERR) == 0;
  if (!is_whole && has_reader)
    fail(ExitCode::kIoError, "standard output: not all of it was written");
}

ExitCode run_line(Session& session, const CommandLine& line) {
  if (line.command == "train")  // whose output is in log.txt, too
    return command_train(session, line);
  release_signals();
  ExitCode code = ExitCode::kDone;
  if (line.command != "help" && line.command != "version") {
    code = command_called(line.command).run(session, line);
  } else if (session.rank() == 0) {
    const std::string text = line.command == "help" ? help_text(line.positional)
                                                    : version_text(session);
    std::fputs(text.c_str(), stdout);
  }
  session.agree_on([&] {
    if (session.rank() == 0) check_standard_output();
  });
  return code;
}

// Describes an exception that is not ours. The one that a user can do something
// about is a thread that could not be started.
std::string line_of(const std::exception& error) {
  const auto* system = dynamic_cast<const std::system_error*>(&error);
  if (system != nullptr &&
      system->code() == std::errc::resource_unavailable_try_again)
    return "a thread cannot be started: the limit of ulimit -u, of ulimit -v "
           "or of the control group (pids.max) is reached";
  return std::string("internal: ") + error.what();
}

Session* session_of_process = nullptr;

// `session` is null if it could not be made.
[[noreturn]] void give_up(Session* session, const Error& error) {
  if (session != nullptr) session->fail_alone(error);
  std::fprintf(stderr, "error: %s\n", error.what());
  _exit(static_cast<int>(error.code()));
}

}  // namespace

void run_program(int argc, char** argv) {
  open_standard_files();
  set_up_libraries(argv, launched_by_mpi());
  if (launched_by_mpi()) {
    go_on_under_guardian(argv);
    hold_signals();
  }
  std::unique_ptr<Session> session;
  try {
    initialise_hdf5();  // sets a variable of the environment: before threads
    session = std::make_unique<Session>(argc, argv);
    session_of_process = session.get();
    end_unreadable_maps_by(
        [](const Error& error) { session_of_process->fail_alone(error); });
    CommandLine line;
    session->agree_on([&] {
      session->start_watchdog();
      line = parse_command_line(argc, argv);
    });
    session->leave(run_line(*session, line));
  } catch (const AgreedError& error) {
    if (session->rank() == 0) std::fprintf(stderr, "error: %s\n", error.what());
    session->leave(error.code());
  } catch (const Error& error) {
    give_up(session.get(), error);
  } catch (const std::filesystem::filesystem_error& error) {
    const Outcome outcome = outcome_of(error);
    give_up(session.get(), {outcome.code, outcome.line});
  } catch (const std::bad_alloc&) {
    give_up(session.get(), {ExitCode::kInternal, "out of memory"});
  } catch (const std::exception& error) {
    give_up(session.get(), {ExitCode::kInternal, line_of(error)});
  }
}

}  // namespace syncopate
