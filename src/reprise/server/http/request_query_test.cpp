#include "reprise/server/http/request_query.h"

#include <gtest/gtest.h>

namespace reprise::server {
namespace {

using Values = std::vector<std::string>;

TEST(RequestQuery, gives_every_value_of_a_name_in_order) {
  EXPECT_EQ(query_values("tags=weights&level=2&tags=kv_cache", "tags"),
            (Values{"weights", "kv_cache"}));
  EXPECT_EQ(query_values("tags=weights&level=2&tags=kv_cache", "level"), (Values{"2"}));
  EXPECT_EQ(query_values("tags=weights", "tag"), Values{});
  EXPECT_EQ(query_values("", "tags"), Values{});
}

TEST(RequestQuery, decodes_names_and_values_as_forms_are) {
  EXPECT_EQ(query_values("a%20b=1+2%2B3", "a b"), (Values{"1 2+3"}));
  EXPECT_EQ(query_values("a=%zz&a=%4", "a"), (Values{"%zz", "%4"}));
}

TEST(RequestQuery, takes_what_is_not_well_formed) {
  EXPECT_EQ(query_values("&&a&=x&a=&a=b=c", "a"), (Values{"", "", "b=c"}));
  EXPECT_EQ(query_values("&&a&=x&", ""), (Values{"", "", "x"}));
}

TEST(RequestQuery, names_what_is_not_known_as_it_was_sent) {
  const std::vector<std::string_view> known = {"level", "tags"};
  EXPECT_EQ(unknown_names("level=1&x%0a=2&tag%73=a&=3&y", known, 9), (Values{"x%0a", "y"}));
  EXPECT_EQ(unknown_names("a&b&c", known, 2), (Values{"a", "b"}));
  EXPECT_EQ(unknown_names(std::string(100, 'n'), known, 1), (Values{std::string(64, 'n')}));
  EXPECT_EQ(unknown_names("", known, 1), Values{});
}

}  // namespace
}  // namespace reprise::server
