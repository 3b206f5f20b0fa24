// Checks of `doctor`: processor and GPUs of this process.
#include <cstdlib>

#include "base/file.h"
#include "base/text.h"
#include "comm/device_collectives.h"
#include "device/device.h"
#include "machine/doctor.h"
#include "ops/library.h"

namespace syncopate {
namespace {

bool is_set(const char* variable) {
  return std::getenv(variable) != nullptr;
}

// The remedy if the machine has devices but this process has none.
std::string gpu_mend() {
  if (is_set("SLURM_JOB_ID") && !is_set("SLURM_JOB_GPUS") &&
      !is_set("SLURM_STEP_GPUS") && !is_set("CUDA_VISIBLE_DEVICES"))
    return "; the job asked for none: sbatch --gpus-per-node=N with as many "
           "tasks per node, as jobs/multi_gpu.sbatch does";
  if (const char* visible = std::getenv("CUDA_VISIBLE_DEVICES"))
    return fmt::format("; CUDA_VISIBLE_DEVICES is \"{}\"", visible);
  std::error_code ignored;
  return fs::exists("/proc/driver/nvidia/version", ignored)
             ? "; a driver is loaded: check that nvidia-smi works and that "
               "the driver is new enough"
             : "";
}

}  // namespace

void check_processor(DoctorReport& report, const Session& session) {
  const CpuFeatures cpu = cpu_features();
  report.ok("processor", "{}, {} here, {} per worker", cpu.model,
            counted(cpu.cores, "core"), counted(session.threads(0), "thread"));
  if (!cpu.has_avx512)
    report.note("processor",
                "no AVX-512: convolutions take another path, and "
                "bits differ from machines that have it");
  report.note("precision", "{}",
              cpu.has_bf16 ? "bf16 instructions: run.precision = bf16 works"
                           : "no bf16 instructions: run.precision = fp32");
}

// CUDA libraries without a GPU are not a fault; they are only noted.
void check_gpus(DoctorReport& report) {
  const std::vector<std::string> gpus = cuda_device_texts();
  const int usable = cuda_device_count();
  for (int i = 0; i < std::ssize(gpus); ++i) {
    if (i < usable)
      report.ok("gpu", "{}: {}", i, gpus[i]);
    else
      report.note("gpu",
                  "{}: {}: not used: GPUs from the first with compute "
                  "capability below 8.0 onwards are ignored "
                  "(CUDA_VISIBLE_DEVICES can reorder them)",
                  i, gpus[i]);
  }
  if (gpus.empty())
    report.note("gpu", "{}{}; run.device = auto takes the processor",
                cuda_devices_missing(), gpu_mend());
  for (const LibraryVersion& library : cuda_library_versions())
    if (library.obstacle.empty())
      report.ok("gpu library", "{}", library.name);
    else if (usable == 0)
      report.note("gpu library", "{}: {}", library.name, library.obstacle);
    else
      report.bad(ExitCode::kInputMissing, "gpu library", "{}: {}", library.name,
                 library.obstacle);
  if (usable == 0 && gpus.empty()) return;
  const std::string missing = nccl_missing();
  if (missing.empty())
    report.ok("gpu library", "{}", nccl_name());
  else
    report.note("gpu library", "NCCL: {}; gradients then go through the host",
                missing);
}

}  // namespace syncopate
