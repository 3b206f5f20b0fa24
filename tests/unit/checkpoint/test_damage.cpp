// Damaged, foreign and mismatching files are refused and named.
#include "fixture.h"

#include "checkpoint/manifest.h"

namespace syncopate {
namespace {

class Damage : public testing::Test {
 protected:
  void SetUp() override {
    save(directory(), 1, 2);
    save(directory(), 2, 2);
  }
  const fs::path& directory() const { return scratch_.path(); }
  fs::path newest() const { return directory() / "step-00000002"; }

  // The newest is refused for a reason that names `text`; step 1 is taken.
  void expect_fallback(const std::string& text) {
    const std::string line =
        error_of(ExitCode::kBadInput, [&] { verify_checkpoint(newest()); });
    EXPECT_NE(line.find(text), std::string::npos) << line;
    EXPECT_EQ(line.find('\n'), std::string::npos) << line;
    const auto found = find_newest_checkpoint(directory());
    ASSERT_TRUE(found.has_value());
    EXPECT_EQ(found->facts.step, 1);
    ASSERT_EQ(found->warnings.size(), 1u);
    EXPECT_NE(found->warnings[0].find(line), std::string::npos);
    EXPECT_NE(describe_checkpoint(newest()).find("damaged"), std::string::npos);
  }

  // The error of loading the newest with `visit` as worker 0.
  std::string load_error(const StateVisit& visit) {
    return error_of(ExitCode::kBadInput, [&] {
      load_checkpoint(verify_checkpoint(newest()), 0, visit);
    });
  }

  // The newest manifest with `from` replaced, under a digest that fits it.
  void forge(const std::string& from, const std::string& to) {
    std::string text = bytes_of(newest() / "manifest.json");
    const size_t place = text.find(from);
    ASSERT_NE(place, std::string::npos) << from;
    text.replace(place, from.size(), to);
    const size_t end = text.rfind(",\n \"digest\"");
    const std::string body = text.substr(0, end) + "\n}";
    overwrite(newest() / "manifest.json", text.substr(0, end) +
                                              ",\n \"digest\": \"" +
                                              digest_of(body) + "\"\n}\n");
  }

