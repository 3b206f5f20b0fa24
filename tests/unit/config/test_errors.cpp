// Every kind of mistake, with its exact line.
#include <gtest/gtest.h>

#include "config/keys.h"
#include "data/kinds.h"
#include "input_files.h"
#include "keys/value.h"
#include "models/registry.h"
#include "sync/scheme.h"

namespace syncopate {
namespace {

const std::string kRun = "[run]\nsteps = 10\n";
const std::string kSynthetic = "[data]\nkind = synthetic_images\n";
const std::string kGood = kRun + kSynthetic;  // lines 1 to 4

Lines errors_of(const std::string& text, const Lines& overrides = {}) {
  return parse_text(text, overrides).errors;
}

// The kinds of data that are made, or those that are read, in words.
std::string kinds(bool is_made) {
  return in_words(names_of<DataKind>(
      data_kind_table(), &DataKind::name,
      [&](const DataKind& kind) { return kind.is_made == is_made; }));
}

std::string sections() {
  std::vector<std::string> names;
  for (const Key& key : key_table())
    if (names.empty() || names.back() != key.section())
      names.push_back(key.section());
  return join(names, ", ");
}

TEST(Errors, GoodInputHasNone) {
  EXPECT_EQ(errors_of(kGood), Lines{});
}

TEST(Errors, EverySchemeCanBeGivenByItsNameAlone) {
  for (const SchemeInfo& info : scheme_table()) {
    const ParsedInput input =
        parse_text(kGood, {"--sync.scheme=" + info.keyword});
    EXPECT_EQ(input.errors, Lines{}) << info.keyword;
    for (const SchemeDefault& own : info.defaults)
      EXPECT_EQ(input.resolved.at(own.key), own.value) << info.keyword;
  }
}

TEST(Errors, DefaultsOfASchemeGiveWay) {
  const auto resolved = [](const Lines& overrides) {
    const ParsedInput input = parse_text(kGood, overrides);
    EXPECT_EQ(input.errors, Lines{});
    return input.resolved;
  };
  EXPECT_EQ(resolved({"--sync.scheme=dgc", "--compress.kind=qsgd"})
                .at("compress.kind"),
            "qsgd");
  EXPECT_EQ(resolved({"--sync.scheme=choco"}).at("compress.kind"), "sign");
  for (const char* other : {"--sync_switch.train_steps=10, 30",
                            "--sync_switch.plateau=eval_loss"}) {
    const auto values = resolved({"--sync.scheme=sync_switch", other});
    EXPECT_EQ(values.at("sync_switch.order"), "10");
    EXPECT_EQ(values.at("sync_switch.fractions"), "none") << other;
  }
  EXPECT_EQ(
      resolved({"--sync.scheme=sync_switch", "--sync_switch.fractions=0.5 0.5"})
          .at("sync_switch.fractions"),
      "0.5 0.5");
}

TEST(Errors, MissingFile) {
  try {
    parse_input("/nonexistent/in.ini", {});
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kInputMissing);
  }
}

TEST(Errors, UnknownKeys) {
  EXPECT_EQ(
      errors_of(kGood + "[optimizer]\nmomentun = 0.9\nbatch = 3\n"
                        "batch_size = 4\n[sync]\nxyzzy = 1\n"),
      (Lines{
          "in.ini:6: optimizer.momentun: unknown key (did you mean "
          "optimizer.momentum?)",
          "in.ini:7: optimizer.batch: unknown key (did you mean data.batch or "
          "eval.batch?)",
          "in.ini:8: optimizer.batch_size: unknown key (did you mean "
          "data.batch or eval.batch?)",
          "in.ini:10: sync.xyzzy: unknown key; [sync] has scheme, transport, "
          "collective, wire, bucket_mb, tables",
      }));
}

TEST(Errors, UnknownSectionOnce) {
  EXPECT_EQ(errors_of(kGood + "[optimiser]\nlr = 1\nmomentum = 2\n[gossip]\n"),
            (Lines{
                "in.ini:5: [optimiser]: unknown section (did you mean "
                "[optimizer]?)",
                "in.ini:8: [gossip]: unknown section; there are " + sections(),
            }));
}

TEST(Errors, RepeatedKey) {
  EXPECT_EQ(errors_of(kGood + "[run]\nseed = 1\nseed = 1\n"),
            (Lines{"in.ini:7: run.seed: is given twice, first in line 6; "
                   "expected once"}));
}

TEST(Errors, WrongTypes) {
  EXPECT_EQ(
      errors_of(kGood + "batch = 8x\nnoise = much\naugment = crop, crop\n"
                        "[optimizer]\nnesterov = ja\n"
                        "[model]\nfamily = reznet\n"
                        "[eval]\nevery = 2.5\n"
                        "[compute]\nspeed = 1, fast\n"),
      (Lines{
          "in.ini:5: data.batch: expected a whole number >= 1, found \"8x\"",
          "in.ini:6: data.noise: expected a number >= 0, found \"much\"",
          "in.ini:7: data.augment: expected none or a list of crop, flip, "
          "rotate or resized_crop, each at most once, found \"crop, crop\"",
          "in.ini:9: optimizer.nesterov: expected yes or no, found \"ja\"",
          "in.ini:11: model.family: expected " +
              in_words(names_of(model_table(), &ModelInfo::family)) +
              ", found \"reznet\" (did you mean resnet?)",
          "in.ini:13: eval.every: expected a length such as 500, 500 steps or "
          "2.5 epochs, found \"2.5\"",
          "in.ini:15: compute.speed: expected a list of numbers >= 1e-6, found "
          "\"1, fast\"",
      }));
}

TEST(Errors, OutOfRange) {
  EXPECT_EQ(
      errors_of(kGood + "batch = 0\n[run]\nworkers = 0\nseed = -1\n"
                        "log_every = 0\n[optimizer]\nmomentum = 1\n"
                        "[model]\nversion = 3\n[checkpoint]\nkeep = 1\n"
                        "[eval]\nbatch = 99999999999999999999\n"),
      (Lines{
          "in.ini:5: data.batch: expected a whole number >= 1, found \"0\"",
          "in.ini:7: run.workers: expected auto or a whole number from 1 to "
          "65536, found \"0\"",
          "in.ini:8: run.seed: expected a whole number >= 0, found \"-1\"",
          "in.ini:9: run.log_every: expected a length > 0 such as 500, 500 "
          "steps or 2.5 epochs, found \"0\"",
          "in.ini:11: optimizer.momentum: expected a number >= 0 and < 1, "
          "found \"1\"",
          "in.ini:13: model.version: expected a whole number from 1 to 2, "
          "found \"3\"",
          "in.ini:15: checkpoint.keep: expected a whole number >= 2, found "
          "\"1\"",
          "in.ini:17: eval.batch: expected a whole number >= 1, found "
          "\"99999999999999999999\"",
      }));
}

// Beyond these bounds, sizes overflow and floats are 0.
TEST(Errors, BoundsOfSizesAndFloats) {
  const std::string clicks =
      kRun + "[data]\nkind = synthetic_criteo\n[model]\nfamily = deepfm\n";
  for (const char* width : {"0", "65537", "9e18", "1e300"})
    EXPECT_EQ(errors_of(clicks + "mlp = 32, " + width + "\n"),
              (Lines{fmt::format("in.ini:7: model.mlp: expected none or a list "
                                 "of numbers from 1 to 65536, found \"32, {}\"",
                                 width)}));
  EXPECT_EQ(errors_of(clicks + "mlp = 32, 65536\n"), Lines{});
  const std::string adam = kGood + "[optimizer]\nkind = adam\neps = ";
  for (const char* eps : {"0", "1e-31", "1e-60", "-1"})
    EXPECT_EQ(errors_of(adam + eps + "\n"),
              (Lines{fmt::format("in.ini:7: optimizer.eps: expected a number "
                                 ">= 1e-30, found \"{}\"",
                                 eps)}));
  EXPECT_EQ(errors_of(adam + "1e-30\n"), Lines{});
}

TEST(Errors, TextForms) {
  EXPECT_EQ(errors_of(kGood + "normalize = 0.5 0.5 / 0.2\n"
                              "[run]\nname = a/{sheme}\n"
                              "[optimizer]\nlr_scale = linear\n"
                              "lr_factor = half\n"),
            (Lines{
                "in.ini:5: data.normalize: expected auto, none or means / "
                "deviations such as 0.5 0.5 0.5 / 0.2 0.2 0.2, found \"0.5 0.5 "
                "/ 0.2\"",
                "in.ini:7: run.name: expected a folder name without blanks, "
                "which may hold "
                "{scheme} {seed} {workers} {job}, found \"a/{sheme}\"",
                "in.ini:10: optimizer.lr_factor: expected world, graph or a "
                "number > 0, found \"half\"",
            }));
}

TEST(Errors, EmptyValueAndBrokenLines) {
  EXPECT_EQ(
      errors_of("steps = 3\n" + kGood + "batch =   # 4\nnonsense\n= 4\n[run\n"),
      (Lines{
          "in.ini:1: \"steps\" comes before the first [section]",
          "in.ini:6: data.batch: has no value, expected a whole number >= 1",
          "in.ini:7: expected key = value or [section], found \"nonsense\"",
          "in.ini:8: expected key = value or [section], found \"= 4\"",
          "in.ini:9: expected [section], found \"[run\"",
      }));
  // Keys behind a broken header belong to no section.
  EXPECT_EQ(errors_of(kGood + "[optimizer]\nlr = 0.2\n[output] ; files\n"
                              "csv = yes\n[run]\nsedd = 1\n"),
            (Lines{
                "in.ini:7: expected [section], found \"[output] ; files\"",
                "in.ini:10: run.sedd: unknown key (did you mean run.seed?)",
            }));
}

TEST(Errors, BinaryFile) {
  try {
    parse_text(kGood + std::string("\0\0", 2));
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kBadInput);
    EXPECT_TRUE(std::string(error.what())
                    .ends_with("in.ini: is not text: it holds a zero byte"));
  }
}

