#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "reprise/base/work_limit.h"
#include "reprise/server/http/trace_parent.h"

namespace reprise::server {

/// A request in the form that routes read: only the parts that they use, without the connection.
struct HttpRequest {
  std::string method;  // as sent: "GET"
  std::string path;    // without the query
  std::string query;   // as sent, without the question mark
  std::string authorization;
  std::string content_type;
  std::string host;               // Host, perhaps with a port
  std::string origin;             // Origin
  std::string fetch_site;         // Sec-Fetch-Site; only browsers send it
  std::string if_none_match;      // If-None-Match
  std::string preflight_method;   // Access-Control-Request-Method
  std::string preflight_headers;  // Access-Control-Request-Headers
  std::string request_id;         // X-Request-Id; at most 128 visible characters, else empty
  std::optional<TraceParent> trace_parent;  // traceparent and tracestate
  std::string client;  // the client for fair sharing: the address, or the API key
  std::string body;
  std::shared_ptr<void> body_share;  // the body's share of the memory limit for all bodies
  WorkLimit work;                    // the limit of the work that the server does for the request
};

using HttpHeaders = std::vector<std::pair<std::string, std::string>>;
inline constexpr const char* kRequestIdHeader = "X-Request-Id";
/// Replaces the status, in logs and metrics, of an answer whose client disconnected before it
/// began.
inline constexpr int kClientClosed = 499;

/// The text for a status, as in "Not Found" for 404.
[[nodiscard]] std::string_view reason_phrase(int status);

struct HttpResponse {
  int status = 200;
  std::string body;
  std::string content_type = "application/json";
  HttpHeaders headers;
};

/// Facts about an answer that a route reports to the access log. Numbers that are not set do not
/// apply.
struct AnswerFacts {
  std::string request_id;
  std::optional<int64_t> prompt_tokens;
  std::optional<int64_t> cached_tokens;  // of the prompt tokens
  std::optional<int64_t> completion_tokens;
  std::string finish_reason;  // several choices with different reasons: "stop,length"
};

/// The answer to one request: either `respond` once, or `begin_stream`, `write` any number of times
/// and `finish_stream`. I/O thread only. After the client has disconnected, the calls do nothing.
class HttpExchange {
 public:
  HttpExchange() = default;
  HttpExchange(const HttpExchange&) = delete;
  HttpExchange& operator=(const HttpExchange&) = delete;
  virtual ~HttpExchange() = default;

  virtual void respond(HttpResponse response) = 0;
  /// Sends the head; `head.body` is ignored.
  virtual void begin_stream(const HttpResponse& head) = 0;
  /// The bytes are sent when the connection can take them. A client that leaves too many bytes
  /// unread is disconnected.
  virtual void write(std::string_view bytes) = 0;
  virtual void finish_stream() = 0;
  [[nodiscard]] virtual bool client_is_gone() const = 0;
  /// `callback` runs at most once, and only if the client disconnects before the answer is
  /// complete.
  virtual void on_disconnect(std::function<void()> callback) = 0;
  /// Sets facts for the access log. Counts if called before respond() or finish_stream(), or during
  /// the callback of on_disconnect().
  virtual void note(AnswerFacts facts) = 0;
};

}  // namespace reprise::server
