#include "app/provenance.h"

#include "app/commands.h"
#include "base/text.h"

namespace syncopate {

void state_engine(Results& results,
                  const Session& session,
                  const Engine& engine) {
  for (const auto& [name, value] : build_facts(session))
    results.provenance(name, value);
  const Options& options = engine.options;
  results.provenance("input", echo_input(engine.input));
  results.provenance("argv", join(session.argv(), " "));
  results.provenance("scheme", options.sync.scheme);
  results.provenance("model", options.model.family);
  results.provenance("seed", options.run.seed);
  results.provenance("workers", static_cast<int64_t>(engine.workers));
  results.provenance("parameters", engine.model->parameters().num_elems());
}

}  // namespace syncopate