TEST(Errors, KeysThatTheChosenKindsDoNotUse) {
  EXPECT_EQ(
      errors_of(kGood + "crop_pad = 4\npath = /x\n"
                        "[schedule]\nkind = cosine\npower = 2\n"
                        "warmup_from = 0.1\n"
                        "[model]\nfamily = logistic\ndepth = 20\n"
                        "[optimizer]\nbase_batch = 64\n"),
      (Lines{
          "in.ini:5: data.crop_pad: is used by data.augment = crop, not by "
          "none",
          "in.ini:6: data.path: is used by data.kind = " + kinds(false) +
              ", not by synthetic_images",
          "in.ini:9: schedule.power: is used by schedule.kind = polynomial "
          "or fields, not by cosine",
          "in.ini:10: schedule.warmup_from: is used only with "
          "schedule.warmup > 0",
          "in.ini:13: model.depth: is used by model.family = resnet or wrn, "
          "not by logistic",
          "in.ini:15: optimizer.base_batch: is used by optimizer.lr_scale = "
          "linear or sqrt, not by none",
      }));
  EXPECT_EQ(errors_of(kGood + "[schedule]\nkind = one_cycle\n"
                              "[optimizer]\nlr = 1\n"
                              "[model]\nfamily = wrn\nform = post\n"
                              "dropout = 0.3\n"),
            (Lines{
                "in.ini:8: optimizer.lr: is used by schedule.kind = constant, "
                "multistep, cosine, polynomial or inverse_time, not by "
                "one_cycle",
                "in.ini:12: model.dropout: is used by model.form = pre, not by "
                "post",
            }));
}

