// syncopate doctor: what this machine gives, what is wrong, how to mend it.
#include <unistd.h>
#include <algorithm>
#include <cstdlib>
#include <set>

#include "app/commands.h"
#include "app/device_transport.h"
#include "app/median.h"
#include "app/version.h"
#include "base/clock.h"
#include "base/hdf5_file.h"
#include "base/text.h"
#include "comm/collectives.h"
#include "comm/device_collectives.h"
#include "comm/tags.h"
#include "device/device.h"
#include "ops/library.h"

namespace syncopate {
namespace {

class Report {
 public:
  explicit Report(Log& log) : log_(log) {}
  void ok(const std::string& what, const std::string& text) {
    log_.line("[ok]   {:<12} {}", what, text);
  }
  void note(const std::string& what, const std::string& text) {
    log_.line("[note] {:<12} {}", what, text);
  }
  void bad(ExitCode code, const std::string& what, const std::string& text) {
    log_.line("[bad]  {:<12} {}", what, text);
    if (code_ == ExitCode::kDone) code_ = code;
  }
  ExitCode code() const { return code_; }

 private:
  Log& log_;
  ExitCode code_ = ExitCode::kDone;
};

void check_processor(Report& report, const Session& session) {
  const CpuFeatures cpu = cpu_features();
  report.ok("processor", fmt::format("{}, {} cores here, {} threads a worker",
                                     cpu.model, cpu.cores, session.threads(0)));
  if (!cpu.has_avx512)
    report.note("processor",
                "no AVX-512: convolutions take another path, and "
                "bits differ from machines that have it");
  report.note("precision", cpu.has_bf16
                               ? "bf16 instructions: run.precision = bf16 works"
                               : "no bf16 instructions: run.precision = fp32");
}

bool is_set(const char* variable) {
  return std::getenv(variable) != nullptr;
}

// Where there are devices for the machine and none for this process.
std::string gpu_mend() {
  if (is_set("SLURM_JOB_ID") && !is_set("SLURM_JOB_GPUS") &&
      !is_set("SLURM_STEP_GPUS") && !is_set("CUDA_VISIBLE_DEVICES"))
    return "; the job asked for none: sbatch --gpus-per-task=1";
  if (const char* visible = std::getenv("CUDA_VISIBLE_DEVICES"))
    return fmt::format("; CUDA_VISIBLE_DEVICES is \"{}\"", visible);
  std::error_code ignored;
  return fs::exists("/proc/driver/nvidia/version", ignored)
             ? "; a driver is loaded: see whether nvidia-smi works, and "
               "whether it is new enough"
             : "";
}

// Libraries without a GPU are no fault: they are only told.
void check_gpus(Report& report) {
  const std::vector<std::string> gpus = cuda_device_texts();
  const int usable = cuda_device_count();
  for (int i = 0; i < std::ssize(gpus); ++i) {
    const std::string text = fmt::format("{}: {}", i, gpus[i]);
    if (i < usable)
      report.ok("gpu", text);
    else
      report.note("gpu", text +
                             ": not used; the first whose compute capability "
                             "is below 8.0 and those behind it are not (order "
                             "them in CUDA_VISIBLE_DEVICES)");
  }
  if (gpus.empty())
    report.note("gpu", cuda_devices_missing() + gpu_mend() +
                           "; run.device = auto takes the processor");
  for (const LibraryVersion& library : cuda_library_versions())
    if (library.obstacle.empty())
      report.ok("gpu library", library.name);
    else if (usable == 0)
      report.note("gpu library", library.name + ": " + library.obstacle);
    else
      report.bad(ExitCode::kInputMissing, "gpu library",
                 library.name + ": " + library.obstacle);
  if (usable == 0 && gpus.empty()) return;
  const std::string missing = nccl_missing();
  if (missing.empty())
    report.ok("gpu library", "NCCL can be used");
  else
    report.note("gpu library",
                "NCCL: " + missing + "; gradients then go through the host");
}

// How gradients would travel between the GPUs of this job's ranks, as
// sync.transport = auto chooses.
void check_transport(Report& report,
                     const Session& session,
                     Endpoint& endpoint) {
  const int gpus = cuda_device_count();
  const std::unique_ptr<Device> device =
      gpus > 0 ? make_cuda_device(session.local_rank() % gpus)
               : make_cpu_device();
  const std::string obstacle =
      nccl_obstacle(*device, session.hosts()[session.rank()], endpoint);
  if (endpoint.rank() != 0) return;
  if (obstacle.empty())
    report.ok("transport", "NCCL");
  else
    report.note("transport", "MPI: " + obstacle +
                                 " (NCCL wants a GPU of its own for every "
                                 "rank)");
}

void check_slurm(Report& report, const Session& session) {
  const char* job = std::getenv("SLURM_JOB_ID");
  if (!job) {
    report.note("slurm", "not inside a job");
    return;
  }
  const char* nodes = std::getenv("SLURM_JOB_NUM_NODES");
  report.ok("slurm", fmt::format("job {}, {} nodes", job, nodes ? nodes : "?"));
  const char* tasks = std::getenv("SLURM_STEP_NUM_TASKS");
  if (tasks && parse_int(tasks).value_or(1) > 1 && session.size() == 1)
    report.bad(ExitCode::kUsage, "pmi",
               fmt::format("srun started {} tasks, each sees a world of 1: "
                           "srun --mpi=pmi2 (srun --mpi=list)",
                           tasks));
}

void check_storage(Report& report) {
  const fs::path path = fmt::format("syncopate-doctor-{}.h5", getpid());
  try {
    const std::vector<float> values(1 << 20, 1.5f);
    const std::vector<int64_t> dims = {std::ssize(values)};
    const double begin = monotonic_s();
    {
      Hdf5Writer file(path);
      file.write<float>("values", dims, values);
      file.close();
    }
    fsync_path(path);
    const double seconds = monotonic_s() - begin;
    std::vector<float> back(values.size());
    Hdf5Reader(path).read<float>("values", back);
    if (back != values)
      report.bad(ExitCode::kIoError, "storage", "read back other values");
    else
      report.ok("storage",
                fmt::format("HDF5 {}: 4 MiB written, synced and read back "
                            "here in {:.0f} ms",
                            hdf5_version(), 1e3 * seconds));
  } catch (const Error& error) {
    report.bad(error.code(), "storage", error.what());
  }
  std::error_code ignored;
  fs::remove(path, ignored);
}

size_t num_hosts(const Session& session) {
  const std::vector<std::string> names = session.hosts();  // by rank
  return std::set<std::string>(names.begin(), names.end()).size();
}

void check_messages(Report& report, Session& session) {
  if (!session.is_mpi()) {
    report.note("mpi",
                "not under a launcher: one process (mpiexec -n 2 "
                "syncopate doctor tries messages)");
    return;
  }
  const auto world = session.make_world(session.size(), NetworkCost{});
  world->run([&](Endpoint& endpoint) {
    check_transport(report, session, endpoint);
    const Group group = endpoint.world_group();
    std::vector<double> seconds;
    bool is_right = true;
    for (int i = 0; i < 20; ++i) {
      std::vector<float> values(1 << 18, static_cast<float>(endpoint.rank()));
      barrier(endpoint, group, tags::kControl);
      const double begin = monotonic_s();
      all_reduce_sum(endpoint, group, values, CollectiveAlgorithm::kRing,
                     Wire::kF32, tags::kCollective, Traffic::kPayload);
      seconds.push_back(monotonic_s() - begin);
      const auto expected =
          static_cast<float>(group.size() * (group.size() - 1) / 2);
      for (const float value : values) is_right &= value == expected;
    }
    if (endpoint.rank() != 0) return;
    if (!is_right)
      report.bad(ExitCode::kInternal, "messages", "a sum came out wrong");
    else
      report.ok("messages",
                fmt::format("{} ranks on {} hosts, 1 MiB all-reduce {:.2f} ms",
                            session.size(), num_hosts(session),
                            1e3 * median(seconds)));
  });
}

}  // namespace

ExitCode command_doctor(Session& session, const CommandLine& line) {
  session.agree_on([&] { line.allow_only({}, CommandLine::Keys::kRefused); });
  Report report(session.log());
  for (const auto& [name, value] : build_facts(session))
    session.log().line("       {:<12} {}", name, value);
  check_processor(report, session);
  check_gpus(report);
  check_slurm(report, session);
  check_messages(report, session);
  if (session.rank() == 0) check_storage(report);
  return report.code();
}

}  // namespace syncopate
