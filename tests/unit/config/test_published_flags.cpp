// The tables "published flag -> key" of inputs/README.md, and the comment lines
// "# try: --section.key=value ..." of the published inputs.
#include <map>
#include <set>

#include <gtest/gtest.h>

#include "base/text.h"
#include "config/keys.h"
#include "config/value.h"
#include "input_files.h"

namespace syncopate {
namespace {

// Every flag of the four READMEs and of the programs that they start.
const std::map<std::string, std::string>& published_flags() {
  static const std::map<std::string, std::string> flags = {
      {"DS-Sync",
       "--epochs --start-epoch -b --batch-size --lr --momentum --weight-decay "
       "--wd --print-freq --resume -e --evaluate -ct --cifar-type --local_rank "
       "--world_size --sync "
       "--model --dataset --train_split --log_interval --data_path "
       "--num_epochs --data_scale --learning_rate --weight_decay --batch_size "
       "--base_batch_size --num_workers "
       "--dropout --mlp_dims --embed_dim "
       "--per_gpu_train_batch_size --per_gpu_eval_batch_size "
       "--gradient_accumulation_steps --adam_epsilon --max_grad_norm "
       "--num_train_epochs --max_steps --warmup_steps --max_seq_length "
       "--doc_stride --max_query_length --n_best_size --max_answer_length "
       "--logging_steps --save_steps --seed --fp16 --threads "
       "--nproc_per_node --nnodes --node_rank --master_addr --master_port "
       "MASTER_ADDR MASTER_PORT NCCL_DEBUG NCCL_SOCKET_IFNAME NCCL_IB_DISABLE "
       "CUDA_VISIBLE_DEVICES"},
      {"Sync-Switch",
       "--job-name --num-ps --num-worker --bucket-dir --model --hparam-set "
       "--problem --data-dir --train-steps --ckpt-frequency --cluster-name "
       "--eval-name --switch-order --hparams"},
      {"CHOCO-SGD",
       "--data --data_dir --use_lmdb_data --partition_data --pin_memory -j "
       "--num_workers -a --arch --wideresnet_widen_factor --drop_rate "
       "--densenet_growth_rate --densenet_bc_mode --densenet_compression "
       "--rnn_n_hidden --rnn_n_layers --rnn_bptt_len --rnn_clip "
       "--rnn_use_pretrained_emb --rnn_tie_weights --rnn_weight_norm "
       "--train_fast --stop_criteria --num_epochs --num_iterations --avg_model "
       "--reshuffle_per_epoch -b --batch_size --base_batch_size "
       "--lr --lr_schedule_scheme --lr_change_epochs --lr_fields "
       "--lr_scale_indicators --lr_scaleup --lr_scaleup_type "
       "--lr_scaleup_factor --lr_warmup --lr_warmup_epochs --lr_decay "
       "--lr_onecycle_low --lr_onecycle_high --lr_onecycle_extra_low "
       "--lr_onecycle_num_epoch --lr_gamma --lr_mu --lr_alpha "
       "--optimizer --momentum_factor --use_nesterov --weight_decay "
       "--adam_beta_1 --adam_beta_2 --adam_eps "
       "--graph_topology --comm_op --compress_ratio --compress_warmup_values "
       "--compress_warmup_epochs --quantize_level --is_biased --majority_vote "
       "--consensus_stepsize --choco_consenus_stepsize --evaluate_consensus "
       "--mask_momentum --clip_grad --clip_grad_val --local_step "
       "--turn_on_local_step_from --local_adam_memory_treatment --comm_algo "
       "--manual_seed -e --evaluate --eval_freq --summary_freq --track_time "
       "--track_detailed_time --display_tracked_time --evaluate_avg --resume "
       "-c --checkpoint --checkpoint_index --save_all_models "
       "--save_some_models --user --project --experiment "
       "--backend --use_ipc --hostfile --mpi_path --mpi_env --python_path "
       "--n_mpi_process --n_sub_process --world --on_cuda --comm_device "
       "--local_rank --work_dir --remote_exec --clean_python"},
      {"ESync",
       "-l --learning-rate -ll --local-lr -gl --global-lr -b --batch-size -dd "
       "--data-dir -g --gpu -c --cpu -n --network -ld --log-dir -e "
       "--eval-duration -m --mode -dcasgd --use-dcasgd -s --split-by-class -ip "
       "-port -dt --data-type -f --factor "
       "DMLC_ROLE DMLC_PS_ROOT_URI DMLC_PS_ROOT_PORT DMLC_NUM_SERVER "
       "DMLC_NUM_WORKER"},
  };
  return flags;
}

std::set<std::string> words(const std::string& text) {
  std::set<std::string> all;
  for (const std::string& word : split(text, ' '))
    if (!word.empty()) all.insert(word);
  return all;
}

// The texts between backquotes.
Lines quoted(const std::string& cell) {
  Lines all;
  const Lines parts = split(cell, '`');
  for (size_t i = 1; i < parts.size(); i += 2) all.push_back(parts[i]);
  return all;
}

struct Row {
  std::string flags, keys;  // the cells
};

// The rows of the table under "### SYSTEM".
std::vector<Row> flag_table(const std::string& system) {
  const std::string readme =
      read_file(source_dir() / "inputs" / "README.md", 1 << 20);
  std::vector<Row> rows;
  bool is_here = false;
  for (const std::string& line : split(readme, '\n')) {
    if (line.starts_with("#")) is_here = line == "### " + system;
    if (!is_here || !line.starts_with("| `")) continue;
    const Lines cells = split(line, '|');
    EXPECT_EQ(cells.size(), 4u) << line;
    rows.push_back({cells.at(1), std::string(trim(cells.at(2)))});
  }
  return rows;
}

// "section.key" or "section.key = value"; `key` is null for other texts.
struct Assignment {
  const Key* key = nullptr;
  std::string name, value;
};

Assignment assignment(const std::string& text) {
  Assignment result;
  const size_t equals = text.find('=');
  result.name = trim(std::string_view(text).substr(0, equals));
  if (equals != std::string::npos)
    result.value = trim(std::string_view(text).substr(equals + 1));
  result.key = find_key(result.name);
  return result;
}

class PublishedFlags : public testing::TestWithParam<std::string> {};

TEST_P(PublishedFlags, EachHasARowAndNoOtherHas) {
  std::set<std::string> listed;
  for (const Row& row : flag_table(GetParam())) {
    EXPECT_FALSE(quoted(row.flags).empty()) << row.flags;
    for (const std::string& text : quoted(row.flags))
      listed.insert(text.substr(0, text.find(' ')));
  }
  EXPECT_EQ(listed, words(published_flags().at(GetParam())));
}

TEST_P(PublishedFlags, LeadToKeysThatAcceptTheValue) {
  for (const Row& row : flag_table(GetParam())) {
    SCOPED_TRACE(row.flags);
    bool has_answer = row.keys.starts_with("not needed, because ") ||
                      row.keys.starts_with("not yet, because ");
    for (const std::string& text : quoted(row.keys)) {
      if (text.starts_with("syncopate ")) has_answer = true;
      if (text.starts_with("--") || text.starts_with("syncopate ") ||
          text == "results.h5")
        continue;
      const Assignment found = assignment(text);
      ASSERT_NE(found.key, nullptr) << text;
      if (!row.keys.starts_with("not ")) has_answer = true;
      if (found.value.empty()) continue;
      Options options;
      EXPECT_EQ(parse_value(*found.key, found.value, options), std::nullopt)
          << text;
    }
    EXPECT_TRUE(has_answer) << row.keys;
  }
}

std::vector<std::string> systems() {
  std::vector<std::string> names;
  for (const auto& entry : published_flags()) names.push_back(entry.first);
  return names;
}

INSTANTIATE_TEST_SUITE_P(All,
                         PublishedFlags,
                         testing::ValuesIn(systems()),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::erase(name, '-');
                           return name;
                         });

// --- inputs ------------------------------------------------------------------

// The overrides of each "# try:" line.
std::vector<Lines> variants(const fs::path& input) {
  std::vector<Lines> all;
  const std::string mark = "# try: ";
  for (const std::string& line : split(read_file(input, 1 << 20), '\n')) {
    if (!line.starts_with(mark)) continue;
    Lines overrides;
    for (const std::string& word : split(line.substr(mark.size()), ' '))
      if (!word.empty()) overrides.push_back(word);
    all.push_back(overrides);
  }
  return all;
}

fs::path published(const std::string& name) {
  return source_dir() / "inputs" / (name + ".ini");
}

std::string value_of(const ParsedInput& input, const std::string& name) {
  const auto found = input.resolved.find(name);
  return found == input.resolved.end() ? "not used" : found->second;
}

TEST(PublishedInputs, TheirVariantsAreInOrderAndDiffer) {
  int num_variants = 0;
  for (const auto& entry : fs::directory_iterator(source_dir() / "inputs")) {
    if (entry.path().extension() != ".ini") continue;
    const ParsedInput base = parse_input(entry.path().string(), {});
    std::set<std::map<std::string, std::string>> seen = {base.resolved};
    for (const Lines& overrides : variants(entry.path())) {
      SCOPED_TRACE(entry.path().string() + " " + join(overrides, " "));
      ++num_variants;
      const ParsedInput input = parse_input(entry.path().string(), overrides);
      EXPECT_EQ(input.errors, Lines{});
      EXPECT_TRUE(seen.insert(input.resolved).second) << "the same as another";
    }
  }
  EXPECT_GE(num_variants, 50);
}

// Published values that a file leaves to the defaults.
TEST(PublishedInputs, RestOnDefaultsThatArePublished) {
  const auto expect = [](const std::string& input, const Lines& overrides,
                         const std::map<std::string, std::string>& values) {
    const ParsedInput parsed = parse_input(published(input), overrides);
    EXPECT_EQ(parsed.errors, Lines{}) << input;
    for (const auto& [name, value] : values)
      EXPECT_EQ(value_of(parsed, name), value) << input << " " << name;
  };
  expect("ds_sync_cifar10_wrn26_10", {},
         {{"ds_sync.place", "before_forward"},
          {"ds_sync.batchnorm", "averaged"},
          {"ds_sync.restart", "epoch"},
          {"ds_sync.final_average", "no"},
          {"ds_sync.radices", "auto"},
          {"optimizer.decay_batchnorm", "yes"}});
  expect("choco_cifar10_resnet20", {},
         {{"choco.gamma", "0.5"},
          {"compress.kind", "sign"},
          {"topology.kind", "ring"}});
  expect("choco_imagenet_resnet50", {},
         {{"choco.gamma", "0.5"},
          {"compress.kind", "sign"},
          {"topology.kind", "ring"}});
  // Tensor2Tensor decays gamma and beta, and no bias.
  for (const char* name :
       {"sync_switch_cifar10_resnet32", "sync_switch_cifar100_resnet50"})
    expect(name, {},
           {{"model.variant", "t2t"},
            {"model.init", "t2t"},
            {"model.stages", "auto"},
            {"model.version", "not used"},
            {"optimizer.decay_batchnorm", "yes"},
            {"optimizer.decay_bias", "no"}});
  expect("ds_sync_imagenet_wrn50_2", {},
         {{"data.eval_resize", "256"},
          {"schedule.milestones", "30 epochs, 60 epochs"}});
  for (const char* name :
       {"ds_sync_criteo_deepfm", "ds_sync_criteo_deepfm_bsp"})
    expect(name, {}, {{"model.first_order_init", "normal"}});
  expect("esync_fashion_resnet18", {},
         {{"esync.global_lr", "1"},
          {"model.variant", "gluon"},
          {"model.init", "xavier"},
          {"esync.batchnorm", "averaged"},
          {"esync.query", "blocking"},
          {"esync.epsilon_s", "0.5"},
          {"esync.epsilon_steps", "0"}});
  for (const char* input :
       {"sync_switch_cifar10_resnet32", "sync_switch_cifar100_resnet50"})
    expect(input, {}, {{"asp.batchnorm", "shared"}});
}

// Published gradients are sums of a mini-batch, ours are means: with G = B g,
// lr (G + 0.04 G G d) = B lr (g + 0.04 B g g d).
TEST(PublishedInputs, EsyncCompensatesMeanGradients) {
  int num_compensated = 0;
  for (const Lines& overrides :
       variants(published("esync_fashion_resnet18_modes"))) {
    const Options options =
        parse_input(published("esync_fashion_resnet18_modes"), overrides)
            .options;
    if (options.sync.scheme == "asp") {
      EXPECT_EQ(options.eval.model, EvalChoice::kRank0) << join(overrides, " ");
    }
    if (options.sync.asp.compensation == Compensation::kNone) continue;
    ++num_compensated;
    EXPECT_DOUBLE_EQ(options.sync.asp.lambda,
                     0.04 * static_cast<double>(options.data.batch));
    EXPECT_DOUBLE_EQ(options.optimizer.lr,
                     0.0005 * static_cast<double>(options.data.batch));
  }
  EXPECT_EQ(num_compensated, 2);
}

// Sync-Switch's steps: phases end at B = p S / n and S - (n - 1) B.
TEST(PublishedInputs, SyncSwitchCountsWorkAsPublished) {
  for (const char* name :
       {"sync_switch_cifar10_resnet32", "sync_switch_cifar100_resnet50"}) {
    std::vector<Lines> all = variants(published(name));
    all.emplace_back();
    for (const Lines& overrides : all) {
      SCOPED_TRACE(std::string(name) + " " + join(overrides, " "));
      const Options options = parse_input(published(name), overrides).options;
      if (options.sync.sync_switch.plateau != Plateau::kNone) continue;
      const auto& steps = options.sync.sync_switch.train_steps;
      const auto n = static_cast<double>(options.run.workers);
      const double work = n * static_cast<double>(options.run.steps);
      const std::vector<std::string> phases =
          phase_schemes(options.sync.sync_switch);
      ASSERT_EQ(steps.size(), phases.size());
      EXPECT_EQ(options.schedule.milestones.at(0).value * n, work / 2);
      if (phases.size() == 2)
        EXPECT_EQ(steps[1], work - (n - 1) * steps[0]);
      else
        EXPECT_EQ(steps[0] * (phases[0] == "bsp" ? n : 1), work);
    }
  }
}

// Every mode with every network and split.
TEST(PublishedInputs, EsyncModesNetworksAndSplitsGoTogether) {
  const std::vector<Lines> modes = {
      {},
      {"--bsp.batchnorm=averaged"},
      {"--sync.scheme=asp"},
      {"--sync.scheme=asp", "--asp.compensation=per_key"},
      {"--run.workers=1", "--stragglers.factor=1"}};
  const std::vector<Lines> networks = {
      {}, {"--model.depth=50"}, {"--model.depth=50", "--model.version=2"}};
  for (const Lines& mode : modes)
    for (const Lines& network : networks)
      for (const Lines& split_by :
           {Lines{}, Lines{"--data.partition=sorted"}}) {
        Lines all = mode;
        all.insert(all.end(), network.begin(), network.end());
        all.insert(all.end(), split_by.begin(), split_by.end());
        const ParsedInput input =
            parse_input(published("esync_fashion_resnet18_modes"), all);
        EXPECT_EQ(input.errors, Lines{}) << join(all, " ");
        EXPECT_EQ(input.options.optimizer.lr, 0.0005 * 64);
      }
}

}  // namespace
}  // namespace syncopate
