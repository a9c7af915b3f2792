#include "reprise/server/http/allowed_hosts.h"

#include <gtest/gtest.h>

#include "reprise/server/http/api_error.h"

namespace reprise::server {
namespace {

TEST(AllowedHosts, hold_addresses_and_localhost_with_and_without_a_port) {
  const AllowedHosts none(std::vector<std::string>{});
  for (const char* host : {"localhost",
                           "localhost:8000",
                           "LocalHost",
                           "localhost.",
                           "a.localhost:1",
                           "127.0.0.1",
                           "127.0.0.1:8000",
                           "10.20.30.40",
                           "[::1]",
                           "[::1]:8000",
                           "[fe80::1]:1",
                           ""}) {
    EXPECT_TRUE(none.holds(host)) << host;
  }
  for (const char* host : {"evil.example",
                           "evil.example:8000",
                           "localhost.evil.example",
                           "notlocalhost",
                           "127.0.0.1.evil.example",
                           "127.0.0.1.",
                           "1.2.3.4.5",
                           "[evil.example]",
                           "2130706433",
                           "a:127.0.0.1"}) {
    EXPECT_EQ(none.holds(host), std::string_view(host) == "127.0.0.1.") << host;
  }
}

TEST(AllowedHosts, hold_the_names_of_the_list_and_names_below_them) {
  const AllowedHosts some({"LLM.example", "*.svc.cluster.local"});
  for (const char* host :
       {"llm.example", "llm.EXAMPLE:443", "a.svc.cluster.local", "a.b.svc.cluster.local"}) {
    EXPECT_TRUE(some.holds(host)) << host;
  }
  for (const char* host : {"a.llm.example", "svc.cluster.local", "xsvc.cluster.local", "example"}) {
    EXPECT_FALSE(some.holds(host)) << host;
  }
  EXPECT_TRUE(AllowedHosts({"*"}).holds("any.example"));
  EXPECT_TRUE(AllowedHosts().holds("any.example"));
}

int status_for(const HttpRequest& request, const CorsOptions& cors = {}) {
  try {
    check_is_not_cross_site(request, cors);
    return 200;
  } catch (const ApiError& error) {
    return error.status();
  }
}

TEST(CrossSite, refuses_pages_of_other_origins_and_lets_programs_in) {
  EXPECT_EQ(status_for({.host = "localhost:8000"}), 200);
  EXPECT_EQ(status_for({.host = "localhost:8000", .origin = "http://localhost:8000"}), 200);
  EXPECT_EQ(status_for({.host = "llm.example", .origin = "https://LLM.example"}), 200);
  for (const char* origin : {"http://evil.example",
                             "http://localhost:9000",
                             "http://localhost",
                             "null",
                             "localhost:8000"}) {
    EXPECT_EQ(status_for({.host = "localhost:8000", .origin = origin}), 403) << origin;
  }
  EXPECT_EQ(status_for({.host = "localhost:8000", .fetch_site = "cross-site"}), 403);
  EXPECT_EQ(status_for({.host = "localhost:8000", .fetch_site = "same-origin"}), 200);
  const HttpRequest page{.host = "a", .origin = "https://chat.example", .fetch_site = "cross-site"};
  EXPECT_EQ(status_for(page, {.allowed_origins = {"https://chat.example"}}), 200);
  EXPECT_EQ(status_for(page, {.allowed_origins = {"https://other.example"}}), 403);
  EXPECT_EQ(status_for(page, {.allowed_origins = {"*"}}), 200);
}

}  // namespace
}  // namespace reprise::server
