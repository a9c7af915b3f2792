#include "reprise/hub/download/hub_connection.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <optional>
#include <thread>
#include <utility>

#include "reprise/base/equal_ignoring_case.h"

namespace reprise::hub {
namespace {

using http_client::BaseUrl;
using http_client::HttpClient;
using http_client::HttpHead;
using http_client::HttpHeaders;
using http_client::HttpReply;

constexpr int kMostRedirects = 8;
constexpr int kMostAttempts = 6;
constexpr std::chrono::seconds kLongestWait{300};
// A server that sends nothing for this long is asked again.
constexpr std::chrono::seconds kSilenceLimit{60};
constexpr size_t kMostReplyBytes = size_t{64} << 20;

bool is_redirect(int status) {
  constexpr std::array kRedirects = {301, 302, 303, 307, 308};
  return std::ranges::find(kRedirects, status) != kRedirects.end();
}

bool is_same_server(const BaseUrl& a, const BaseUrl& b) {
  return a.is_tls == b.is_tls && equal_ignoring_case(a.host, b.host) && a.port == b.port;
}

struct Place {
  BaseUrl server;
  std::string target;
};

/// The place to which the header Location of an answer from `from` leads.
Place follow(const BaseUrl& from, std::string_view location) {
  std::string text(location);
  if (text.starts_with("//")) text.insert(0, from.is_tls ? "https:" : "http:");
  if (text.starts_with('/')) {
    Place place{.server = from, .target = std::move(text)};
    place.server.path.clear();  // such a location begins at the host
    return place;
  }
  const size_t scheme = text.find("://");
  if (scheme == std::string::npos) {
    throw Error(
        fmt::format("{} redirects to '{}', which is not an address", from.authority(), location));
  }
  const size_t end = std::min(text.find_first_of("/?#", scheme + 3), text.size());
  Place place{.server = http_client::parse_url("redirect", text.substr(0, end)),
              .target = text.substr(end, text.find('#') - end)};
  if (!place.target.starts_with('/')) place.target.insert(0, "/");
  if (from.is_tls && !place.server.is_tls) {
    throw Error(fmt::format(
        "{} redirects from https to '{}', which anyone on the way could read and change",
        from.authority(),
        location));
  }
  return place;
}

std::optional<std::chrono::seconds> parse_seconds(std::string_view text) {
  int64_t seconds = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (text.empty() || error != std::errc{} || end != text.data() + text.size() || seconds < 0) {
    return std::nullopt;
  }
  return std::chrono::seconds(seconds);
}

/// The server's own error message, shortened, for a message.
std::string quote_message(const HttpHead& head) {
  constexpr size_t kMostBytes = 300;
  std::string text(head.header("x-error-message").substr(0, kMostBytes));
  std::ranges::replace_if(text, [](unsigned char c) { return c < ' ' || c >= 127; }, '?');
  return text.empty() ? std::string() : fmt::format(" The hub says: {}", text);
}

}  // namespace

bool Retries::is_worth_it(int status) noexcept {
  constexpr std::array kStatuses = {408, 425, 429, 500, 502, 503, 504};
  return std::ranges::find(kStatuses, status) != kStatuses.end();
}

void Retries::wait(const std::string& reason, std::string_view retry_after) {
  if (++num_failed_ >= kMostAttempts) {
    throw Error(
        fmt::format("{}; gave up after {} attempts. What has arrived is kept: the same "
                    "command goes on from there",
                    reason,
                    kMostAttempts));
  }
  const std::chrono::seconds own(int64_t{1} << (num_failed_ - 1));
  const std::chrono::seconds wait =
      std::min(parse_seconds(retry_after).value_or(own), kLongestWait);
  if (*on_wait_) (*on_wait_)(reason, wait);
  std::this_thread::sleep_for(wait);
}

HubConnection::Outcome HubConnection::get(const std::string& target,
                                          const HttpHeaders& headers,
                                          const Handlers& handlers) const {
  Place place{.server = options_.endpoint, .target = target};
  for (int hop = 0; hop <= kMostRedirects; ++hop) {
    HttpHeaders all = headers;
    all.emplace_back("accept-encoding", "identity");
    if (!options_.token.empty() && is_same_server(place.server, options_.endpoint)) {
      all.emplace_back("authorization", "Bearer " + options_.token);
    }
    HttpClient client(place.server,
                      http_client::ServerCertificate::checked,
                      options_.proxies.proxy_for(place.server));
    Outcome outcome;
    std::string location;
    client.send({.target = place.target, .headers = std::move(all), .silence_limit = kSilenceLimit},
                {.on_head =
                     [&](const HttpHead& head) {
                       was_reached_ = true;
                       outcome.head = head;
                       if (is_redirect(head.status)) {
                         location = head.header("location");
                         client.cancel("redirect");  // its body says nothing
                       } else {
                         handlers.on_head(head);
                       }
                     },
                 .on_piece = handlers.on_piece,
                 .on_end = [&](const std::string& error) { outcome.error = error; }});
    client.run();
    if (location.empty()) {
      if (outcome.head.status == 0 && !was_reached_) throw HubUnreachable(outcome.error);
      return outcome;
    }
    place = follow(place.server, location);
  }
  throw Error(fmt::format("GET {}: more than {} redirects", target, kMostRedirects));
}

HttpReply HubConnection::fetch(const std::string& target) const {
  Retries retries(options_.on_wait);
  while (true) {
    HttpReply reply;
    const Outcome outcome =
        get(target,
            {},
            {.on_head = [](const HttpHead&) {},
             .on_piece =
                 [&](std::string_view piece) {
                   reply.body += piece;
                   if (reply.body.size() > kMostReplyBytes) {
                     throw Error(fmt::format("GET {}: the answer is longer than 64 MiB", target));
                   }
                 }});
    static_cast<HttpHead&>(reply) = outcome.head;
    if (outcome.error.empty() && reply.status == 200) return reply;
    if (!outcome.error.empty()) {
      retries.wait(outcome.error);
    } else if (Retries::is_worth_it(reply.status)) {
      retries.wait(
          fmt::format("{}: {} {}", options_.endpoint.authority(), reply.status, reply.reason),
          reply.header("retry-after"));
    } else {
      refuse(reply, target);
    }
  }
}

void HubConnection::refuse(const HttpHead& head, std::string_view target) const {
  const std::string& repository = options_.repository;
  const std::string site = fmt::format("{}://{}{}",
                                       options_.endpoint.is_tls ? "https" : "http",
                                       options_.endpoint.host_header(),
                                       options_.endpoint.path);
  const std::string_view code = head.header("x-error-code");
  const std::string said = quote_message(head);
  const bool has_token = !options_.token.empty();
  if (code == "GatedRepo") {
    throw InvalidArgument(fmt::format(
        "{0} is gated: its owner wants consent to conditions first. Log in at {1}/{0} and accept "
        "them{2}.{3}",
        repository,
        site,
        has_token ? "; the account of the token has no access yet"
                  : fmt::format(", make a token with read access at {}/settings/tokens, and set "
                                "HF_TOKEN to it",
                                site),
        said));
  }
  if (code == "RevisionNotFound") {
    throw InvalidArgument(
        fmt::format("{} has no revision '{}': --revision takes a branch, a tag or a commit",
                    repository,
                    options_.revision));
  }
  if (head.status == 401 && has_token && code != "RepoNotFound") {
    throw InvalidArgument(fmt::format(
        "{} does not accept the token (HF_TOKEN, or the file of hf auth login): make a new one at "
        "{}/settings/tokens.{}",
        options_.endpoint.authority(),
        site,
        said));
  }
  if (head.status == 401 || head.status == 404) {
    throw InvalidArgument(fmt::format(
        "{} has no model {}, or the model is private. Check the spelling, capitals too{}.{}",
        options_.endpoint.authority(),
        repository,
        has_token ? "; if it is private, the account of the token cannot see it"
                  : "; for a private model set HF_TOKEN to a token with read access",
        said));
  }
  if (head.status == 403) {
    throw InvalidArgument(fmt::format("{} refuses {}: the token has no right to read it.{}",
                                      options_.endpoint.authority(),
                                      repository,
                                      said));
  }
  throw Error(fmt::format("GET {}: {} {}.{}", target, head.status, head.reason, said));
}

std::string url_path(std::string_view text, Slashes slashes) {
  std::string path;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool is_plain = (byte < 128 && std::isalnum(byte) != 0) || c == '-' || c == '.' ||
                          c == '_' || c == '~' || (c == '/' && slashes == Slashes::kept);
    path += is_plain ? std::string(1, c) : fmt::format("%{:02X}", byte);
  }
  return path;
}

}  // namespace reprise::hub
