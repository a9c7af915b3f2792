#include "reprise/cli/http_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>

#include "reprise/base/error.h"
#include "reprise/base/json.h"
#include "reprise/base/python_literal.h"
#include "reprise/cli/engine_options.h"

namespace reprise::cli {
namespace {

constexpr const char* kTls = "Server: TLS";
constexpr const char* kCors = "Server: CORS";

uint16_t parse_port(std::string_view text) {
  const int64_t port = parse_human_integer("--port", text);
  if (port < 0 || port > 65535) {
    throw InvalidArgument(fmt::format("--port: {} is not in 0..65535; 0 takes a free one", port));
  }
  return static_cast<uint16_t>(port);
}

/// Parses a list of texts as JSON or Python writes it, which vLLM also accepts, or one text.
std::vector<std::string> parse_list(const std::string& option, std::string_view text) {
  if (!text.starts_with('[')) return {std::string(text)};
  const Json json = parse_json_or_python(text, option);
  std::vector<std::string> items;
  for (const Json& item : json) {
    if (!item.is_string()) {
      throw InvalidArgument(
          fmt::format("{}: expected a JSON list of strings, got {}", option, text));
    }
    items.push_back(item.get<std::string>());
  }
  return items;
}

/// Parses a list whose values are sent in the headers of answers or compared with headers of
/// requests.
std::vector<std::string> parse_visible_list(const std::string& option, std::string_view text) {
  std::vector<std::string> items = parse_list(option, text);
  for (const std::string& item : items) {
    if (item.empty() ||
        !std::all_of(item.begin(), item.end(), [](char c) { return c > ' ' && c < 127; })) {
      throw InvalidArgument(fmt::format("{}: only visible ASCII without spaces", option));
    }
  }
  return items;
}

void read_key_file(std::vector<std::string>& keys, const std::string& path) {
  const std::string from = "--api-key-file " + path;
  std::ifstream file(path);
  if (!file) throw InvalidArgument(from + ": cannot be read");
  size_t num_keys = 0;
  for (std::string line; std::getline(file, line);) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (line.empty() || line.starts_with('#')) continue;
    add_api_key(keys, from, line);
    ++num_keys;
  }
  if (num_keys == 0) throw InvalidArgument(from + ": holds no key; one per line is expected");
}

std::string parse_root_path(std::string_view text) {
  while (text.ends_with('/')) text.remove_suffix(1);
  if (!text.empty() && !text.starts_with('/')) {
    throw InvalidArgument(fmt::format("--root-path {}: must begin with /", text));
  }
  return std::string(text);
}

void add_address(OptionTable& table, server::ServerOptions& options) {
  table.add_text("host",
                 kServer,
                 "ADDRESS",
                 "Where to listen; beyond this machine only with a key.",
                 options.host);
  table.add({.name = "port",
             .group = kServer,
             .value_name = "N",
             .help = "Port; 0 takes a free one and prints it.",
             .default_text = "8000",
             .apply = [&options](std::string_view value) { options.port = parse_port(value); }});
  table.add({.name = "uds",
             .group = kServer,
             .value_name = "PATH",
             .help = "Listen on a Unix socket instead; no key is needed.",
             .apply = [&options](std::string_view value) {
               // An unset variable of a script must not open a port instead.
               if (value.empty()) throw InvalidArgument("--uds: needs a path");
               options.unix_socket = value;
             }});
  table.add(
      {.name = "root-path",
       .group = kServer,
       .value_name = "/PREFIX",
       .help = "Prefix that a proxy leaves in front of every path.",
       .apply =
           [&options](std::string_view value) { options.http.root_path = parse_root_path(value); },
       .example = "/proxy"});
}

void add_keys(OptionTable& table, server::ServerOptions& options) {
  table.add(
      {.name = "api-key",
       .group = kServer,
       .value_name = "KEY",
       .help = "Key that clients must send; may be repeated. Others can see it in the list of "
               "processes: --api-key-file and VLLM_API_KEY are safer.",
       .apply = [&options](
                    std::string_view value) { add_api_key(options.api_keys, "--api-key", value); },
       .takes_several = true,
       .is_secret = true,
       .adds_up = true});
  table.add({.name = "api-key-file",
             .group = kServer,
             .value_name = "FILE",
             .help = "More keys, one per line; # begins a comment line.",
             .apply = [&options](std::string_view value) {
               read_key_file(options.api_keys, std::string(value));
             }});
  table.add(
      {.name = "allowed-hosts",
       .group = kServer,
       .value_name = "JSON",
       .help = "Names in the Host header that the server accepts, besides localhost and "
               "addresses: [\"llm.example\", \"*.svc\"], or [\"*\"].",
       .default_text = "none if it listens on this machine without a key, otherwise every name",
       .apply = [&options](std::string_view value) {
         options.allowed_hosts = parse_visible_list("--allowed-hosts", value);
       }});
  table.add_switch("allow-unauthenticated",
                   kServer,
                   "Listen beyond this machine without a key.",
                   options.allow_unauthenticated);
}

/// Adds an option for a number from 1 to `most`; its present value is the default.
template <typename Number>
void add_limit(OptionTable& table,
               const char* group,
               const std::string& name,
               const std::string& help,
               int64_t most,
               Number& target) {
  table.add({.name = name,
             .group = group,
             .value_name = "N",
             .help = help,
             .default_text = fmt::to_string(target),
             .apply = [option = "--" + name, most, &target](std::string_view value) {
               const int64_t number = parse_human_integer(option, value);
               if (number < 1 || number > most) {
                 throw InvalidArgument(fmt::format("{}: {} is not in 1..{}", option, number, most));
               }
               target = static_cast<Number>(number);
             }});
}

void add_limits(OptionTable& table, server::ServerOptions& options) {
  constexpr int64_t kDaySeconds = 86400;
  server::HttpLimits& limits = options.http.limits;
  add_limit(table,
            kServer,
            "max-connections",
            "Connections at a time; more get 503.",
            1'000'000,
            limits.max_connections);
  table.add({.name = "max-connections-per-peer",
             .group = kServer,
             .value_name = "N",
             .help = "Connections of one address at a time; more get 503. Raise it behind a proxy.",
             .default_text = "three quarters of --max-connections",
             .apply = [&limits](std::string_view value) {
               const int64_t number = parse_human_integer("--max-connections-per-peer", value);
               if (number < 1 || number > 1'000'000) {
                 throw InvalidArgument(
                     fmt::format("--max-connections-per-peer: {} is not in 1..1000000", number));
               }
               limits.max_connections_per_peer = static_cast<size_t>(number);
             }});
  add_limit(table,
            kServer,
            "header-timeout",
            "Seconds for the header of a request, and of an idle connection.",
            kDaySeconds,
            limits.header_timeout_seconds);
  add_limit(table,
            kServer,
            "body-timeout",
            "Seconds for the body of a request; more than 20 without a byte are always too many.",
            kDaySeconds,
            limits.body_timeout_seconds);
}

void add_routes_and_logs(OptionTable& table, server::ServerOptions& options) {
  table.add_switch("enable-request-id-headers",
                   kServer,
                   "X-Request-Id on every answer: the client's, else a new one.",
                   options.enable_request_id_headers);
  table.add_switch("dev",
                   kServer,
                   "More routes, for developers: /server_info, /reset_prefix_cache, /sleep.",
                   options.dev_mode);
  table.add(
      {.name = "disable-uvicorn-access-log",
       .group = kServer,
       .help = "No line per answer on standard error.",
       .apply = [&options](std::string_view value) { options.access_log = value != "true"; }});
  table.add({.name = "disable-access-log-for-endpoints",
             .group = kServer,
             .value_name = "PATHS",
             .help = "No lines per answer for these paths.",
             .default_text = "/health,/metrics",
             .apply = [&options](std::string_view value) {
               options.unlogged_paths.clear();
               while (!value.empty()) {
                 const size_t end = std::min(value.find(','), value.size());
                 options.unlogged_paths.emplace_back(value.substr(0, end));
                 value.remove_prefix(std::min(end + 1, value.size()));
               }
             }});
}

void add_tls(OptionTable& table, server::TlsOptions& tls) {
  table.add_text(
      "ssl-certfile", kTls, "FILE", "PEM certificate with its chain.", tls.certificate_file);
  table.add_text("ssl-keyfile", kTls, "FILE", "PEM key of the certificate.", tls.key_file);
  table.add_text("ssl-ca-certs",
                 kTls,
                 "FILE",
                 "PEM certificates that may sign those of clients.",
                 tls.ca_file);
  table.add({.name = "ssl-cert-reqs",
             .group = kTls,
             .value_name = "N",
             .help = "Certificates of clients: 0 are not asked for, 1 are checked, 2 are required.",
             .default_text = "0",
             .apply =
                 [&tls](std::string_view value) {
                   const int64_t number = parse_human_integer("--ssl-cert-reqs", value);
                   if (number < 0 || number > 2) {
                     throw InvalidArgument(
                         fmt::format("--ssl-cert-reqs: {} is not 0, 1 or 2", number));
                   }
                   tls.client_certificates = static_cast<server::ClientCertificates>(number);
                 },
             .choices = {"0", "1", "2"}});
  table.add_switch(
      "enable-ssl-refresh",
      kTls,
      "Read these files again when they change and at SIGHUP, which then does not end the server.",
      tls.refreshes);
  table.add_text(
      "ssl-ciphers", kTls, "LIST", "Ciphers of TLS 1.2 in OpenSSL's notation.", tls.ciphers);
}

void add_cors(OptionTable& table, server::CorsOptions& cors) {
  const auto add_list = [&table](std::string name,
                                 std::string help,
                                 std::string default_text,
                                 std::vector<std::string>& target) {
    const std::string option = "--" + name;
    table.add({.name = std::move(name),
               .group = kCors,
               .value_name = "JSON",
               .help = std::move(help),
               .default_text = std::move(default_text),
               .apply = [option, &target](std::string_view value) {
                 target = parse_visible_list(option, value);
               }});
  };
  add_list("allowed-origins",
           "Origins whose pages may ask: [\"https://chat.example\"], or [\"*\"].",
           "none",
           cors.allowed_origins);
  add_list("allowed-methods",
           "Methods that pages of these origins may use.",
           "[\"*\"]",
           cors.allowed_methods);
  add_list("allowed-headers",
           "Headers that pages of these origins may send.",
           "[\"*\"]",
           cors.allowed_headers);
  table.add_switch("allow-credentials",
                   kCors,
                   "Pages of these origins may send cookies and keys of the browser.",
                   cors.allow_credentials);
}

}  // namespace

void add_api_key(std::vector<std::string>& keys, std::string_view from, std::string_view key) {
  const bool is_visible =
      std::all_of(key.begin(), key.end(), [](char c) { return c > ' ' && c < 127; });
  if (key.empty() || !is_visible) {
    throw InvalidArgument(fmt::format("{}: a key is one or more visible ASCII characters", from));
  }
  keys.emplace_back(key);
}

void add_answer_limit(OptionTable& table, const char* group, int64_t& max_answer_bytes) {
  add_limit(table,
            group,
            "max-answer-bytes",
            "Bytes of log-probabilities that one answer may have, at 100 for each.",
            int64_t{1} << 40,
            max_answer_bytes);
}

void add_http_options(OptionTable& table, server::ServerOptions& options) {
  add_address(table, options);
  add_keys(table, options);
  add_limits(table, options);
  add_answer_limit(table, kServer, options.generations.max_answer_bytes);
  add_routes_and_logs(table, options);
  add_tls(table, options.http.tls);
  add_cors(table, options.cors);
}

}  // namespace reprise::cli
