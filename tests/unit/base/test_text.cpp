#include "base/text.h"

#include <gtest/gtest.h>

namespace syncopate {
namespace {

TEST(Text, Trim) {
  EXPECT_EQ(trim("  a b\t\r\n"), "a b");
  EXPECT_EQ(trim(" \t"), "");
  EXPECT_EQ(trim(""), "");
}

TEST(Text, SplitTrimsAndKeepsEmptyParts) {
  EXPECT_EQ(split("a, b ,,c", ','),
            (std::vector<std::string>{"a", "b", "", "c"}));
  EXPECT_EQ(split("", ','), (std::vector<std::string>{""}));
  EXPECT_EQ(split("a,", ','), (std::vector<std::string>{"a", ""}));
}

TEST(Text, Join) {
  EXPECT_EQ(join(std::vector<std::string>{"a", "b"}, " | "), "a | b");
  EXPECT_EQ(join(std::vector<std::string>{}, ","), "");
}

TEST(Text, InvalidUtf8IsFoundWhereItBegins) {
  for (const char* valid : {"", "plain", "\xC3\xA9", "a\xE2\x82\xAC",
                            "\xF0\x9F\x98\x80z", "\xEF\xBF\xBF"})
    EXPECT_EQ(find_invalid_utf8(valid), std::nullopt) << valid;
  EXPECT_EQ(find_invalid_utf8("caf\xE9"), 3);           // Latin-1
  EXPECT_EQ(find_invalid_utf8("\xC3"), 0);              // cut short
  EXPECT_EQ(find_invalid_utf8("ab\x80"), 2);            // no lead byte
  EXPECT_EQ(find_invalid_utf8("\xC0\xAF"), 0);          // overlong '/'
  EXPECT_EQ(find_invalid_utf8("x\xED\xA0\x80"), 1);     // a surrogate
  EXPECT_EQ(find_invalid_utf8("\xF4\x90\x80\x80"), 0);  // above U+10FFFF
  EXPECT_EQ(escape_bytes("caf\xE9\n"), "caf\\xE9\\x0A");
}

TEST(Text, WholeNumbersOnly) {
  EXPECT_EQ(parse_int("42"), 42);
  EXPECT_EQ(parse_int("-7"), -7);
  EXPECT_EQ(parse_int("+7"), 7);
  EXPECT_EQ(parse_int("9223372036854775807"), INT64_MAX);
  for (const char* bad : {"", "8x", " 8", "8 ", "9223372036854775808", "1.0",
                          "0x10", "-", "+", "+-1", "1e3"})
    EXPECT_FALSE(parse_int(bad)) << bad;
}

TEST(Text, WholeFiniteReals) {
  EXPECT_EQ(parse_double("0.5"), 0.5);
  EXPECT_EQ(parse_double("-1e-3"), -1e-3);
  EXPECT_EQ(parse_double("+2"), 2.0);
  for (const char* bad : {"", "1.0f", " 1", "nan", "inf", "1e999", "1,5", "."})
    EXPECT_FALSE(parse_double(bad)) << bad;
}

TEST(Text, NearestFindsSlipsOnly) {
  const std::vector<std::string> keys = {"momentum", "nesterov", "weight_decay",
                                         "lr"};
  EXPECT_EQ(nearest("momentun", keys), "momentum");
  EXPECT_EQ(nearest("weight-decay", keys), "weight_decay");
  EXPECT_EQ(nearest("lrr", keys), "lr");
  EXPECT_EQ(nearest("momnetum", keys), "momentum");  // letters swapped
  EXPECT_EQ(nearest("rl", keys), "lr");
  EXPECT_FALSE(nearest("topology", keys));
  EXPECT_FALSE(nearest("x", std::vector<std::string>{}));
}

TEST(Text, HumanUnits) {
  EXPECT_EQ(human_bytes(0), "0 B");
  EXPECT_EQ(human_bytes(999), "999 B");
  EXPECT_EQ(human_bytes(45000), "45.00 kB");
  EXPECT_EQ(human_bytes(1.23e9), "1.23 GB");
  EXPECT_EQ(human_seconds(4.5), "4.5 s");
  EXPECT_EQ(human_seconds(123), "2:03");
  EXPECT_EQ(human_seconds(3723), "1:02:03");
}

}  // namespace
}  // namespace syncopate