  State state_;
  ScratchFolder scratch_;
};

TEST_F(Damage, FlippedBitInEachFile) {
  for (const char* name :
       {"manifest.json", "replica.h5", "worker-0000.h5", "worker-0001.h5"}) {
    const std::string bytes = bytes_of(newest() / name);
    std::string flipped = bytes;
    flipped[bytes.size() / 3] ^= 1;
    overwrite(newest() / name, flipped);
    expect_fallback(name);
    overwrite(newest() / name, bytes);
  }
  EXPECT_EQ(find_newest_checkpoint(directory())->facts.step, 2);
}

TEST_F(Damage, EveryBitOfTheManifest) {
  const std::string bytes = bytes_of(newest() / "manifest.json");
  for (size_t i = 0; i < bytes.size(); ++i)
    for (int bit = 0; bit < 8; ++bit) {
      std::string flipped = bytes;
      flipped[i] = static_cast<char>(flipped[i] ^ (1 << bit));
      EXPECT_THROW(parse_manifest(flipped, "m"), Error) << i << " " << bit;
    }
}

TEST_F(Damage, EveryTruncationOfTheManifest) {
  const std::string bytes = bytes_of(newest() / "manifest.json");
  for (size_t size = 0; size < bytes.size(); ++size)
    EXPECT_THROW(parse_manifest(bytes.substr(0, size), "m"), Error) << size;
  EXPECT_THROW(parse_manifest(bytes + "\n", "m"), Error);
}

TEST_F(Damage, TruncatedFile) {
  fs::resize_file(newest() / "replica.h5", 100);
  expect_fallback("replica.h5: 100 bytes");
}

TEST_F(Damage, GrownFile) {
  fs::resize_file(newest() / "replica.h5", 1 << 20);
  expect_fallback("replica.h5: 1048576 bytes");
}

TEST_F(Damage, MissingShard) {
  fs::remove(newest() / "worker-0001.h5");
  expect_fallback("worker-0001.h5: missing");
}

TEST_F(Damage, MissingManifest) {
  fs::remove(newest() / "manifest.json");
  expect_fallback("manifest.json: missing");
}

TEST_F(Damage, FolderInPlaceOfAFile) {
  fs::remove(newest() / "replica.h5");
  fs::create_directory(newest() / "replica.h5");
  expect_fallback("not a regular file");
}

TEST_F(Damage, ShardOfAnotherStep) {
  fs::copy_file(directory() / "step-00000001/worker-0001.h5",
                newest() / "worker-0001.h5",
                fs::copy_options::overwrite_existing);
  expect_fallback("worker-0001.h5");
}

TEST_F(Damage, ShardsOfTwoWorkersExchanged) {
  fs::rename(newest() / "worker-0000.h5", newest() / "x");
  fs::rename(newest() / "worker-0001.h5", newest() / "worker-0000.h5");
  fs::rename(newest() / "x", newest() / "worker-0001.h5");
  expect_fallback("worker-0000.h5");
}

TEST_F(Damage, FolderOfAnotherStep) {
  fs::remove_all(newest());
  fs::copy(directory() / "step-00000001", newest(),
           fs::copy_options::recursive);
  expect_fallback("the manifest of step 1");
}

TEST_F(Damage, AllDamagedIsAnError) {
  for (const char* step : {"step-00000001", "step-00000002"})
    fs::resize_file(directory() / step / "replica.h5", 7);
  const std::string line = error_of(
      ExitCode::kBadInput, [&] { find_newest_checkpoint(directory()); });
  EXPECT_NE(line.find("none of 2 checkpoints is intact"), std::string::npos)
      << line;
}

TEST_F(Damage, OtherSpellingsOfAFolderAreNoCheckpoints) {
  fs::rename(newest(), directory() / "step-2");
  EXPECT_EQ(find_newest_checkpoint(directory())->facts.step, 1);
}

TEST_F(Damage, ForgedNamesAreRefused) {
  const std::string bytes = bytes_of(newest() / "manifest.json");
  for (const char* name :
       {"../replica.h5", "/etc/passwd", "a/replica.h5", "./replica.h5",
        "worker-0.h5", "worker-0002.h5", "replica.h5", ""}) {
    overwrite(newest() / "manifest.json", bytes);
    forge("\"worker-0001.h5\"", "\"" + std::string(name) + "\"");
    expect_fallback("file name '" + std::string(name) + "'");
  }
}

TEST_F(Damage, ForgedFieldsAreRefused) {
  const std::string bytes = bytes_of(newest() / "manifest.json");
  struct Change {
    const char *from, *to, *reason;
  };
  const std::vector<Change> changes = {
      {"\"workers\": 2", "\"workers\": -2", "field 'workers'"},
      {"\"workers\": 2", "\"workers\": 2.0", "field 'workers'"},
      {"\"workers\": 2", "\"workers\": 99999999999999999999", "'workers'"},
      {"\"workers\": 2", "\"workers\": 18446744073709551615", "'workers'"},
      {"\"workers\": 2", "\"workers\": [[[[[[[[2]]]]]]]]", "nested deeper"},
      {"\"workers\": 2", "\"wrokers\": 2", "no field 'workers'"},
      {"\"workers\": 2", "\"workers\": 2, \"more\": 1", "field 'more'"},
      {"\"workers\": 2", "\"workers\": 1", "file name 'worker-0001.h5'"},
      {"\"scheme\": \"bsp\"", "\"scheme\": 3", "field 'scheme'"},
      {"\"scheme\": \"bsp\"", "\"scheme\": ", "parse error"},
      {"\"format_version\": 2", "\"format_version\": 0",
       "field 'format_version': an integer from 1"},
      {"syncopate checkpoint", "another checkpoint", "not a manifest"},
      {"\"xxh3\": \"", "\"xxh3\": \"A", "field 'xxh3'"},
  };
  for (const Change& change : changes) {
    overwrite(newest() / "manifest.json", bytes);
    forge(change.from, change.to);
    expect_fallback(change.reason);
  }
}

// Nor is it passed by: the next commit would remove it.
TEST_F(Damage, ANewerFormatIsNoDamage) {
  forge("\"format_version\": 2", "\"format_version\": 3");
  try {
    find_newest_checkpoint(directory());
    FAIL() << "it was passed by";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kInputMissing);
    EXPECT_NE(std::string(error.what()).find("format version 3 of a newer"),
              std::string::npos)
        << error.what();
  }
}

TEST_F(Damage, NameMissingInTheFile) {
  const std::string line = load_error([&](StateVisitor& visitor) {
    visitor.visit(Owner::kShared, "model/bias",
                  std::span<float>(state_.weights));
  });
  EXPECT_NE(line.find("'model/bias'"), std::string::npos) << line;
}

TEST_F(Damage, NameLeftOverInAFile) {
  std::string line = load_error([&](StateVisitor& visitor) {
    state_.visit_shared(visitor);
    visitor.visit(Owner::kWorker, "residual",
                  std::span<float>(state_.residual));
  });
  EXPECT_NE(line.find("'sampler/position'"), std::string::npos) << line;
  line = load_error([&](StateVisitor& visitor) {
    visitor.visit(Owner::kShared, "counters",
                  std::span<int64_t>(state_.counters));
  });
  EXPECT_NE(line.find("'clocks'"), std::string::npos) << line;
}

TEST_F(Damage, OtherSizeOrType) {
  std::vector<float> shorter(999);
  std::string line = load_error([&](StateVisitor& visitor) {
    visitor.visit(Owner::kShared, "model/weights", std::span<float>(shorter));
  });
  EXPECT_NE(line.find("float32 (1000) found, float32 (999) expected"),
            std::string::npos)
      << line;
  std::vector<double> doubles(1000);
  line = load_error([&](StateVisitor& visitor) {
    visitor.visit(Owner::kShared, "model/weights", std::span<double>(doubles));
  });
  EXPECT_NE(line.find("float32 (1000) found, float64 (1000) expected"),
            std::string::npos)
      << line;
}

TEST_F(Damage, DescriptionOfAWholeOne) {
  const std::string text = describe_checkpoint(newest());
  for (const char* part :
       {"whole", "step 2, worker_steps 4, workers 2, scheme bsp",
        "worker-0001.h5", "model/weights", "float32 (1000)", "run.seed = 1"})
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  EXPECT_EQ(text.find("damaged"), std::string::npos);
}

TEST(Manifest, TextThatIsNotUtf8IsRefused) {
  Manifest manifest{facts_of(1, 1), {}};
  manifest.facts.input["data.path"] = "\xff\xfe";
  EXPECT_NE(error_of(ExitCode::kBadInput, [&] { manifest_text(manifest); }),
            "");
}

}  // namespace
}  // namespace syncopate
