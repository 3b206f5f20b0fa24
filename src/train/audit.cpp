#include "train/audit.h"

#include <algorithm>
#include <bit>
#include <vector>

#include "base/text.h"
#include "comm/collectives.h"
#include "comm/tags.h"
#include "ops/reduce.h"
#include "sync/scheme.h"

namespace syncopate {
namespace {

// Because the factor is odd, a change of a single word always changes the hash.
uint64_t join_hashes(uint64_t hash, uint64_t next) {
  return hash * kDigestFactor + next;
}

// Reads state and forms one hash for each shared piece of it.
class Digests final : public StateVisitor {
 public:
  explicit Digests(Context& context) : context_(context) {}

  void visit(Owner owner, std::string_view name, Values values) override {
    if (owner == Owner::kShared)
      std::visit([&](auto span) { add_words(name, span); }, values);
  }
  void visit_device(Owner owner,
                    std::string_view name,
                    const DeviceVector<float>& values) override {
    if (owner == Owner::kShared) add(name, digest(context_, values));
  }
  void visit_device_slice(Owner owner,
                          std::string_view name,
                          const ParameterTable& table,
                          int64_t begin,
                          const DeviceVector<float>& slice) override {
    if (owner != Owner::kShared) return;
    CHECK(begin == 0 && slice.size() == table.num_elems());
    for (const ParameterEntry& entry : table.entries())
      add(fmt::format("{}/{}", name, entry.name),
          digest(context_,
                 slice.span().subspan(static_cast<size_t>(entry.offset),
                                      static_cast<size_t>(entry.elems()))));
  }

  const std::vector<std::string>& names() const { return names_; }
  const std::vector<uint64_t>& hashes() const { return hashes_; }
  uint64_t of_all() const {
    uint64_t hash = 0;
    for (const uint64_t one : hashes_) hash = join_hashes(hash, one);
    return hash;
  }

 private:
  template <typename T>
  void add_words(std::string_view name, std::span<T> values) {
    using Word = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
    uint64_t hash = 0;
    for (const T value : values)
      hash = join_hashes(hash, std::bit_cast<Word>(value));
    add(name, hash);
  }
  void add(std::string_view name, uint64_t hash) {
    names_.emplace_back(name);
    hashes_.push_back(hash);
  }

  Context& context_;
  std::vector<std::string> names_;
  std::vector<uint64_t> hashes_;
};

// A double can hold half a hash exactly.
void append_halves(std::vector<double>& halves, uint64_t hash) {
  halves.push_back(static_cast<double>(hash >> 32));
  halves.push_back(static_cast<double>(hash & 0xFFFFFFFF));
}

bool is_same_everywhere(Endpoint& endpoint, uint64_t mine) {
  std::vector<double> most;
  append_halves(most, mine);
  for (const double half : std::vector(most)) most.push_back(-half);
  agree(endpoint, endpoint.world_group(), most, Combine::kMax, tags::kControl);
  return most[0] == -most[2] && most[1] == -most[3];
}

// By worker.
std::vector<std::vector<uint64_t>> gather(Endpoint& endpoint,
                                          const std::vector<uint64_t>& mine) {
  std::vector<double> halves;
  for (const uint64_t hash : mine) append_halves(halves, hash);
  std::vector<std::vector<uint64_t>> all;
  for (const std::vector<double>& of_worker :
       all_gather(endpoint, endpoint.world_group(), halves, tags::kControl,
                  Traffic::kControl)) {
    all.emplace_back();
    for (size_t i = 0; i < of_worker.size(); i += 2)
      all.back().push_back(static_cast<uint64_t>(of_worker[i]) << 32 |
                           static_cast<uint64_t>(of_worker[i + 1]));
  }
  return all;
}

// Returns, for example, "worker 3 is"; names all workers if no value is held by
// more workers than every other.
std::string differing_workers(
    const std::vector<std::vector<uint64_t>>& by_worker) {
  const auto holders = [&](const std::vector<uint64_t>& value) {
    return std::count(by_worker.begin(), by_worker.end(), value);
  };
  const auto most = *std::max_element(
      by_worker.begin(), by_worker.end(),
      [&](const auto& a, const auto& b) { return holders(a) < holders(b); });
  const bool is_majority =
      std::all_of(by_worker.begin(), by_worker.end(), [&](const auto& value) {
        return value == most || holders(value) < holders(most);
      });
  std::vector<std::string> names;
  for (size_t rank = 0; rank < by_worker.size(); ++rank)
    if (!is_majority || by_worker[rank] != most)
      names.push_back(std::to_string(rank));
  if (!is_majority) return fmt::format("workers {} differ", join(names, ", "));
  return fmt::format("worker{} {} of {} differ{} from the others",
                     names.size() > 1 ? "s" : "", join(names, ", "),
                     by_worker.size(), names.size() > 1 ? "" : "s");
}

}  // namespace

bool keeps_replicas_equal(const SyncOptions& sync) {
  return !any_scheme(sync, [](const SchemeInfo& info) {
    return !info.is_composite && !info.keeps_replicas_equal;
  });
}

bool audits_have_boundaries(const SyncOptions& sync) {
  return !any_scheme(sync, [](const SchemeInfo& info) {
    return info.is_composite || info.is_free_running;
  });
}

std::string audit_replicas(Context& context,
                           Endpoint& endpoint,
                           const std::function<void(StateVisitor&)>& visit) {
  Digests digests(context);
  visit(digests);
  if (is_same_everywhere(endpoint, digests.of_all())) return "";
  const auto by_worker = gather(endpoint, digests.hashes());
  const size_t num_pieces = digests.hashes().size();
  for (size_t piece = 0; piece < num_pieces; ++piece)
    for (const std::vector<uint64_t>& of_worker : by_worker)
      if (of_worker[piece] != by_worker[0][piece])
        return fmt::format("{}, first in '{}'", differing_workers(by_worker),
                           digests.names()[piece]);
  CHECK_MSG(false, "hashes of {} pieces agree, and not the whole", num_pieces);
}

}  // namespace syncopate
