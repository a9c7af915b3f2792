#include "reprise/http_client/http_proxy.h"

#include <gtest/gtest.h>

#include "reprise/base/error.h"

namespace reprise::http_client {
namespace {

std::string proxy_of(const ProxyRules& rules, std::string_view url) {
  const std::optional<HttpProxy> proxy = rules.proxy_for(parse_url("test", url));
  return proxy ? proxy->url.authority() : "";
}

TEST(ProxyRules, https_servers_are_asked_through_the_proxy) {
  EXPECT_EQ(proxy_of(ProxyRules("http://proxy.corp:3128", ""), "https://a.example"),
            "proxy.corp:3128");
  EXPECT_EQ(proxy_of(ProxyRules("proxy.corp:3128", ""), "https://a.example"), "proxy.corp:3128");
  EXPECT_EQ(proxy_of(ProxyRules("http://proxy.corp:3128", ""), "http://a.example"), "");
  EXPECT_EQ(proxy_of(ProxyRules("", ""), "https://a.example"), "");
}

TEST(ProxyRules, exceptions_are_hosts_and_domains) {
  const ProxyRules rules("proxy:1", "localhost, .corp.example,mirror.example");
  EXPECT_EQ(proxy_of(rules, "https://localhost"), "");
  EXPECT_EQ(proxy_of(rules, "https://hub.Corp.example"), "");
  EXPECT_EQ(proxy_of(rules, "https://corp.example"), "");
  EXPECT_EQ(proxy_of(rules, "https://a.mirror.example"), "");
  EXPECT_EQ(proxy_of(rules, "https://notcorp.example"), "proxy:1");
  EXPECT_EQ(proxy_of(ProxyRules("proxy:1", "*"), "https://a.example"), "");
}

TEST(ProxyRules, a_user_and_a_password_become_a_header) {
  const auto proxy =
      ProxyRules("http://me:p%40ss@proxy:1", "").proxy_for(parse_url("t", "https://a"));
  ASSERT_TRUE(proxy);
  EXPECT_EQ(proxy->authorization, "Basic bWU6cEBzcw==");
  EXPECT_EQ(proxy->url.authority(), "proxy:1");
}

TEST(ProxyRules, other_kinds_of_proxies_are_refused_without_the_password) {
  for (const char* text :
       {"socks5://me:secret@proxy:1", "https://me:secret@proxy:1", "http://me:secret@:x"}) {
    try {
      (void)ProxyRules(text, "");
      FAIL() << text;
    } catch (const InvalidArgument& error) {
      EXPECT_EQ(std::string(error.what()).find("secret"), std::string::npos);
      EXPECT_NE(std::string(error.what()).find("HTTPS_PROXY"), std::string::npos);
    }
  }
}

TEST(BaseUrl, the_host_header_leaves_out_the_port_of_the_scheme) {
  EXPECT_EQ(parse_url("t", "https://a.example").host_header(), "a.example");
  EXPECT_EQ(parse_url("t", "http://a.example:80").host_header(), "a.example");
  EXPECT_EQ(parse_url("t", "https://a.example:8443").host_header(), "a.example:8443");
  EXPECT_EQ(parse_url("t", "https://[::1]").host_header(), "[::1]");
  EXPECT_EQ(parse_url("t", "http://[::1]:443").host_header(), "[::1]:443");
}

}  // namespace
}  // namespace reprise::http_client
