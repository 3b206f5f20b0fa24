// The keys of [sync], of each scheme, of [compress] and [topology].
#include "base/text.h"
#include "config/key_sections.h"

namespace syncopate {
namespace {

using Words = std::vector<std::string>;

constexpr auto kSync = &Options::sync;

// The place &Options::sync -> &SyncOptions::section -> &Section::member.
template <auto kSection, auto kMember>
Target at2(Options& options) {
  return &(options.sync.*kSection.*kMember);
}

// A key is in use where one of the run's schemes has it; under sync_switch
// those of its phases count.
std::vector<UsedWhen> used_by(Words schemes) {
  return {{"sync.scheme", std::move(schemes)}};
}

std::vector<UsedWhen> with(std::vector<UsedWhen> rules, UsedWhen rule) {
  rules.push_back(std::move(rule));
  return rules;
}

const Words kReducing = {"bsp",   "ds_sync", "local_sgd",
                         "easgd", "esync",   "power_sgd"};
// The schemes with a property, as their table says.
Words schemes_that(bool SchemeInfo::*property) {
  Words words;
  for (const SchemeInfo& info : scheme_table())
    if (info.*property) words.push_back(info.keyword);
  return words;
}

template <typename Table>
Words keywords(const Table& table) {
  Words words;
  for (const auto& entry : table) words.push_back(entry.first);
  return words;
}

Words collective_keywords() {
  Words words;
  for (const CollectiveInfo& info : collective_table())
    words.push_back(info.keyword);
  return words;
}

Words scheme_keywords() {
  Words words;
  for (const SchemeInfo& info : scheme_table()) words.push_back(info.keyword);
  return words;
}

bool is_epsilon(const std::string& text) {
  return text == "auto" || parse_double(text).value_or(-1) >= 0;
}

// Of the networks that have BatchNorm.
const UsedWhen kHasBatchNorm = {"model.family", {"resnet", "wrn", "deepfm"}};

}  // namespace

std::vector<Key> sync_keys() {
  return {
      {.name = "sync.scheme",
       .target = at<kSync, &SyncOptions::scheme>,
       .doc = "The rule that keeps workers in step.",
       .choices = scheme_keywords()},
      {.name = "sync.transport",
       .target = at<kSync, &SyncOptions::transport>,
       .doc = "What carries sums between GPUs of different ranks: NCCL, "
              "or MPI through host memory; auto: NCCL where every rank has "
              "its own GPU, the library is there and the scheme can use it.",
       .choices = {"auto", "mpi", "nccl"},
       .used_when = used_by(schemes_that(&SchemeInfo::uses_collectives))},
      {.name = "sync.collective",
       .target = at<kSync, &SyncOptions::collective>,
       .doc = "Algorithm of the all-reduce through host memory; native: the "
              "MPI library's own.",
       .choices = collective_keywords(),
       .used_when = used_by(kReducing)},
      {.name = "sync.wire",
       .target = at<kSync, &SyncOptions::wire>,
       .doc = "Number format of what travels uncompressed; sums are formed in "
              "fp32 (NCCL rounds them to bf16 on their way).",
       .choices = {"fp32", "bf16"},
       .used_when = used_by(
           {"bsp", "esync", "power_sgd", "d_psgd", "sgp", "asp", "ssp"})},
      {.name = "sync.bucket_mb",
       .target = at<kSync, &SyncOptions::bucket_mb>,
       .doc = "Megabytes of gradients or parameters that travel together; "
              "auto: an eighth of all, 0.064 to 4, by NCCL 32.",
       .low = 0.001,
       .high = 65536,
       .zero_word = "auto",
       .used_when = used_by(kReducing)},
      {.name = "sync.tables",
       .target = at<kSync, &SyncOptions::tables>,
       .doc = "What travels of the gradients of tables of embeddings: the "
              "rows that some worker touched, or whole tables (always, "
              "between GPUs by NCCL).",
       .choices = {"rows", "dense"},
       .used_when = {used_by({"bsp"})[0],
                     {"model.family", {"bert", "deepfm"}}}},
      {.name = "bsp.batchnorm",
       .target = at2<&SyncOptions::bsp, &BspOptions::batchnorm>,
       .doc = "Running statistics of BatchNorm: each worker's own, or "
              "averaged.",
       .choices = {"local", "averaged"},
       .used_when = with(used_by({"bsp"}), kHasBatchNorm)},
      {.name = "bsp.clip",
       .target = at2<&SyncOptions::bsp, &BspOptions::clip>,
       .doc = "What optimizer.clip_norm bounds: the mean gradient, or each "
              "worker's before the reduction.",
       .choices = {"reduced", "local"},
       .used_when = with(used_by({"bsp"}), {"optimizer.clip_norm", {}})},
  };
}

std::vector<Key> ds_sync_keys() {
  const auto ds_sync = used_by({"ds_sync"});
  return {
      {.name = "ds_sync.radices",
       .target = at2<&SyncOptions::ds_sync, &DsSyncOptions::radices>,
       .doc = "Digits of a rank, one a phase, whose product is the number of "
              "workers: group sizes. auto: k, k for k * k workers, else prime "
              "factors.",
       .low = 2,
       .zero_word = "auto",
       .used_when = ds_sync},
      {.name = "ds_sync.group",
       .target = at2<&SyncOptions::ds_sync, &DsSyncOptions::group>,
       .doc = "Workers of a group where shifted groups are wanted instead of "
              "digits; 0: digits.",
       .low = 0,
       .used_when = ds_sync},
      {.name = "ds_sync.place",
       .target = at2<&SyncOptions::ds_sync, &DsSyncOptions::place>,
       .doc = "Where parameters are averaged: before forward (as published "
              "for images), or after the update (for text and clicks).",
       .choices = {"before_forward", "after_update"},
       .used_when = ds_sync},
      {.name = "ds_sync.batchnorm",
       .target = at2<&SyncOptions::ds_sync, &DsSyncOptions::batchnorm>,
       .doc = "Running statistics of BatchNorm: averaged with the parameters, "
              "or each worker's own.",
       .choices = {"averaged", "local"},
       .used_when = with(ds_sync, kHasBatchNorm)},
      {.name = "ds_sync.restart",
       .target = at2<&SyncOptions::ds_sync, &DsSyncOptions::restart>,
       .doc = "When phases begin again: at each epoch, or never.",
       .choices = {"epoch", "never"},
       .used_when = ds_sync},
      {.name = "ds_sync.final_average",
       .target = at2<&SyncOptions::ds_sync, &DsSyncOptions::final_average>,
       .doc = "Whether all replicas are averaged at the end of the run.",
       .used_when = ds_sync},
  };
}

std::vector<Key> local_keys() {
  const auto local_sgd = used_by({"local_sgd"});
  const auto with_momentum = with(local_sgd, {"local_sgd.outer", {"momentum"}});
  return {
      {.name = "local_sgd.steps",
       .target = at2<&SyncOptions::local_sgd, &LocalSgdOptions::steps>,
       .doc = "Local steps between two averages.",
       .low = 1,
       .used_when = local_sgd},
      {.name = "local_sgd.outer",
       .target = at2<&SyncOptions::local_sgd, &LocalSgdOptions::outer>,
       .doc = "What is done with the workers' models: their average, or a "
              "step of an outer optimizer along it.",
       .choices = {"average", "momentum"},
       .used_when = local_sgd},
      {.name = "local_sgd.outer_lr",
       .target = at2<&SyncOptions::local_sgd, &LocalSgdOptions::outer_lr>,
       .doc = "Rate of the outer step.",
       .low = 0,
       .is_low_open = true,
       .used_when = with_momentum},
      {.name = "local_sgd.outer_momentum",
       .target = at2<&SyncOptions::local_sgd, &LocalSgdOptions::outer_momentum>,
       .doc = "Momentum of the outer step.",
       .low = 0,
       .high = 1,
       .is_high_open = true,
       .used_when = with_momentum},
      {.name = "local_sgd.outer_nesterov",
       .target = at2<&SyncOptions::local_sgd, &LocalSgdOptions::outer_nesterov>,
       .doc = "Nesterov's form of the outer momentum.",
       .used_when = with_momentum},
      {.name = "local_sgd.start",
       .target = at2<&SyncOptions::local_sgd, &LocalSgdOptions::start>,
       .doc = "Before this, gradients are averaged every step (post-local "
              "SGD).",
       .low = 0,
       .used_when = local_sgd},
      {.name = "local_sgd.batchnorm",
       .target = at2<&SyncOptions::local_sgd, &LocalSgdOptions::batchnorm>,
       .doc = "Running statistics of BatchNorm: averaged with the parameters, "
              "or each worker's own.",
       .choices = {"averaged", "local"},
       .used_when = with(local_sgd, kHasBatchNorm)},
      {.name = "easgd.steps",
       .target = at2<&SyncOptions::easgd, &EasgdOptions::steps>,
       .doc = "Local steps between two exchanges with the centre.",
       .low = 1,
       .used_when = used_by({"easgd"})},
      {.name = "easgd.beta",
       .target = at2<&SyncOptions::easgd, &EasgdOptions::beta>,
       .doc = "How far the centre goes to the mean of the workers.",
       .low = 0,
       .high = 1,
       .is_low_open = true,
       .used_when = used_by({"easgd"})},
      {.name = "power_sgd.rank",
       .target = at2<&SyncOptions::power_sgd, &PowerSgdOptions::rank>,
       .doc = "Rank of a compressed gradient matrix.",
       .low = 1,
       .high = 1024,
       .used_when = used_by({"power_sgd"})},
      {.name = "power_sgd.warm_start",
       .target = at2<&SyncOptions::power_sgd, &PowerSgdOptions::warm_start>,
       .doc = "Whether a step begins from the factor of the step before.",
       .used_when = used_by({"power_sgd"})},
  };
}

std::vector<Key> server_keys() {
  const auto server = used_by({"asp", "ssp"});
  return {
      {.name = "asp.servers",
       .target = at2<&SyncOptions::asp, &AspOptions::servers>,
       .doc = "Shards of the parameter server, on the first workers; auto: "
              "one on each.",
       .low = 1,
       .high = 65536,
       .zero_word = "auto",
       .used_when = server},
      {.name = "asp.compensation",
       .target = at2<&SyncOptions::asp, &AspOptions::compensation>,
       .doc = "Delay compensation (DC-ASGD) against the parameters that the "
              "worker had, or those before the last update.",
       .choices = {"none", "per_worker", "per_key"},
       .used_when = server},
      {.name = "asp.lambda",
       .target = at2<&SyncOptions::asp, &AspOptions::lambda>,
       .doc = "Factor of the compensation.",
       .low = 0,
       .used_when =
           with(server, {"asp.compensation", {"per_worker", "per_key"}})},
      {.name = "asp.batchnorm",
       .target = at2<&SyncOptions::asp, &AspOptions::batchnorm>,
       .doc = "Running statistics of BatchNorm: each worker's own, or "
              "variables of the server, which adds the workers' changes (as "
              "in TensorFlow's parameter servers).",
       .choices = {"local", "shared"},
       // Whatever phases sync_switch has: its inputs differ in their order.
       .used_when =
           with(used_by({"asp", "ssp", "sync_switch"}), kHasBatchNorm)},
      {.name = "asp.record",
       .target = at2<&SyncOptions::asp, &AspOptions::record>,
       .doc = "Whether the order of arrivals is written to order.h5 of the "
              "run's folder.",
       .used_when = server},
      {.name = "asp.replay",
       .target = at2<&SyncOptions::asp, &AspOptions::replay>,
       .doc = "An order.h5 whose order of arrivals is kept; none: as they "
              "come.",
       .zero_word = "none",
       .used_when = server},
      {.name = "ssp.bound",
       .target = at2<&SyncOptions::ssp, &SspOptions::bound>,
       .doc = "Steps that a worker may be ahead of the slowest.",
       .low = 0,
       .used_when = used_by({"ssp"})},
  };
}

std::vector<Key> esync_keys() {
  const auto esync = used_by({"esync"});
  return {
      {.name = "esync.global_lr",
       .target = at2<&SyncOptions::esync, &EsyncOptions::global_lr>,
       .doc = "Rate of the mean of the workers' differences.",
       .low = 0,
       .is_low_open = true,
       .used_when = esync},
      {.name = "esync.epsilon_s",
       .target = at2<&SyncOptions::esync, &EsyncOptions::epsilon_s>,
       .doc = "Seconds that a worker stops early, so that it is not late "
              "(published: 0.5).",
       .low = 0,
       .used_when = esync},
      {.name = "esync.epsilon_steps",
       .target = at2<&SyncOptions::esync, &EsyncOptions::epsilon_steps>,
       .doc = "The same in steps of the worker itself; both are added. auto: "
              "0 in virtual time, where step times are exact, and 0.1 under "
              "MPI, where they vary.",
       .form = {"auto or a number >= 0", is_epsilon},
       .used_when = esync},
      {.name = "esync.query",
       .target = at2<&SyncOptions::esync, &EsyncOptions::query>,
       .doc = "Whether a worker waits for the state server's answer, or goes "
              "on and abandons the step under way.",
       .choices = {"blocking", "non_blocking"},
       .used_when = esync},
      {.name = "esync.batchnorm",
       .target = at2<&SyncOptions::esync, &EsyncOptions::batchnorm>,
       .doc = "Running statistics of BatchNorm: averaged at the end of a "
              "round, or each worker's own.",
       .choices = {"averaged", "local"},
       .used_when = with(esync, kHasBatchNorm)},
  };
}

std::vector<Key> gossip_keys() {
  const auto dgc = used_by({"dgc"});
  const auto sparse_dgc = with(dgc, {"compress.kind", {"top_k", "random_k"}});
  return {
      {.name = "choco.gamma",
       .target = at2<&SyncOptions::choco, &ChocoOptions::gamma>,
       .doc = "Consensus step size (choco and deep_squeeze).",
       .low = 0,
       .high = 1,
       .is_low_open = true,
       .used_when = used_by({"choco", "deep_squeeze"})},
      {.name = "dgc.warmup_ratios",
       .target = at2<&SyncOptions::dgc, &DgcOptions::warmup_ratios>,
       .doc = "compress.ratio at first, one after the other.",
       .low = 0,
       .high = 1,
       .is_high_open = true,
       .zero_word = "none",
       .used_when = sparse_dgc},
      {.name = "dgc.warmup",
       .target = at2<&SyncOptions::dgc, &DgcOptions::warmup>,
       .doc = "Length in which all of dgc.warmup_ratios are gone through, "
              "each for as long as the others; 0: an epoch each.",
       .low = 0,
       .used_when = with(sparse_dgc, {"dgc.warmup_ratios", {}})},
      {.name = "dgc.mask_momentum",
       .target = at2<&SyncOptions::dgc, &DgcOptions::mask_momentum>,
       .doc = "Whether the momentum of sent elements is set to zero.",
       .used_when = sparse_dgc},
      {.name = "dgc.clip",
       .target = at2<&SyncOptions::dgc, &DgcOptions::clip>,
       .doc = "Largest norm of each tensor of a worker's gradient with its "
              "weight decay, times sqrt(workers); 0: no clipping.",
       .low = 0,
       .used_when = dgc},
  };
}

std::vector<Key> message_keys() {
  const auto compressing = used_by(schemes_that(&SchemeInfo::uses_compressor));
  const auto sparse =
      with(compressing, {"compress.kind", {"top_k", "random_k"}});
  const auto qsgd = with(compressing, {"compress.kind", {"qsgd"}});
  const auto hierarchical =
      with(used_by(schemes_that(&SchemeInfo::uses_topology)),
           {"topology.kind", {"hierarchical"}});
  constexpr auto kCompress = &SyncOptions::compress;
  constexpr auto kTopology = &SyncOptions::topology;
  return {
      {.name = "compress.kind",
       .target = at2<kCompress, &CompressOptions::kind>,
       .doc = "The compressor.",
       .choices = keywords(compressor_table()),
       .used_when = compressing},
      {.name = "compress.ratio",
       .target = at2<kCompress, &CompressOptions::ratio>,
       .doc = "Share of each tensor's elements that is dropped.",
       .low = 0,
       .high = 1,
       .is_high_open = true,
       .used_when = sparse},
      {.name = "compress.bits",
       .target = at2<kCompress, &CompressOptions::bits>,
       .doc = "Bits of a quantised value beside its sign: 2^bits - 1 levels.",
       .low = 1,
       .high = 16,
       .used_when = qsgd},
      {.name = "compress.levels",
       .target = at2<kCompress, &CompressOptions::levels>,
       .doc = "Levels, instead of bits; 0: by bits.",
       .low = 0,
       .high = 65535,
       .used_when = qsgd},
      {.name = "compress.biased",
       .target = at2<kCompress, &CompressOptions::biased>,
       .doc = "Whether qsgd is scaled down, and random_k not scaled up, so "
              "that they are contractions.",
       .used_when = with(compressing, {"compress.kind", {"random_k", "qsgd"}})},
      {.name = "topology.kind",
       .target = at2<kTopology, &TopologyOptions::kind>,
       .doc = "Who exchanges with whom.",
       .choices = keywords(topology_table()),
       .used_when = used_by(schemes_that(&SchemeInfo::uses_topology))},
      {.name = "topology.group",
       .target = at2<kTopology, &TopologyOptions::group>,
       .doc = "Workers of a group, which average exactly.",
       .low = 1,
       .used_when = hierarchical},
      {.name = "topology.between",
       .target = at2<kTopology, &TopologyOptions::between>,
       .doc = "Topology of the groups.",
       .choices = keywords(topology_table()),
       .used_when = hierarchical},
  };
}

}  // namespace syncopate
