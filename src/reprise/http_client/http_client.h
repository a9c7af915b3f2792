#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "reprise/http_client/base_url.h"
#include "reprise/http_client/http_proxy.h"

namespace reprise::http_client {

using Clock = std::chrono::steady_clock;

using HttpHeaders = std::vector<std::pair<std::string, std::string>>;

struct HttpCall {
  std::string method = "GET";
  std::string target = "/";
  HttpHeaders headers;
  std::string body;  // JSON when not empty
  /// The longest time in which the server may send nothing.
  std::chrono::seconds silence_limit = std::chrono::hours(6);  // as long as vLLM's client waits
};

/// The beginning of an answer.
struct HttpHead {
  int status = 0;
  std::string reason;
  HttpHeaders headers;

  /// The value of the first header with this name, in any case; empty if there is none.
  [[nodiscard]] std::string_view header(std::string_view name) const;
};

/// All handlers run on the thread that calls run(). `on_end` runs exactly once, after all others.
struct HttpHandlers {
  std::function<void(const HttpHead& head)> on_head;
  std::function<void(std::string_view piece)> on_piece;
  /// `error` is empty if the whole answer arrived; otherwise it says why the answer did not arrive.
  std::function<void(const std::string& error)> on_end;
};

struct HttpReply : HttpHead {
  std::string body;
};

/// With `checked`, the server's certificate must name the host and be signed by an authority that
/// this machine trusts (OpenSSL's default places; SSL_CERT_FILE and SSL_CERT_DIR name other
/// places).
enum class ServerCertificate : uint8_t { checked, unchecked };

/// An HTTP/1.1 client of one server, with TLS for an https URL. It reads any number of answers at
/// the same time and reuses connections. All work runs on the thread that calls run(). Handlers may
/// send more requests.
class HttpClient {
 public:
  /// If there is a `proxy`, an https server is asked through it. \throws Error when TLS is needed
  /// and cannot be set up
  explicit HttpClient(BaseUrl server,
                      ServerCertificate certificate = ServerCertificate::checked,
                      std::optional<HttpProxy> proxy = std::nullopt);
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;
  ~HttpClient();

  void send(HttpCall call, HttpHandlers handlers);
  /// Makes run() call `task` at `time` or later.
  void at(Clock::time_point time, std::function<void()> task);
  /// Runs until all answers have ended and all tasks have run. Passes on an exception of a handler.
  void run();
  /// Works like run(), but SIGINT ends all answers instead of the program. Returns true if SIGINT
  /// came.
  bool run_interruptible();
  /// Ends every open answer with this error and drops the waiting tasks.
  void cancel(const std::string& error);

  /// Waits for one small answer. \throws Error when no answer arrives, or when it exceeds 64 MiB
  HttpReply fetch(HttpCall call);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace reprise::http_client
