// Runs a fuzz target on changed inputs of a corpus, the same ones whenever the
// seed is the same, without any library of fuzzing:
//   fuzz_FORMAT CORPUS [--runs=N | --seconds=S] [--seed=N] [--finding=FILE]
//   fuzz_FORMAT FILE          that input once
//   fuzz_FORMAT CORPUS --runs=N --write=FOLDER     them as files, 0 ... N - 1
// With EXHAUSTIVE=1 in the environment, --runs counts fiftyfold and --seconds
// tenfold. A crash, a
// sanitizer's report, an exception or 10 s at work on it is a finding: the
// input is written to FILE (finding-FORMAT) and the program ends by SIGABRT.
#include <fcntl.h>
#include <signal.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <vector>

#include "base/check.h"
#include "base/text.h"
#include "fuzz.h"

// So that a report ends as any other crash, through the handler below.
extern "C" const char* __asan_default_options() {
  return "abort_on_error=1:handle_abort=0:handle_segv=0:handle_sigbus=0:"
         "handle_sigfpe=0:allocator_may_return_null=0";
}
extern "C" const char* __ubsan_default_options() {
  return "halt_on_error=1:abort_on_error=1:print_stacktrace=1";
}

namespace syncopate::fuzz {
namespace {

constexpr size_t kMaxBytes = 1 << 16;  // of an input
constexpr time_t kHangs_s = 10;        // thousands of times what one needs

struct Options {
  fs::path corpus;
  int64_t runs = 0, seconds = 0, seed = 1;
  std::string finding;
  fs::path write_to;  // empty: inputs are run
};

// The input at work, and where it would be written.
std::string current;
std::string finding_path;

// Only what a signal handler may do.
void write_finding(int signal) {
  const int fd =
      ::open(finding_path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0666);
  const bool is_written =
      fd >= 0 && ::write(fd, current.data(), current.size()) ==
                     static_cast<ssize_t>(current.size());
  const char* const kind =
      signal == SIGPROF ? "finding: does not end: " : "finding: ";
  for (const char* text :
       {kind, is_written ? finding_path.c_str() : "not written", "\n"})
    if (::write(STDERR_FILENO, text, std::strlen(text)) < 0) break;
  ::signal(SIGABRT, SIG_DFL);
  ::abort();
}

class Random {  // splitmix64
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  size_t below(size_t count) { return static_cast<size_t>(next() % count); }
  uint64_t next() {
    uint64_t x = state_ += 0x9E3779B97F4A7C15;
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9;
    x = (x ^ x >> 27) * 0x94D049BB133111EB;
    return x ^ x >> 31;
  }

