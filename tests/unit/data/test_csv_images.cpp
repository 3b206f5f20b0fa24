// Images as comma-separated values: what is read, and what is refused.
#include "data_files.h"

namespace syncopate {
namespace {

class CsvImages : public ::testing::Test {
 protected:
  void SetUp() override {
    write("train.csv", "1,10,20,30,40\n0,5,6,7,255\n");
    write("test.csv", "0,1,2,3,4");
  }
  void write(const std::string& name, const std::string& content) {
    write_bytes((folder_ / name), content);
  }
  DataOptions options() const {
    return options_for("csv_images", folder_.path().string());
  }
  // Replaces the training set and expects Error(kBadInput) "FILE:REST".
  void expect_refused(const std::string& content, const std::string& rest) {
    write("train.csv", content);
    expect_error(options(), ExitCode::kBadInput,
                 (folder_ / "train.csv").string() + ":" + rest);
  }
  ScratchFolder folder_;
};

TEST_F(CsvImages, ReadsPixelsLabelsAndShape) {
  const Dataset data = load_dataset(options());
  const ImageSpec spec = {.C = 1, .H = 2, .W = 2, .classes = 2};
  EXPECT_EQ(data.train.spec, spec);
  EXPECT_EQ(data.test.spec, spec);
  EXPECT_EQ(data.train.labels, (std::vector<int32_t>{1, 0}));
  EXPECT_EQ(std::get<std::vector<uint8_t>>(data.train.pixels),
            (std::vector<uint8_t>{10, 20, 30, 40, 5, 6, 7, 255}));
  EXPECT_EQ(data.test.samples, 1);
}

TEST_F(CsvImages, RefusesWhatIsNoSquareOfBytes) {
  expect_refused("1,2,3\n",
                 "1: 3 columns, expected a label and a square image as in all "
                 "lines");
  expect_refused("0,1,2,3,4\n1,2,3,4\n",
                 "2: 4 columns, expected a label and a square image as in all "
                 "lines");
  expect_refused("0,1,2,3,256\n",
                 "1: column 5: expected an integer from 0 to 255");
  expect_refused("0,1,2,,4\n",
                 "1: column 4: expected an integer from 0 to 255");
}

}  // namespace
}  // namespace syncopate
