// Closed choices: names, values and what fmt prints.
#include <gtest/gtest.h>

#include "base/choice.h"

namespace syncopate {

CHOICE(Query, "blocking non_blocking", {kBlocking, kNonBlocking});

namespace {

TEST(Choice, NamesAndBack) {
  EXPECT_EQ(all_names<Query>(),
            (std::vector<std::string>{"blocking", "non_blocking"}));
  EXPECT_EQ(name_of(Query::kNonBlocking), "non_blocking");
  EXPECT_EQ(value_named<Query>("non_blocking"), Query::kNonBlocking);
  EXPECT_EQ(value_named<Query>("Blocking"), std::nullopt);
  EXPECT_EQ(value_named<Query>(""), std::nullopt);
  EXPECT_EQ(fmt::format("[{}]", Query::kBlocking), "[blocking]");
}

}  // namespace
}  // namespace syncopate
