// Criteo's TSV, prepared and read back.
#include "data/clicks/click_set.h"
#include "fuzz.h"

namespace syncopate {
namespace {

void check_set(const ClickSet& set, const ClickSpec& spec) {
  std::vector<int32_t> rows(spec.rows.size());
  for (int64_t sample = 0; sample < set.samples(); ++sample) {
    set.read(sample, rows);
    for (size_t field = 0; field < rows.size(); ++field)
      if (rows[field] < 0 || rows[field] >= spec.rows[field])
        fuzz::found("a row outside its table");
    if (set.clicked()[static_cast<size_t>(sample)] > 1)
      fuzz::found("a label that is not 0 or 1");
  }
}

void use(const PrepareCriteo& wanted) {
  fs::remove_all(wanted.to);
  const PreparedCriteo prepared = prepare_criteo(wanted);
  DataOptions options;
  options.kind = "criteo";
  options.path = wanted.to.string();
  const ClickData data = load_clicks(options);
  if (data.train->samples() != prepared.train ||
      data.test->samples() != prepared.test || data.spec != prepared.spec ||
      (prepared.skipped != 0 && !wanted.skips_bad_lines))
    fuzz::found("prepared and read are not the same");
  check_set(*data.train, data.spec);
  check_set(*data.test, data.spec);
  if (!check_clicks(wanted.to).empty()) fuzz::found("damage from the start");
}

}  // namespace
}  // namespace syncopate

void syncopate::fuzz::take(std::string_view input) {
  PrepareCriteo wanted;
  wanted.from = scratch_file("raw.tsv", input);
  wanted.to = scratch_folder() / "ready";
  wanted.threshold = 2;
  wanted.test_share = 0.5;
  for (const bool skips_bad_lines : {false, true}) {
    wanted.skips_bad_lines = skips_bad_lines;
    accept_or_refuse(wanted.from.string(), [&] { use(wanted); });
  }
}
