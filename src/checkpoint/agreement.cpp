#include "checkpoint/agreement.h"

#include <algorithm>

#include "base/check.h"
#include "base/text.h"
#include "comm/collectives.h"
#include "comm/tags.h"

namespace syncopate {
namespace {

// Two separate tags, so that a length and a text are never confused.
constexpr Tag kLength = tags::kCheckpoint;
constexpr Tag kText = tags::kCheckpoint + 4;
constexpr Tag kGather = tags::kCheckpoint + 8;

std::string encode(const Outcome& outcome) {
  return fmt::format("{} {}", static_cast<int>(outcome.code), outcome.line);
}

Outcome decode(const std::string& text) {
  const size_t space = text.find(' ');
  const std::optional<int64_t> code =
      parse_int(std::string_view(text).substr(0, space));
  CHECK(code && space != std::string::npos);
  return {static_cast<ExitCode>(*code), text.substr(space + 1)};
}

}  // namespace

Outcome outcome_of(const std::filesystem::filesystem_error& error) {
  constexpr std::errc kNoWayThere[] = {
      std::errc::no_such_file_or_directory, std::errc::not_a_directory,
      std::errc::permission_denied, std::errc::filename_too_long,
      std::errc::too_many_symbolic_link_levels};
  const bool is_missing = std::ranges::any_of(
      kNoWayThere, [&](std::errc reason) { return error.code() == reason; });
  return {
      is_missing ? ExitCode::kInputMissing : ExitCode::kIoError,
      fmt::format("{}: {}", error.path1().string(), error.code().message())};
}

std::string share_text(Endpoint& endpoint, const std::string& text_of_root) {
  const Group world = endpoint.world_group();
  std::string text = endpoint.rank() == 0 ? text_of_root : "";
  int64_t length = std::ssize(text);
  broadcast(endpoint, world, {&length, sizeof length}, 0, kLength,
            Traffic::kControl);
  text.resize(static_cast<size_t>(length));
  if (length > 0)
    broadcast(endpoint, world, {text.data(), length}, 0, kText,
              Traffic::kControl);
  return text;
}

std::vector<std::string> gather_texts(Endpoint& endpoint,
                                      const std::string& text) {
  const std::vector<std::vector<std::byte>> gathered = gather_bytes(
      endpoint, endpoint.world_group(), {text.data(), std::ssize(text)}, 0,
      kGather, Traffic::kControl);
  std::vector<std::string> texts;
  for (const std::vector<std::byte>& bytes : gathered)
    texts.emplace_back(reinterpret_cast<const char*>(bytes.data()),
                       bytes.size());
  return texts;
}

Outcome share_outcome(Endpoint& endpoint, const Outcome& outcome_of_root) {
  return decode(share_text(endpoint, encode(outcome_of_root)));
}

Outcome agree_on_outcome(Endpoint& endpoint, const Outcome& mine) {
  Outcome first;
  for (const std::string& text : gather_texts(endpoint, encode(mine))) {
    const Outcome outcome = decode(text);
    if (first.ok() && !outcome.ok()) first = outcome;
  }
  return share_outcome(endpoint, first);
}

}  // namespace syncopate