TEST(Errors, WeightDecayThatNothingHas) {
  const auto errors = [](const std::string& family, const std::string& keys) {
    return errors_of(kGood + "[model]\nfamily = " + family + "\n[optimizer]\n" +
                     keys);
  };
  const std::string exempt = "decay_batchnorm = no\ndecay_bias = no\n";
  EXPECT_EQ(errors("resnet", exempt), Lines{});
  EXPECT_EQ(errors("logistic", "decay_bias = no\n"), Lines{});
  EXPECT_EQ(errors("logistic", exempt),
            (Lines{"in.ini:8: optimizer.decay_batchnorm: is used by "
                   "model.family = resnet, wrn, bert or deepfm, not by "
                   "logistic"}));
  EXPECT_EQ(errors("resnet", exempt + "weight_decay = 0\n"),
            (Lines{"in.ini:8: optimizer.decay_batchnorm: is used only with "
                   "optimizer.weight_decay > 0",
                   "in.ini:9: optimizer.decay_bias: is used only with "
                   "optimizer.weight_decay > 0"}));
}

// The schemes of sync_switch's phases count, and no other.
TEST(Errors, KeysThatNoPhaseUses) {
  const auto errors = [](const std::string& order) {
    return errors_of(kGood +
                     "[model]\nfamily = resnet\n"
                     "[sync]\nscheme = sync_switch\n"
                     "[asp]\nbatchnorm = shared\n"
                     "[sync_switch]\norder = " +
                     order + "\n");
  };
  EXPECT_EQ(errors("10"), Lines{});
  EXPECT_EQ(errors("bsp, ssp"), Lines{});
  const Lines unused = {
      "in.ini:10: asp.batchnorm: is used by sync.scheme = asp or ssp, not by "
      "a phase of sync_switch.order"};
  EXPECT_EQ(errors("1"), unused);
  EXPECT_EQ(errors("bsp, local_sgd"), unused);
}

