#include "reprise/server/http/trace_parent.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace reprise::server {
namespace {

// The example of the standard.
constexpr std::string_view kExample = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

TEST(TraceParent, reads_the_example_of_the_standard) {
  const auto parent = parse_trace_parent(kExample, "congo=t61rcWkgMzE");
  ASSERT_TRUE(parent);
  EXPECT_EQ(*parent,
            (TraceParent{.trace_id = "0af7651916cd43dd8448eb211c80319c",
                         .span_id = "b7ad6b7169203331",
                         .is_sampled = true,
                         .trace_state = "congo=t61rcWkgMzE"}));
}

TEST(TraceParent, only_the_lowest_flag_asks_for_a_span) {
  const std::string start(kExample.substr(0, kExample.size() - 2));
  for (const auto& [flags, is_sampled] : {std::pair{"00", false},
                                          {"01", true},
                                          {"02", false},
                                          {"03", true},
                                          {"fe", false},
                                          {"ff", true}}) {
    const auto parent = parse_trace_parent(start + flags, "");
    ASSERT_TRUE(parent) << flags;
    EXPECT_EQ(parent->is_sampled, is_sampled) << flags;
  }
}

TEST(TraceParent, a_later_version_may_have_more_parts) {
  const std::string later = "cc" + std::string(kExample.substr(2));
  EXPECT_TRUE(parse_trace_parent(later, ""));
  EXPECT_TRUE(parse_trace_parent(later + "-what-comes-then", ""));
  EXPECT_FALSE(parse_trace_parent(later + ".more", ""));
  EXPECT_FALSE(parse_trace_parent(std::string(kExample) + "-more", ""));
}

TEST(TraceParent, refuses_what_is_not_of_the_form) {
  for (const std::string_view text : {"",
                                      "00",
                                      "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0",
                                      "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
                                      "00-0AF7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
                                      "00-0af7651916cd43dd8448eb211c80319g-b7ad6b7169203331-01",
                                      "00-00000000000000000000000000000000-b7ad6b7169203331-01",
                                      "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
                                      "00_0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
                                      "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331_01"}) {
    EXPECT_FALSE(parse_trace_parent(text, "")) << text;
  }
}

TEST(TraceParent, drops_a_state_that_does_not_fit) {
  EXPECT_EQ(parse_trace_parent(kExample, std::string(512, 'a'))->trace_state,
            std::string(512, 'a'));
  EXPECT_EQ(parse_trace_parent(kExample, std::string(513, 'a'))->trace_state, "");
  EXPECT_EQ(parse_trace_parent(kExample, "a=\x01")->trace_state, "");
}

}  // namespace
}  // namespace reprise::server
