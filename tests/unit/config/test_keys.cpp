// The table of keys against the option structs, the documentation and the
// inputs that come with the project.
#include <algorithm>
#include <map>
#include <set>

#include <gtest/gtest.h>

#include "config/keys.h"
#include "config/value.h"
#include "data/kinds.h"
#include "input_files.h"

namespace syncopate {
namespace {

void add(std::set<const void*>& places, const auto&... member) {
  (places.insert(&member), ...);
}

// Every member of every option struct. A new member breaks the compilation
// here, and then the test until the table has it.
std::set<const void*> all_members(const Options& options) {
  std::set<const void*> places;
  const auto collect = [&](const auto&... member) { add(places, member...); };
  {
    const auto& [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u,
                 v, w] = options.run;
    collect(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, v,
            w);
  }
  {
    const auto& [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u,
                 v, w, x, y, z, aa] = options.model;
    collect(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, v, w,
            x, y, z, aa);
  }
  {
    const auto& [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u,
                 v, w, x, y, z, aa, bb, cc, dd, ee, ff, trained] = options.data;
    collect(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, v, w,
            x, y, z, aa, bb, cc, dd, ee, ff);
  }
  {
    const auto& [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o] =
        options.optimizer;
    collect(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o);
  }
  {
    const auto& [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o] =
        options.schedule;
    collect(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o);
  }
  const auto& [scheme, transport, collective, wire, bucket_mb, tables, bsp,
               ds_sync, asp, ssp, local_sgd, easgd, sync_switch, choco, dgc,
               power_sgd, esync, compress, topology] = options.sync;
  collect(scheme, transport, collective, wire, bucket_mb, tables, choco.gamma,
          ssp.bound, easgd.steps, easgd.beta);
  {
    const auto& [a, b] = bsp;
    collect(a, b);
  }
  {
    const auto& [a, b, c, d, e, f] = ds_sync;
    collect(a, b, c, d, e, f);
  }
  {
    const auto& [a, b, c, d, e, f, g] = asp;
    collect(a, b, c, d, e, f, g);
  }
  {
    const auto& [a, b, c, d, e, f, g] = local_sgd;
    collect(a, b, c, d, e, f, g);
  }
  {
    const auto& [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o] = sync_switch;
    collect(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o);
  }
  {
    const auto& [a, b, c, d] = dgc;
    collect(a, b, c, d);
  }
  {
    const auto& [a, b] = power_sgd;
    collect(a, b);
  }
  {
    const auto& [a, b, c, d, e] = esync;
    collect(a, b, c, d, e);
  }
  {
    const auto& [a, b, c, d, e] = compress;
    collect(a, b, c, d, e);
  }
  {
    const auto& [a, b, c] = topology;
    collect(a, b, c);
  }
  {
    const auto& [a, b, c, d, e, f, g, h, i] = options.stragglers;
    collect(a, b, c, d, e, f, g, h, i);
  }
  {
    const auto& [a, b, c, d, e, f, g, h, i, j] = options.eval;
    collect(a, b, c, d, e, f, g, h, i, j);
  }
  {
    const auto& [a, b, c, d] = options.checkpoint;
    collect(a, b, c, d);
  }
  {
    const auto& [a, b, c] = options.output;
    collect(a, b, c);
  }
  {
    const auto& [a, b, c, d] = options.faults;
    collect(a, b, c, d);
  }
  const auto& [step_s, update_s, speed, law, spread, trace] = options.compute;
  const auto& [latency_us, mbit_s, efficiency, message_us, device_mbit_s, group,
               group_latency_us, group_mbit_s, uplink_mbit_s, servers,
               server_mbit_s, ties_seed] = options.network;
  collect(step_s, update_s, speed, law, spread, trace, latency_us, mbit_s,
          efficiency, message_us, device_mbit_s, group, group_latency_us,
          group_mbit_s, uplink_mbit_s, servers, server_mbit_s, ties_seed);
  return places;
}

TEST(Keys, EveryOptionHasExactlyOneKey) {
  Options options;
  std::set<const void*> places;
  std::set<std::string> names;
  for (const Key& key : key_table()) {
    const void* place = std::visit([](auto* p) { return (const void*)p; },
                                   key.place.in(options));
    EXPECT_TRUE(places.insert(place).second) << key.name;
    EXPECT_TRUE(names.insert(key.name).second) << key.name;
  }
  EXPECT_EQ(places, all_members(options));
}

TEST(Keys, AreDocumentedAndTheirRulesNameKeysAndValues) {
  for (const Key& key : key_table()) {
    EXPECT_TRUE(key.doc.ends_with(".")) << key.name;
    for (const UsedWhen& rule : key.used_when) {
      const Key* other = find_key(rule.key);
      ASSERT_NE(other, nullptr) << key.name;
      for (const std::string& value : rule.values)
        EXPECT_TRUE(value == other->zero_word ||
                    std::count(other->choices.begin(), other->choices.end(),
                               value) == 1)
            << key.name << " " << value;
    }
  }
}

TEST(Keys, DefaultsAreAcceptedAndCanonical) {
  const Options defaults;
  for (const Key& key : key_table()) {
    const std::string text = format_value(key, defaults);
    if (key.name == "data.path" || key.name == "data.vocabulary")
      continue;  // must be given
    Options options;
    EXPECT_EQ(parse_value(key, text, options), std::nullopt) << key.name;
    EXPECT_EQ(format_value(key, options), text) << key.name;
  }
}

// A value other than the default, in canonical form.
const std::map<std::string, std::string>& other_values() {
  static const std::map<std::string, std::string> values = {
      {"run.name", "other"},
      {"run.directory", "elsewhere"},
      {"run.seed", "77"},
      {"run.epochs", "3.5"},
      {"run.steps", "123"},
      {"run.virtual_limit_s", "12.5"},
      {"run.stop_at", "2.5 epochs"},
      {"run.target", "accuracy >= 0.9"},
      {"run.workers", "3"},
      {"run.device", "cpu"},
      {"run.threads", "2"},
      {"run.precision", "bf16"},
      {"run.bf16_weights", "no"},
      {"run.deterministic", "no"},
      {"run.plans", "plans.txt"},
      {"run.cuda_graphs", "no"},
      {"sync.transport", "mpi"},
      {"run.log_every", "1 epoch"},
      {"run.time_limit_s", "90.5"},
      {"run.watchdog", "no"},
      {"run.step_timeout_s", "45"},
      {"run.io_timeout_s", "120"},
      {"run.on_nonfinite", "skip"},
      {"run.audit", "1 epoch"},
      {"model.family", "wrn"},
      {"model.depth", "26"},
      {"model.width", "10"},
      {"model.stem", "imagenet"},
      {"model.block", "basic"},
      {"model.version", "2"},
      {"model.form", "pre"},
      {"model.dropout", "0.3"},
      {"model.label_smoothing", "0.1"},
      {"model.variant", "gluon"},
      {"model.stages", "2 3"},
      {"model.widths", "8 24"},
      {"model.stem_width", "12"},
      {"model.init", "xavier"},
      {"model.first_order_init", "normal"},
      {"data.kind", "cifar10"},
      {"data.path", "/some where"},
      {"data.batch", "32"},
      {"data.accumulate", "2"},
      {"data.partition", "sorted"},
      {"data.validation", "5000"},
      {"data.augment", "crop flip"},
      {"data.crop_pad", "2"},
      {"data.fill", "black"},
      {"data.rotate_degrees", "7.5"},
      {"data.crop_scale_min", "0.25"},
      {"data.eval_resize", "300"},
      {"data.decode_threads", "3"},
      {"data.normalize", "0.5 / 0.25"},
      {"data.prefetch", "5"},
      {"data.samples", "100"},
      {"data.test_samples", "50"},
      {"data.classes", "4"},
      {"data.channels", "1"},
      {"data.height", "16"},
      {"data.width", "24"},
      {"data.noise", "0.25"},
      {"data.synthetic_seed", "11"},
      {"data.vocabulary", "words.txt"},
      {"data.lower_case", "no"},
      {"data.max_length", "256"},
      {"data.stride", "64"},
      {"data.max_question", "32"},
      {"data.bucketing", "none"},
      {"data.context_words", "30"},
      {"data.field_rows", "50"},
      {"checkpoint.best", "loss"},
      {"output.csv", "yes"},
      {"model.layers", "4"},
      {"model.hidden", "252"},
      {"model.heads", "4"},
      {"model.intermediate", "512"},
      {"model.positions", "600"},
      {"model.hidden_dropout", "0.2"},
      {"model.attention_dropout", "0.3"},
      {"model.weights", "bert.safetensors"},
      {"model.recompute", "yes"},
      {"model.embedding", "16"},
      {"model.mlp", "64 32"},
      {"model.mlp_dropout", "0.25"},
      {"eval.n_best", "5"},
      {"eval.max_answer_length", "12"},
      {"optimizer.kind", "adam"},
      {"optimizer.lr", "0.025"},
      {"optimizer.momentum", "0.5"},
      {"optimizer.nesterov", "yes"},
      {"optimizer.beta1", "0.8"},
      {"optimizer.beta2", "0.99"},
      {"optimizer.eps", "1e-06"},
      {"optimizer.embedding", "lazy"},
      {"optimizer.weight_decay", "0.0005"},
      {"optimizer.decay_batchnorm", "no"},
      {"optimizer.decay_bias", "no"},
      {"optimizer.clip_norm", "1"},
      {"optimizer.lr_scale", "sqrt"},
      {"optimizer.lr_factor", "2.5"},
      {"optimizer.base_batch", "64"},
      {"schedule.kind", "inverse_time"},
      {"schedule.horizon", "300 epochs"},
      {"schedule.warmup", "5 epochs"},
      {"schedule.warmup_from", "0.01"},
      {"schedule.warmup_shape", "exponential"},
      {"schedule.milestones", "60 epochs, 120 epochs"},
      {"schedule.gamma", "0.2"},
      {"schedule.power", "2"},
      {"schedule.final_lr", "0.001"},
      {"schedule.low_lr", "0.2"},
      {"schedule.high_lr", "2"},
      {"schedule.cycle", "40 steps"},
      {"schedule.decay_rate", "0.1"},
      {"schedule.fields", "0.1 0.6 0.6 0"},
      {"schedule.shapes", "linear linear"},
      {"data.batch_by_worker", "16 32"},
      {"sync.scheme", "local_sgd"},
      {"sync.collective", "butterfly"},
      {"sync.wire", "bf16"},
      {"sync.bucket_mb", "1"},
      {"sync.tables", "dense"},
      {"bsp.batchnorm", "averaged"},
      {"bsp.clip", "local"},
      {"ds_sync.radices", "2 3"},
      {"ds_sync.group", "3"},
      {"ds_sync.place", "after_update"},
      {"ds_sync.batchnorm", "local"},
      {"ds_sync.restart", "never"},
      {"ds_sync.final_average", "yes"},
      {"local_sgd.steps", "4"},
      {"local_sgd.outer", "momentum"},
      {"local_sgd.outer_lr", "0.7"},
      {"local_sgd.outer_momentum", "0.8"},
      {"local_sgd.outer_nesterov", "yes"},
      {"local_sgd.start", "2 epochs"},
      {"local_sgd.batchnorm", "local"},
      {"easgd.steps", "3"},
      {"easgd.beta", "0.5"},
      {"power_sgd.rank", "4"},
      {"power_sgd.warm_start", "no"},
      {"asp.servers", "2"},
      {"asp.compensation", "per_key"},
      {"asp.lambda", "0.1"},
      {"asp.pull", "before_step"},
      {"asp.batchnorm", "shared"},
      {"asp.record", "yes"},
      {"asp.replay", "order.h5"},
      {"ssp.bound", "5"},
      {"esync.global_lr", "0.9"},
      {"esync.epsilon_s", "0.5"},
      {"esync.epsilon_steps", "0.25"},
      {"esync.query", "non_blocking"},
      {"esync.batchnorm", "local"},
      {"sync_switch.order", "choco bsp"},
      {"sync_switch.fractions", "0.5 0.5"},
      {"sync_switch.train_steps", "400 61200"},
      {"sync_switch.overrides", "2:optimizer.lr=0.05"},
      {"sync_switch.lr_rule", "none"},
      {"sync_switch.momentum_rule", "ramp_linear"},
      {"sync_switch.momentum_ramp", "500 steps"},
      {"sync_switch.policy", "elastic"},
      {"sync_switch.window", "16"},
      {"sync_switch.threshold", "2"},
      {"sync_switch.min_slowdown", "0.2"},
      {"sync_switch.consecutive", "3"},
      {"sync_switch.plateau", "eval_metric"},
      {"sync_switch.patience", "3"},
      {"sync_switch.min_change", "0.01"},
      {"choco.gamma", "0.25"},
      {"dgc.warmup_ratios", "0.75 0.9375"},
      {"dgc.warmup", "4 epochs"},
      {"dgc.mask_momentum", "no"},
      {"dgc.clip", "2"},
      {"compress.kind", "qsgd"},
      {"compress.ratio", "0.99"},
      {"compress.bits", "4"},
      {"compress.levels", "16"},
      {"compress.biased", "yes"},
      {"topology.kind", "torus"},
      {"topology.group", "4"},
      {"topology.between", "complete"},
      {"stragglers.factor", "1 4"},
      {"stragglers.delay_ms", "30"},
      {"stragglers.delay_workers", "1 2"},
      {"stragglers.delay_from", "5"},
      {"stragglers.delay_until", "500"},
      {"stragglers.random", "pareto"},
      {"stragglers.random_ms", "25"},
      {"stragglers.random_share", "0.5"},
      {"stragglers.episodes", "1:compute:x4:for=9s 6+7:link:+30ms"},
      {"faults.kind", "flip"},
      {"faults.rank", "2"},
      {"faults.stage", "checkpoint"},
      {"faults.step", "40"},
      {"eval.every", "100 steps"},
      {"eval.model", "rank0"},
      {"eval.on", "validation"},
      {"eval.batch", "100"},
      {"eval.batchnorm", "recomputed"},
      {"eval.recompute_batches", "7"},
      {"eval.ema_decay", "0.9"},
      {"eval.ema_every", "7"},
      {"checkpoint.every", "2 epochs"},
      {"checkpoint.keep", "4"},
      {"checkpoint.resume", "none"},
      {"output.trace", "on"},
      {"output.trace_steps", "3:17"},
      {"compute.step_s", "0.1"},
      {"compute.update_s", "0.01"},
      {"compute.speed", "1 0.5 2"},
      {"compute.law", "gamma"},
      {"compute.spread", "0.2"},
      {"compute.trace", "steps.csv"},
      {"network.latency_us", "5"},
      {"network.mbit_s", "1000"},
      {"network.efficiency", "0.9"},
      {"network.message_us", "2"},
      {"network.device_mbit_s", "500"},
      {"network.group", "2"},
      {"network.group_latency_us", "1"},
      {"network.group_mbit_s", "20000"},
      {"network.uplink_mbit_s", "3000"},
      {"network.servers", "apart"},
      {"network.server_mbit_s", "800"},
      {"network.ties_seed", "7"},
  };
  return values;
}

// Settings under which the key is in use, and those of their own keys.
void add_prerequisites(const Key& key,
                       std::map<std::string, std::string>& settings) {
  for (const UsedWhen& rule : key.used_when) {
    const std::string value =
        rule.values.empty() ? other_values().at(rule.key) : rule.values.front();
    if (settings.emplace(rule.key, value).second)
      add_prerequisites(*find_key(rule.key), settings);
  }
}

TEST(Keys, EachIsReadWhereItIsUsed) {
  for (const Key& key : key_table()) {
    SCOPED_TRACE(key.name);
    ASSERT_TRUE(other_values().contains(key.name));
    const std::string value = other_values().at(key.name);
    std::map<std::string, std::string> settings;
    add_prerequisites(key, settings);
    settings[key.name] = value;
    // Further keys that the conflict rules require.
    settings.emplace("run.steps", "1000");
    if (key.name == "compute.law") settings.emplace("compute.spread", "0.1");
    if (settings.contains("network.group"))
      settings.emplace("run.workers", "2");
    if (key.name == "network.efficiency") settings["network.mbit_s"] = "100";
    if (key.name == "eval.on") settings.emplace("data.validation", "0.5");
    const std::string kind = settings.emplace("data.kind", "idx").first->second;
    if (!is_synthetic(kind)) settings.emplace("data.path", "/data");
    if (kind == "squad") settings.emplace("data.vocabulary", "/vocab.txt");
    if (settings["schedule.kind"] == "multistep")
      settings.emplace("schedule.milestones", "5");
    if (settings["schedule.kind"] == "fields") {
      settings.emplace("schedule.fields", "0.1 0.6 0.6 0");
      settings.emplace("schedule.milestones", "5");
    }
    if (settings["schedule.kind"].empty()) settings.erase("schedule.kind");
    if (settings["sync.scheme"] == "sync_switch")
      settings.emplace("sync_switch.order", "10");
    if (settings["sync.scheme"].empty()) settings.erase("sync.scheme");
    if (key.name.starts_with("stragglers.delay"))
      settings.emplace("stragglers.delay_workers", "0");
    Lines overrides;
    for (const auto& [name, text] : settings)
      overrides.push_back("--" + name + "=" + text);
    const ParsedInput input = parse_text("", overrides);
    EXPECT_EQ(input.errors, Lines{});
    EXPECT_EQ(format_value(key, input.options), value);
    ASSERT_TRUE(input.resolved.contains(key.name));
    EXPECT_EQ(input.resolved.at(key.name), value);
    // A kind with one choice has no other value.
    EXPECT_EQ(format_value(key, Options{}) == value, key.choices.size() == 1);
  }
}

TEST(Keys, InputsOfTheProjectAreInOrder) {
  int num_inputs = 0;
  for (const auto& entry : fs::directory_iterator(source_dir() / "inputs")) {
    if (entry.path().extension() != ".ini") continue;
    ++num_inputs;
    const ParsedInput input = parse_input(entry.path().string(), {});
    EXPECT_EQ(input.errors, Lines{}) << entry.path();
    SampleSpec spec = ImageSpec{3, 32, 32, 10};
    if (input.options.model.family == "bert")
      spec = QuestionSpec{30522, input.options.data.max_length};
    if (input.options.model.family == "deepfm") spec = ClickSpec{{10, 20}};
    EXPECT_NO_THROW(make_model(input.options.model, spec, DType::kF32))
        << entry.path();
    const ParsedInput echoed = parse_text(echo_input(input));
    EXPECT_EQ(echoed.resolved, input.resolved) << entry.path();
  }
  EXPECT_GE(num_inputs, 7);
}

// WRITE_KEYS=1 writes the current tables into the file.
TEST(Keys, ListedInTheReadme) {
  const fs::path path = source_dir() / "inputs" / "README.md";
  std::string readme = read_file(path);
  const std::string begin = "<!-- keys: begin -->\n";
  size_t from = readme.find(begin);
  const size_t to = readme.find("<!-- keys: end -->");
  ASSERT_NE(from, std::string::npos);
  ASSERT_NE(to, std::string::npos);
  from += begin.size();
  const std::string expected = list_keys_markdown() + '\n';
  if (std::getenv("WRITE_KEYS") != nullptr)
    write_file_atomically(path, readme.replace(from, to - from, expected));
  else
    EXPECT_EQ(readme.substr(from, to - from), expected) << "use WRITE_KEYS=1";
}

TEST(Keys, ListedForTheTerminal) {
  const std::string listed = '\n' + list_keys();
  for (const Key& key : key_table())
    EXPECT_NE(listed.find('\n' + key.word() + " = "), std::string::npos);
  size_t begin = 0;
  for (size_t end; (end = listed.find('\n', begin)) != std::string::npos;
       begin = end + 1)
    EXPECT_LE(end - begin, 80u) << listed.substr(begin, end - begin);
}

}  // namespace
}  // namespace syncopate