TEST(Errors, NoSecondLineForWhatFollowsFromTheFirst) {
  EXPECT_EQ(
      errors_of(kGood + "[schedule]\nkind = cosin\npower = 2\n"
                        "milestones = 5, 4\n"),
      (Lines{"in.ini:6: schedule.kind: expected constant, multistep, "
             "cosine, polynomial, one_cycle, inverse_time or fields, found "
             "\"cosin\" (did you mean cosine?)"}));
}

TEST(Errors, LengthOfTheRun) {
  EXPECT_EQ(errors_of(kSynthetic),
            (Lines{"in.ini: run.epochs: is missing: give run.epochs, "
                   "run.steps or run.virtual_limit_s, greater than 0"}));
  EXPECT_EQ(errors_of(kSynthetic, {"--run.epochs=2"}), Lines{});
}

TEST(Errors, MissingPath) {
  EXPECT_EQ(errors_of(kRun + "[data]\nkind = hdf5\n"),
            (Lines{"in.ini: data.path: is missing: data.kind = hdf5 reads "
                   "files, expected the path of a file"}));
}

TEST(Errors, ScheduleAgainstHorizonAndItself) {
  EXPECT_EQ(errors_of(kGood + "[schedule]\nkind = cosine\nhorizon = 5 epochs\n"
                              "warmup = 6 epochs\n"),
            (Lines{"in.ini:8: schedule.warmup: is 6 epochs, longer than "
                   "schedule.horizon = 5 epochs"}));
  EXPECT_EQ(errors_of(kGood + "[schedule]\nkind = constant\nwarmup = 6\n"
                              "warmup_shape = exponential\n"),
            (Lines{"in.ini:8: schedule.warmup_shape: is used only with "
                   "schedule.warmup_from > 0"}));
  EXPECT_EQ(errors_of(kGood + "[schedule]\nkind = one_cycle\ncycle = 11\n"),
            (Lines{"in.ini:7: schedule.cycle: is 11 steps, longer than "
                   "run.steps = 10 steps"}));
  EXPECT_EQ(
      errors_of(kGood + "[schedule]\nkind = one_cycle\nfinal_lr = 1\n"),
      (Lines{"in.ini:7: schedule.final_lr: is the rate after a cycle that "
             "ends before the horizon, expected schedule.cycle > 0"}));
  EXPECT_EQ(errors_of(kGood + "[schedule]\nkind = one_cycle\nfinal_lr = 1\n"
                              "cycle = 9\n"),
            Lines{});
  // Milestones do not depend on the horizon: a short run of a long recipe is
  // valid.
  EXPECT_EQ(errors_of(kGood + "[schedule]\nkind = multistep\n"
                              "milestones = 5, 400\nwarmup = 30\n"),
            Lines{});
  EXPECT_EQ(errors_of(kGood + "[schedule]\nkind = multistep\n"),
            (Lines{"in.ini: schedule.milestones: is missing: schedule.kind = "
                   "multistep needs at least one, such as 60, 120, 160 "
                   "epochs"}));
  EXPECT_EQ(errors_of(kGood + "[schedule]\nkind = multistep\n"
                              "milestones = 6, 6, 9, 7\n"),
            (Lines{"in.ini:7: schedule.milestones: expected increasing "
                   "lengths, found 6 steps after 6 steps",
                   "in.ini:7: schedule.milestones: expected increasing "
                   "lengths, found 7 steps after 9 steps"}));
}

TEST(Errors, OtherConflicts) {
  EXPECT_EQ(
      errors_of(kGood + "augment = crop\ncrop_pad = 8\nheight = 8\n"
                        "validation = 1.5\n"
                        "[run]\nworkers = 3\n[compute]\nspeed = 1, 0.5\n"
                        "[optimizer]\nnesterov = yes\nmomentum = 0\n"
                        "[checkpoint]\nresume = /nonexistent/step-3\n"),
      (Lines{
          "in.ini:6: data.crop_pad: is 8, expected less than the 8 pixels of "
          "the images",
          "in.ini:8: data.validation: expected a fraction below 1 or a whole "
          "number of samples, found 1.5",
          "in.ini:12: compute.speed: has 2 numbers for run.workers = 3, "
          "expected 3 or one for all",
          "in.ini:14: optimizer.nesterov: is yes, but optimizer.momentum = 0; "
          "expected nesterov = no or momentum > 0",
          "in.ini:17: checkpoint.resume: there is no \"/nonexistent/step-3\", "
          "expected auto, none or the path of a checkpoint",
      }));
  EXPECT_EQ(errors_of("[run]\nsteps = 9\n[data]\nkind = image_folder\n"
                      "path = x\naugment = crop, resized_crop\n"
                      "eval_resize = 200\n"),
            (Lines{"in.ini:6: data.augment: has crop and resized_crop, "
                   "expected one of them",
                   "in.ini:7: data.eval_resize: is 200, expected at least the "
                   "224 pixels of the images"}));
  EXPECT_EQ(errors_of(kGood + "[eval]\non = validation\n"),
            (Lines{"in.ini:6: eval.on: is validation, but data.validation = 0 "
                   "holds out no samples; expected eval.on = test or "
                   "data.validation > 0"}));
}

