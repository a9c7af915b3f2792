#include "reprise/server/http/http_head.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/field.hpp>
#include <iterator>
#include <string>
#include <utility>

#include "reprise/base/equal_ignoring_case.h"

namespace reprise::server {
namespace {

namespace beast = boost::beast;
namespace http = boost::beast::http;
using boost::system::error_code;

constexpr size_t kMaxLoggedMethod = 16;
constexpr size_t kMaxLoggedTarget = 128;

bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// Whether the first line of a request ends with a version of HTTP, known or not.
bool ends_with_a_version(std::string_view request) {
  constexpr std::string_view kName = " HTTP/";
  const std::string_view line = request.substr(0, request.find("\r\n"));
  const size_t size = kName.size() + 3;  // "1.1"
  if (line.size() < size || line.size() == request.size()) return false;
  const std::string_view end = line.substr(line.size() - size);
  return end.starts_with(kName) && is_digit(end[size - 3]) && end[size - 2] == '.' &&
         is_digit(end[size - 1]);
}

/// The HTTP status for an error of Beast; 0 when the client closed the connection, because then
/// there is no answer.
int status_of(const error_code& error, std::string_view unread) {
  if (error == http::error::body_limit) return 413;
  if (error == http::error::header_limit || error == http::error::buffer_overflow) return 431;
  if (error == http::error::bad_version) return ends_with_a_version(unread) ? 505 : 400;
  if (error == http::error::end_of_stream || error == http::error::partial_message) return 0;
  return error.category() == make_error_code(http::error::bad_method).category() ? 400 : 0;
}

std::string_view sentence_of(int status) {
  switch (status) {
    case 413:
      return "The request body is too large.";
    case 414:
      return "The request target is too long.";
    case 431:
      return "The request's headers are too large or too many.";
    case 501:
      return "The request's method is not one of HTTP's.";
    case 505:
      return "Only HTTP/1.0 and HTTP/1.1 are supported here.";
    default:
      return "This is not a well-formed HTTP/1.1 request.";
  }
}

ApiError error_of(int status) { return ApiError(status, std::string(sentence_of(status))); }

std::string visible_or_empty(std::string_view text) {
  constexpr size_t kMaxChars = 128;
  const bool is_fine =
      text.size() <= kMaxChars &&
      std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c < 127; });
  return is_fine ? std::string(text) : std::string();
}

/// Accepts a host name or an address, optionally with a port, or nothing. Other text is refused,
/// because another parser could read it as a path or as another host.
bool is_host(std::string_view text) {
  const bool is_ipv6 = text.starts_with('[');
  const size_t end = is_ipv6 ? text.find(']') : text.find(':');
  if (is_ipv6 && end == std::string_view::npos) return false;
  const std::string_view name = is_ipv6 ? text.substr(1, end - 1) : text.substr(0, end);
  const std::string_view others = is_ipv6 ? ".:%-_" : ".-_";
  std::string_view port = text.substr(std::min(is_ipv6 ? end + 1 : end, text.size()));
  if (!port.empty() && !port.starts_with(':')) return false;
  if (!port.empty()) port.remove_prefix(1);
  return std::ranges::all_of(port, is_digit) && port.size() <= 5 &&
         (!name.empty() || text.empty()) && std::ranges::all_of(name, [&](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || is_digit(c) ||
                  others.find(c) != std::string_view::npos;
         });
}

/// The two parts of a request's target. Only the form of a whole URL has an authority.
struct Target {
  std::optional<std::string_view> authority;
  std::string_view path_and_query;
};

Target split(std::string_view target) {
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (!equal_ignoring_case(target.substr(0, scheme.size()), scheme)) continue;
    const std::string_view rest = target.substr(scheme.size());
    const size_t end = std::min(rest.find_first_of("/?"), rest.size());
    return {.authority = rest.substr(0, end), .path_and_query = rest.substr(end)};
  }
  return {.authority = std::nullopt, .path_and_query = target};
}

/// RFC 9112, 3.2: a path, a whole URL, or the star of OPTIONS; in visible ASCII.
bool is_target(std::string_view text, http::verb method) {
  if (std::any_of(text.begin(), text.end(), [](char c) { return c <= ' ' || c >= 127; })) {
    return false;
  }
  const auto [authority, path] = split(text);
  if (authority) return !authority->empty() && is_host(*authority);
  return path.starts_with('/') || (path == "*" && method == http::verb::options);
}

std::string_view path_below(std::string_view path, std::string_view root) {
  const bool is_below = path.starts_with(root) && path.substr(root.size()).starts_with('/');
  return !root.empty() && is_below ? path.substr(root.size()) : path;
}

