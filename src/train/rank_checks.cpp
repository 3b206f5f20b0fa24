#include "train/rank_checks.h"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <map>
#include <set>
#include <thread>

#include "base/clock.h"
#include "base/file.h"
#include "base/text.h"
#include "comm/collectives.h"
#include "comm/tags.h"

namespace syncopate {
namespace {

// How long a file system may take to show one host's file to the others.
constexpr double kPatience_s = 20;

constexpr const char* kData = "the digest of its data";

const std::set<std::string>& may_differ() {
  static const std::set<std::string> keys = {
      "run.directory", "run.threads",   "run.device",
      "run.plans",     "data.path",     "data.vocabulary",
      "model.weights", "compute.trace", "asp.replay",
  };
  return keys;
}

std::string place_of(const Session& session) {
  return fmt::format("rank {} on {}", session.rank(),
                     session.hosts()[session.rank()]);
}

using Facts = std::map<std::string, std::string>;

Facts facts_of(const Engine& engine) {
  Facts facts = {{kData, engine.problem->digest()}};
  for (const auto& [key, value] : engine.input.resolved)
    if (!may_differ().contains(key)) facts[key] = value;
  return facts;
}

std::string text_of(const Facts& facts) {
  std::string text;
  for (const auto& [key, value] : facts)
    text += fmt::format("{} = {}\n", key, value);
  return text;
}

Facts facts_in(const std::string& text) {
  Facts facts;
  for (const std::string& line : split(text, '\n'))
    if (const size_t at = line.find(" = "); at != std::string::npos)
      facts[line.substr(0, at)] = line.substr(at + 3);
  return facts;
}

// Returns "optimizer.lr = 0.2, rank 0 has 0.1"; empty if all is the same. Keys
// that only one of the two uses follow from another that differs.
std::string difference(const Facts& mine, const Facts& first) {
  for (const auto& [key, value] : mine) {
    const auto other = first.find(key);
    if (other != first.end() && other->second != value)
      return fmt::format("{} = {}, rank 0 has {}", key, value, other->second);
  }
  for (const auto& [key, value] : mine)
    if (!first.contains(key))
      return fmt::format("{} = {}, which rank 0 does not use", key, value);
  for (const auto& [key, value] : first)
    if (!mine.contains(key))
      return fmt::format("no {}, rank 0 has {}", key, value);
  return "";
}

}  // namespace

void check_same_input(Session& session, const Engine& engine) {
  if (session.size() == 1) return;
  const Facts mine = facts_of(engine);
  const Facts first = facts_in(session.share(text_of(mine)));
  session.agree_on([&] {
    const std::string what = difference(mine, first);
    if (!what.empty())
      fail(ExitCode::kBadInput,
           "{} has {}: all ranks must read the same input and data",
           place_of(session), what);
  });
}

void check_same_checkpoint(Session& session,
                           const std::string& folder,
                           const std::string& digest) {
  const std::string first = session.share(digest);
  session.agree_on([&] {
    if (digest != first)
      fail(ExitCode::kBadInput,
           "{}: {} finds a different checkpoint there than rank 0", folder,
           place_of(session));
  });
}

std::string threads_of_ranks(Session& session, int threads) {
  if (session.size() == 1) return counted(threads, "thread");
  std::array<double, 2> most = {-1.0 * threads, 1.0 * threads};
  session.make_world(session.size(), {})->run([&](Endpoint& endpoint) {
    agree(endpoint, endpoint.world_group(), most, Combine::kMax,
          tags::kControl);
  });
  const int fewest = static_cast<int>(-most[0]);
  const std::string text = counted(static_cast<int>(most[1]), "thread");
  return fewest == most[1] ? text : fmt::format("{} to {}", fewest, text);
}

void check_shared_directory(Session& session, const RunDirectory& directory) {
  if (session.size() == 1) return;
  const fs::path probe = directory.path() / "shared.tmp";
  const std::string token = session.share(
      fmt::format("{} {} {}", session.hosts()[0], ::getpid(), utc_now()));
  session.agree_on([&] {
    if (session.rank() != 0) return;
    std::ofstream file(probe);  // which needs no fsync to be seen
    file << token;
    if (!file.flush())
      fail(ExitCode::kCannotCreate, "{}: cannot be written", probe.string());
  });
  const auto is_seen = [&] {
    try {
      return read_file(probe, 1 << 12) == token;
    } catch (const Error&) {
      return false;
    }
  };
  const auto check = [&] {
    for (const double end = monotonic_s() + kPatience_s; !is_seen();) {
      if (monotonic_s() > end)
        fail(ExitCode::kCannotCreate,
             "{}: is not the folder that rank 0 has for this run, but must be "
             "shared by all ranks (run.directory, SYNCOPATE_RUNS, the folder "
             "where the job starts): {}",
             fs::absolute(directory.path()).string(), place_of(session));
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    if (::access(directory.path().c_str(), W_OK) != 0)
      fail(ExitCode::kCannotCreate, "{}: cannot be written: {}: {}",
           fs::absolute(directory.path()).string(), std::strerror(errno),
           place_of(session));
  };
  const auto remove_probe = [&] {
    std::error_code ignored;
    if (session.rank() == 0) fs::remove(probe, ignored);
  };
  try {
    session.agree_on(check);
  } catch (const AgreedError&) {
    remove_probe();
    if (session.rank() == 0) directory.abandon();
    throw;
  }
  remove_probe();
}

}  // namespace syncopate
