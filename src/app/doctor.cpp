// syncopate doctor: what this machine offers, what is wrong, and how to fix it.
#include "machine/doctor.h"
#include "app/commands.h"
#include "run/signals.h"

namespace syncopate {

ExitCode command_doctor(Session& session, const CommandLine& line) {
  install_signal_handlers();
  session.agree_on([&] {
    line.allow_only({}, CommandLine::Keys::kRefused);
    line.no_arguments();
  });
  DoctorReport report(session.log());
  for (const auto& [name, value] : build_facts(session))
    session.log().line("       {:<12} {}", name, value);
  check_processor(report, session);
  check_gpus(report);
  if (session.rank() == 0) {
    check_slurm(report, session);
    check_storage(report);
    check_run_directory(report);
  }
  check_ranks(report, session);
  return report.code();
}

}  // namespace syncopate
