#include "reprise/server/server_options.h"

#include <gtest/gtest.h>

namespace reprise::server {
namespace {

TEST(ServerOptions, names_are_checked_where_no_key_protects_the_server_from_pages) {
  const auto answers_page = [](const auto& change) {
    ServerOptions options;
    change(options);
    return allowed_hosts(options).holds("evil.example");
  };
  EXPECT_FALSE(answers_page([](ServerOptions&) {}));
  EXPECT_TRUE(answers_page([](ServerOptions& options) { options.api_keys = {"key"}; }));
  EXPECT_TRUE(answers_page([](ServerOptions& options) { options.unix_socket = "/run/a.sock"; }));
  // On a wildcard address, clients may use the name of a service or of a proxy. The server cannot
  // know these names, so it accepts every host.
  EXPECT_TRUE(answers_page([](ServerOptions& options) {
    options.host = "0.0.0.0";
    options.allow_unauthenticated = true;
  }));
  ServerOptions listed;
  listed.host = "box.local";
  listed.api_keys = {"key"};
  listed.allowed_hosts = {"llm.example"};
  EXPECT_FALSE(allowed_hosts(listed).holds("evil.example"));
  EXPECT_TRUE(allowed_hosts(listed).holds("llm.example"));
  // The server accepts the name that it was told to listen on.
  EXPECT_TRUE(allowed_hosts(listed).holds("box.local:8000"));
}

}  // namespace
}  // namespace reprise::server