 private:
  uint64_t state_;
};

// Edges of numbers, of JSON, of tables and of UTF-8; and white space.
const std::vector<std::string> kTokens = [] {
  auto tokens = split(
      "0 -1 1 2147483647 2147483648 4294967296 9223372036854775807 "
      "9223372036854775808 18446744073709551616 1e999 0.5 -0 00 "
      "null true \" \\ \\u0000 \\ud800 { } [ ] , : {} [] \"\" ## [UNK] "
      "\xff \xc3 \xed\xa0\x80 \xef\xbf\xbd \xcc\x81 \xce\xa3 \xc4\xb0 "
      "\xe4\xb8\xad \xf0\x9f\x98\x80 \xe2\x80\xa8",
      ' ');
  tokens.insert(tokens.end(), {"\t", "\n", "\r\n", " "});
  return tokens;
}();

std::string_view any_token(Random& random) {
  return kTokens[random.below(kTokens.size())];
}

// A run of digits becomes another number, or one nearby.
void change_number(std::string& input, Random& random) {
  const size_t start = random.below(input.size());
  const size_t from = std::min(input.find_first_of("0123456789", start),
                               input.find_first_of("0123456789"));
  if (from == input.npos) return;
  const size_t end =
      std::min(input.find_first_not_of("0123456789", from), input.size());
  std::string number(any_token(random));
  const auto old = parse_int(std::string_view(input).substr(from, end - from));
  if (old && *old < INT32_MAX && random.below(2) == 0)
    number = std::to_string(*old - 2 + static_cast<int64_t>(random.below(5)));
  input.replace(from, end - from, number);
}

void change(std::string& input,
            const std::vector<std::string>& corpus,
            Random& random) {
  if (input.empty()) input.push_back('0');
  const size_t at = random.below(input.size());
  const size_t length = 1 + random.below(1 + random.below(input.size() - at));
  switch (random.below(9)) {
    case 0:
      input[at] = static_cast<char>(input[at] ^ 1 << random.below(8));
      break;
    case 1:
      input[at] = static_cast<char>(random.next());
      break;
    case 2:
      input.resize(at);
      break;
    case 3:
      input.erase(at, length);
      break;
    case 4:
      input.insert(random.below(input.size()), input.substr(at, length));
      break;
    case 5: {
      const std::string& other = corpus[random.below(corpus.size())];
      const size_t from = random.below(other.size() + 1);
      input.replace(at, length,
                    other.substr(from, 1 + random.below(other.size() + 1)));
      break;
    }
    case 6:
      input.insert(at, any_token(random));
      break;
    case 7:
      input.replace(at, std::min(length, size_t{4}), any_token(random));
      break;
    default:
      change_number(input, random);
  }
}

// By the time at work, so that a busy machine makes no findings; 0: no limit.
void limit_work(time_t seconds) {
  const itimerval timer = {.it_interval = {}, .it_value = {seconds, 0}};
  ::setitimer(ITIMER_PROF, &timer, nullptr);
}

void run_one(std::string input) {
  current = std::move(input);
  limit_work(kHangs_s);
  // A copy of the exact size: reading beyond it is seen.
  const std::vector<char> data(current.begin(), current.end());
  take({data.data(), data.size()});
  limit_work(0);
}

std::vector<std::string> read_corpus(const fs::path& folder) {
  std::vector<fs::path> paths;
  for (const auto& entry : fs::directory_iterator(folder))
    paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  std::vector<std::string> corpus;
  for (const fs::path& path : paths) corpus.push_back(read_file(path));
  if (corpus.empty())
    fail(ExitCode::kInputMissing, "{}: no inputs", folder.string());
  return corpus;
}

Options parse(int argc, char** argv) {
  Options options;
  options.finding = fmt::format(
      "finding-{}", fs::path(argv[0]).filename().string().substr(5));
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    const size_t equals = std::min(word.find('='), word.size());
    const auto number =
        parse_int(word.substr(std::min(equals + 1, word.size())));
    const std::string_view name = word.substr(0, equals);
    if (name == "--finding") {
      options.finding = word.substr(std::min(equals + 1, word.size()));
    } else if (name == "--write") {
      options.write_to = word.substr(std::min(equals + 1, word.size()));
    } else if (!word.starts_with("--") && options.corpus.empty()) {
      options.corpus = word;
    } else if (number && *number > 0 && name == "--runs") {
      options.runs = *number;
    } else if (number && *number > 0 && name == "--seconds") {
      options.seconds = *number;
    } else if (number && *number >= 0 && name == "--seed") {
      options.seed = *number;
    } else {
      fail(ExitCode::kUsage,
           "{}: expected CORPUS [--runs=N | --seconds=S] "
           "[--seed=N] [--finding=FILE] [--write=FOLDER]",
           word);
    }
  }
  if (options.corpus.empty())
    fail(ExitCode::kUsage, "expected the folder of a corpus, or an input");
  const char* const exhaustive = std::getenv("EXHAUSTIVE");
  if (exhaustive != nullptr && std::string_view(exhaustive) == "1" &&
      options.write_to.empty()) {
    options.runs *= 50;
    options.seconds *= 10;
  }
  return options;
}

// By its number: a finding comes back without those before it.
std::string make_input(const std::vector<std::string>& corpus,
                       int64_t seed,
                       int64_t number) {
  Random random(static_cast<uint64_t>(seed) << 40 ^
                static_cast<uint64_t>(number));
  std::string input = corpus[random.below(corpus.size())];
  for (size_t left = 1 + random.below(4); left > 0; --left)
    change(input, corpus, random);
  if (input.size() > kMaxBytes) input.resize(kMaxBytes);
  return input;
}

void write_all(const Options& options) {
  const std::vector<std::string> corpus = read_corpus(options.corpus);
  for (int64_t i = 0; i < options.runs; ++i) {
    const std::string input = make_input(corpus, options.seed, i);
    std::ofstream file(options.write_to / std::to_string(i), std::ios::binary);
    file.write(input.data(), std::ssize(input));
    file.close();
    if (!file)
      fail_errno(ExitCode::kCannotCreate, options.write_to, "write an input");
  }
}

void run_all(const Options& options) {
  if (!fs::is_directory(options.corpus)) {
    run_one(read_file(options.corpus));
    return;
  }
  const std::vector<std::string> corpus = read_corpus(options.corpus);
  for (const std::string& input : corpus) run_one(input);
  const auto start = std::chrono::steady_clock::now();
  const auto end = start + std::chrono::seconds(options.seconds);
  int64_t run = 0;
  while (run < options.runs ||
         (options.seconds > 0 && std::chrono::steady_clock::now() < end)) {
    run_one(make_input(corpus, options.seed, run++));
  }
  const std::chrono::duration<double> seconds =
      std::chrono::steady_clock::now() - start;
  std::printf("seed %" PRId64 ": %" PRId64
              " inputs and %zu of the corpus: %" PRId64 " accepted, %" PRId64
              " refused, %.1f s\n",
              options.seed, run, corpus.size(), counts.accepted, counts.refused,
              seconds.count());
  // A target that sees one kind only has lost its corpus.
  if (counts.accepted == 0 || (run > 100 && counts.refused == 0))
    fail(ExitCode::kInternal, "nothing accepted, or nothing refused");
}

}  // namespace
}  // namespace syncopate::fuzz

int main(int argc, char** argv) {
  using namespace syncopate;
  try {
    const fuzz::Options options = fuzz::parse(argc, argv);
    fuzz::finding_path = options.finding;
    for (const int signal : {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGPROF})
      ::signal(signal, fuzz::write_finding);
    if (options.write_to.empty())
      fuzz::run_all(options);
    else
      fuzz::write_all(options);
    return 0;
  } catch (const Error& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return static_cast<int>(error.code());
  }
}
