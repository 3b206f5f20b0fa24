#include "train/memory_plan.h"

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <ranges>

#include "base/memory_left.h"
#include "base/text.h"

namespace syncopate {
namespace {

std::string bytes_text(int64_t bytes) {
  return human_bytes(static_cast<double>(bytes));
}

int64_t sample_bytes(const SampleSpec& spec) {
  return std::visit([](const auto& samples) { return samples.bytes(); }, spec);
}

// The memory that the run will need, in bytes.
struct MemoryPlan {
  int64_t batch, eval_batch;  // batch 0: only evaluations
  int64_t activations = 0, replicas = 0, batches = 0;
  bool is_there = true;  // the activations could be allocated
  int64_t total() const { return activations + replicas + batches; }
};

class Planner {
 public:
  Planner(const Session& session, Engine& engine)
      : engine_(engine), workers_(session.size() > 1 ? 1 : engine.workers) {}

  // Allocates the activations.
  MemoryPlan plan(int64_t batch, int64_t eval_batch) {
    bool is_there = true;
    try {
      engine_.model->plan(*engine_.context, batch, eval_batch);
    } catch (const OutOfMemory&) {
      is_there = false;
    }
    // Used, waiting, being made.
    const int64_t batches = 2 + engine_.options.data.prefetch;
    const int64_t samples = workers_ * batches * batch + 2 * eval_batch;
    return {.batch = batch,
            .eval_batch = eval_batch,
            .activations = engine_.model->activation_bytes(),
            .replicas = replicas(),
            .batches = samples * sample_bytes(engine_.problem->spec()),
            .is_there = is_there};
  }

  // Returns the largest number from `least` to `most` for which fits(number) is
  // true, or least - 1. fits must be true for all numbers below one for which
  // it is true.
  template <typename Fits>
  static int64_t largest(int64_t least, int64_t most, const Fits& fits) {
    const auto numbers = std::views::iota(least, most + 1);
    return least - 1 +
           static_cast<int64_t>(std::ranges::partition_point(numbers, fits) -
                                numbers.begin());
  }

  // Returns the smallest batch that the network takes: BatchNorm of single
  // values needs two.
  int64_t least_batch() const {
    if (engine_.training_batch() == 0) return 0;
    return engine_.model->batch_obstacle(1).empty() ? 1 : 2;
  }

  // Bytes beyond the plan without which runs were observed to fail: under a
  // limit of address space, libraries that cannot allocate end the process in
  // their own ways.
  int64_t least_unplanned_bytes(const MemoryLeft& left) const {
    if (!left.is_address_space) return 0;
    return (44 + 8 * (workers_ + engine_.threads)) * (int64_t{1} << 20);
  }

  // Returns batches that fit into `left` with a reserve for unplanned memory.
  // eval_batch is kept if possible.
  std::optional<MemoryPlan> fitting(const MemoryLeft& left) {
    const int64_t room = left.bytes - unplanned_bytes(left);
    const auto fits = [&](int64_t batch, int64_t eval_batch) {
      const int64_t total = plan(batch, eval_batch).total();
      // By measurement, libraries need at most a quarter of it.
      return total + total / 4 <= room;
    };
    const int64_t least = least_batch();
    const int64_t eval_batch =
        largest(1, engine_.options.eval.batch,
                [&](int64_t size) { return fits(least, size); });
    if (eval_batch == 0) return std::nullopt;
    const int64_t batch =
        largest(least, engine_.training_batch(),
                [&](int64_t size) { return fits(size, eval_batch); });
    return plan(batch, eval_batch);
  }

 private:
  // After Model::plan(), which decides what a replica keeps.
  int64_t replicas() const {
    const int64_t parameters = 4 * engine_.model->parameters().num_elems();
    const int64_t buffers = 4 * engine_.model->buffers().num_elems();
    if (engine_.uses_trained_model()) return parameters + buffers;
    int64_t bytes = workers_ * engine_.replica_bytes();
    if (engine_.workers > 1) bytes += workers_ * parameters;  // what is sent
    return bytes + parameters + buffers;  // an evaluation has its own model
  }

  // The smallest limits under which small networks ran, with a margin. For each
  // thread, malloc reserves 64 MiB of address space and its stack takes 8 MiB.
  // Each worker has a thread that prepares batches.
  int64_t unplanned_bytes(const MemoryLeft& left) const {
    int64_t mib = 50 + 20 * workers_ + 9 * engine_.threads;
    if (left.is_address_space) mib = 132 + 72 * (workers_ + engine_.threads);
    // The libraries' workspace on a GPU.
    if (engine_.device->kind() == DeviceKind::kCuda) mib = 400;
    return mib * (int64_t{1} << 20);
  }