/// The value of the Authorization header. Clients of Anthropic's API send only the key, in another
/// header.
std::string authorization_of(const RequestHead& head) {
  const auto authorization = head[http::field::authorization];
  if (!authorization.empty() || head.count("X-Api-Key") == 0) return std::string(authorization);
  return fmt::format("Bearer {}", std::string_view(head["X-Api-Key"]));
}

/// If the header is repeated, the standard's form is violated.
std::optional<TraceParent> trace_parent_of(const RequestHead& head) {
  if (head.count("traceparent") != 1) return std::nullopt;
  const bool has_one_state = head.count("tracestate") == 1;
  return parse_trace_parent(head["traceparent"], has_one_state ? head["tracestate"] : "");
}

}  // namespace

std::optional<ApiError> protocol_error(const error_code& error, std::string_view unread) {
  const int status = status_of(error, unread);
  if (status == 0) return {};
  return error_of(status);
}

std::optional<ApiError> check_head(const RequestHead& head, const HttpLimits& limits) {
  if (head.version() != 10 && head.version() != 11) return error_of(505);
  if (head.method() == http::verb::unknown) return error_of(501);
  if (head.target().size() > limits.max_target_bytes) return error_of(414);
  if (std::cmp_greater(std::distance(head.begin(), head.end()), limits.max_headers)) {
    return error_of(431);
  }
  for (const auto& field : head) {
    if (field.name_string().size() + field.value().size() > limits.max_header_line_bytes) {
      return error_of(431);
    }
  }
  if (!is_target(head.target(), head.method())) {
    return ApiError(400, "The request's target is neither a path nor a URL of this server.");
  }
  const size_t num_hosts = head.count(http::field::host);
  const std::string_view host = head[http::field::host];
  if (!is_host(host) || (num_hosts == 1 && host.empty())) {
    return ApiError(400, "The Host header is not a host.");
  }
  if (num_hosts > 1 || (num_hosts == 0 && head.version() == 11)) {
    return ApiError(400, "A request needs exactly one Host header.");
  }
  const size_t num_encodings = head.count(http::field::transfer_encoding);
  if (num_encodings > 0 &&
      (num_encodings > 1 || head.version() != 11 || head.count(http::field::content_length) > 0 ||
       !equal_ignoring_case(head[http::field::transfer_encoding], "chunked"))) {
    return ApiError(400, "Transfer-Encoding may only be chunked, once, without a Content-Length.");
  }
  // Beast accepts a list of equal numbers, but a server in front of this one may read the list in
  // another way.
  const std::string_view length = head[http::field::content_length];
  if (head.count(http::field::content_length) > 1 || !std::ranges::all_of(length, is_digit)) {
    return ApiError(400, "Content-Length is repeated, or not one number.");
  }
  if (head.count(http::field::content_encoding) > 0 &&
      !equal_ignoring_case(head[http::field::content_encoding], "identity")) {
    return ApiError(415, "Compressed request bodies are not supported.");
  }
  return {};
}

HttpRequest read_head(const RequestHead& head, std::string_view root_path) {
  const auto text = [&head](http::field field) { return std::string(head[field]); };
  const auto [authority, target] = split(head.target());
  const size_t end_of_path = std::min(target.find('?'), target.size());
  const std::string_view path = end_of_path == 0 ? "/" : target.substr(0, end_of_path);
  return {.method = std::string(head.method_string()),
          .path = std::string(path_below(path, root_path)),
          .query = std::string(target.substr(std::min(end_of_path + 1, target.size()))),
          .authorization = authorization_of(head),
          .content_type = text(http::field::content_type),
          .host = authority ? std::string(*authority) : text(http::field::host),
          .origin = text(http::field::origin),
          .fetch_site = std::string(head["Sec-Fetch-Site"]),
          .if_none_match = text(http::field::if_none_match),
          .preflight_method = text(http::field::access_control_request_method),
          .preflight_headers = text(http::field::access_control_request_headers),
          .request_id = visible_or_empty(std::string(head[kRequestIdHeader])),
          .trace_parent = trace_parent_of(head),
          .client = {},
          .body = {},
          .body_share = {},
          .work = {}};
}

std::string request_line(const RequestHead& head) {
  return fmt::format("{} {} HTTP/1.{}",
                     std::string_view(head.method_string()).substr(0, kMaxLoggedMethod),
                     std::string_view(head.target()).substr(0, kMaxLoggedTarget),
                     head.version() == 10 ? 0 : 1);
}

}  // namespace reprise::server