TEST(Errors, CommandLine) {
  EXPECT_EQ(
      errors_of(kGood, {"--run.sed=3", "--optimizr.lr=1", "--run.seed=x",
                        "--run.steps=4", "--run.steps=5", "run.seed=1",
                        "--seed=1", "--run.seed", "--run.name=a #b",
                        "--schedule.power=2", "--eval.batch="}),
      (Lines{
          "command line: run.sed: unknown key (did you mean run.seed?)",
          "command line: [optimizr]: unknown section (did you mean "
          "[optimizer]?)",
          "command line: run.seed: expected a whole number >= 0, found \"x\"",
          "command line: run.steps: is given twice, expected once",
          "command line: expected --section.key=value, found \"run.seed=1\"",
          "command line: expected --section.key=value, found \"--seed=1\"",
          "command line: expected --section.key=value, found \"--run.seed\"",
          "command line: run.name: \"a #b\" cannot be written in an input "
          "file: expected no control characters, no blank at an end, and no # "
          "at the start or after a blank",
          "command line: eval.batch: has no value, expected a whole number >= "
          "1",
          "command line: schedule.power: is used by schedule.kind = "
          "polynomial or fields, not by constant",
      }));
}

TEST(Errors, FileLinesComeFirstThenCommandLineThenMissingKeys) {
  EXPECT_EQ(errors_of("[data]\nbatch = 0\nsamples = 3\n", {"--run.seed=x"}),
            (Lines{
                "in.ini:2: data.batch: expected a whole number >= 1, found "
                "\"0\"",
                "in.ini:3: data.samples: is used by data.kind = " +
                    kinds(true) + ", not by idx",
                "command line: run.seed: expected a whole number >= 0, found "
                "\"x\"",
                "in.ini: run.epochs: is missing: give run.epochs, run.steps "
                "or run.virtual_limit_s, greater than 0",
                "in.ini: data.path: is missing: data.kind = idx reads files, "
                "expected the path of a folder",
            }));
}

TEST(Errors, RefusedAllAtOnce) {
  const ParsedInput good = parse_text(kGood);
  EXPECT_NO_THROW(refuse_errors(good));
  const ParsedInput bad = parse_text(kGood, {"--run.seed=x", "--eval.on=y"});
  try {
    refuse_errors(bad);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kBadInput);
    EXPECT_EQ(std::string(error.what()),
              "command line: run.seed: expected a whole number >= 0, found "
              "\"x\"\nerror: command line: eval.on: expected test or "
              "validation, found \"y\"");
  }
}

TEST(Errors, LongAndUnprintableValuesStayOnOneShortLine) {
  const Lines errors = errors_of(kGood + "batch = " + std::string(5000, 'x') +
                                 "\nnoise = a\x01\x1b[31mb\n");
  ASSERT_EQ(errors.size(), 2u);
  EXPECT_LT(errors[0].size(), 160u);
  EXPECT_EQ(errors[1],
            "in.ini:6: data.noise: expected a number >= 0, found "
            "\"a??[31mb\"");
}

// Any damage to a good input is a list of lines, each with its place.
TEST(Errors, DamagedInputs) {
  const std::string good = read_file(source_dir() / "inputs" / "smoke.ini");
  const std::string damage = "\x01\n=[]#. 0-e\xff";
  int num_refused = 0;
  for (size_t at = 0; at < good.size(); at += 3) {
    std::string text = good;
    text[at] = damage[at / 3 % damage.size()];
    for (const std::string& damaged : {text, good.substr(0, at)}) {
      const Lines errors = errors_of(damaged);
      num_refused += !errors.empty();
      for (const std::string& error : errors) {
        EXPECT_TRUE(error.starts_with("in.ini:")) << error;
        EXPECT_EQ(error.find_first_of("\n\r\x01"), std::string::npos) << error;
      }
    }
  }
  EXPECT_GT(num_refused, 100);
}

}  // namespace
}  // namespace syncopate