  Engine& engine_;
  int64_t workers_;  // in this process
};

std::string advice(const Engine& engine,
                   const std::optional<MemoryPlan>& plan) {
  if (!plan) return "the smallest batch may not fit either";
  if (plan->batch == 0)
    return fmt::format("eval.batch = {} fits", plan->eval_batch);
  std::string text = fmt::format("data.batch = {}", plan->batch);
  if (plan->eval_batch != engine.options.eval.batch)
    text += fmt::format(" with eval.batch = {}", plan->eval_batch);
  return text + " fits";
}

std::string text_of(const MemoryPlan& plan) {
  return fmt::format("{} (activations {}, replicas {}, batches {})",
                     bytes_text(plan.total()), bytes_text(plan.activations),
                     bytes_text(plan.replicas), bytes_text(plan.batches));
}

// Ranks that share a GPU get equal parts of it.
MemoryLeft gpu_memory_left(const Session& session, const Device& device) {
  const int ranks = ranks_a_gpu(session);
  return {std::min(device.free_bytes(), device.total_bytes() / ranks),
          ranks > 1 ? "the memory of the GPU, which ranks share"
                    : "the memory of the GPU"};
}

// Returns how many GPUs the ranks of this host can have between them. A rank
// that is bound to one of them (--gpus-per-task, --gpu-bind or
// CUDA_VISIBLE_DEVICES) sees only that one, so the allocation counts, or
// without Slurm what the driver lists.
int64_t gpus_of_host() {
  int64_t gpus = std::max(1, cuda_device_count());
  if (const char* const allocated = std::getenv("SLURM_GPUS_ON_NODE"))
    return std::max(gpus, parse_int(allocated).value_or(1));
  std::error_code ignored;
  const fs::directory_iterator listed("/proc/driver/nvidia/gpus", ignored);
  return std::max<int64_t>(gpus, std::distance(begin(listed), end(listed)));
}

}  // namespace

int ranks_a_gpu(const Session& session) {
  const int64_t gpus = gpus_of_host();
  return static_cast<int>((session.local_size() + gpus - 1) / gpus);
}

void plan_memory(const Session& session, Engine& engine) {
  const bool is_cuda = engine.device->kind() == DeviceKind::kCuda;
  const MemoryLeft left = is_cuda ? gpu_memory_left(session, *engine.device)
                                  : host_memory_left(session.local_size());
  Planner planner(session, engine);
  const MemoryPlan wanted =
      planner.plan(engine.training_batch(), engine.options.eval.batch);
  const int64_t unplanned = planner.least_unplanned_bytes(left);
  if (wanted.is_there && wanted.total() + unplanned <= left.bytes) return;
  std::string needed = text_of(wanted);
  if (unplanned > 0)
    needed +=
        fmt::format(" and {} for libraries and stacks", bytes_text(unplanned));
  const std::string batches =
      wanted.batch == 0 ? fmt::format("eval.batch: {}", wanted.eval_batch)
                        : fmt::format("data.batch: {} with eval.batch = {}",
                                      wanted.batch, wanted.eval_batch);
  engine.memory_shortage =
      fmt::format("{}: out of memory: {} needed, {} left by {}; {}", batches,
                  needed, bytes_text(left.bytes), left.limit,
                  advice(engine, planner.fitting(left)));
  if (!wanted.is_there) fail(ExitCode::kBadInput, "{}", engine.memory_shortage);
  planner.plan(wanted.batch, wanted.eval_batch);  // smaller ones were tried
}

std::string out_of_memory_line(const Session& session, Engine& engine) {
  Planner planner(session, engine);
  const MemoryPlan planned =
      planner.plan(engine.options.data.batch, engine.options.eval.batch);
  const int64_t eval_batch = std::max<int64_t>(1, planned.eval_batch / 2);
  const int64_t least = planner.least_batch();
  const auto needs_half = [&](int64_t size) {
    return planner.plan(size, eval_batch).total() <= planned.total() / 2;
  };
  const int64_t batch = Planner::largest(least, planned.batch, needs_half);
  std::string advice = "most of it does not depend on the batch";
  if (batch >= least)
    advice = fmt::format("data.batch = {} with eval.batch = {} needs half",
                         batch, eval_batch);
  return fmt::format(
      "out of memory: {} planned, not counting what libraries take; {}",
      text_of(planned), advice);
}

}  // namespace syncopate
