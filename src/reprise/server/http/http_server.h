#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "reprise/server/http/http_exchange.h"

namespace reprise::server {

/// Limits on the use of memory and time by one client, in bytes and seconds.
/// docs/reference/server-limits.md lists them for users.
struct HttpLimits {
  size_t max_target_bytes = size_t{8} << 10;   // else 414
  size_t max_header_bytes = size_t{32} << 10;  // of all headers together; else 431
  size_t max_headers = 100;                    // else 431
  // Name and value of one header; a longer header gets status 431.
  size_t max_header_line_bytes = size_t{8} << 10;
  size_t max_body_bytes = size_t{16} << 20;  // else 413
  // bytes of a request to a route that takes no body; they are read and dropped. A longer body gets
  // status 413
  size_t max_unused_body_bytes = size_t{64} << 10;
  size_t max_all_body_bytes = size_t{256} << 20;  // of all requests together; else 503
  size_t max_connections = 4096;                  // else 503
  // connections of one address, or of one /64 network with IPv6; further ones get status 503. 0:
  // three quarters of max_connections
  size_t max_connections_per_peer = 0;
  // unsent bytes of a stream; a client that leaves more unread is disconnected
  size_t max_unsent_bytes = size_t{1} << 20;
  // from the end of the last answer to the end of the header; then status 408, or no answer if not
  // even the first byte has arrived
  int header_timeout_seconds = 15;
  int body_timeout_seconds = 60;        // for the whole body; else 408
  int body_stall_timeout_seconds = 20;  // between two parts of a body; then status 408
  int write_timeout_seconds = 30;       // for pending bytes to be accepted by the socket
};

enum class ClientCertificates { none, optional, required };

/// PEM files.
struct TlsOptions {
  std::string certificate_file;  // with the certificate chain
  std::string key_file;
  std::string ca_file;  // the authority whose client certificates are accepted
  ClientCertificates client_certificates = ClientCertificates::none;
  std::string ciphers;     // for TLS 1.2, in OpenSSL's syntax; empty: OpenSSL's default
  bool refreshes = false;  // reads the files again when they have changed, and at SIGHUP

  [[nodiscard]] bool is_set() const noexcept {
    return !certificate_file.empty() || !key_file.empty();
  }
};

struct HttpOptions {
  HttpLimits limits;
  TlsOptions tls;
  // "/prefix" that a proxy leaves at the start of paths; a path without it is also accepted
  std::string root_path;
};

/// The result of checking the head of a request.
struct HeadCheck {
  std::optional<HttpResponse> refusal;  // the answer to a request that is refused
  bool takes_body = true;               // false: the route ignores a body
};

/// A request whose answer has ended, for the access log.
struct AnsweredRequest {
  std::string_view peer;          // "127.0.0.1:50000"
  std::string_view request_line;  // "GET /health HTTP/1.1"
  int status = 0;                 // 499: the client disconnected before its answer began
  double seconds = 0;             // from the end of the request's head to the end of the answer
  AnswerFacts facts;
};

/// The callbacks of the server. All run on the I/O thread and must not throw.
struct HttpHandlers {
  /// Called with the head (`body` is empty) before the body is read.
  std::function<HeadCheck(const HttpRequest&)> check_head;
  std::function<void(HttpRequest, std::shared_ptr<HttpExchange>)> handle;
  /// Headers for every answer to this request, unless the answer sets them itself. Only the head of
  /// the request is set.
  std::function<HttpHeaders(const HttpRequest&)> headers;
  /// Called when an answer has ended: all of its bytes are waiting to be sent, or the client has
  /// disconnected.
  std::function<void(const AnsweredRequest&)> on_answer;
  /// Called when SIGINT, SIGTERM or SIGHUP arrives. If SIGHUP is ignored when run() starts, it
  /// stays ignored.
  std::function<void()> on_signal;
  /// Called after the TLS files were read again. `problem`: why the old ones stay in use; empty:
  /// new connections use the new ones.
  std::function<void(const std::string& problem)> on_tls_refresh;
  /// Called at SIGHUP, which then does not end the server. Empty: SIGHUP ends the server, unless it
  /// reads TLS files.
  std::function<void()> on_hang_up;
};

/// HTTP/1.1 with keep-alive, with or without TLS, on one thread: the thread that calls run(). The
/// server itself answers requests that break an HTTP rule or a limit, with the same error bodies as
/// the routes.
class HttpServer {
 public:
  /// \throws InvalidArgument for TLS files that cannot be used
  HttpServer(const HttpOptions& options, HttpHandlers handlers);
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;
  ~HttpServer();

  /// Returns the port, which the system chooses when `port` is 0. \throws InvalidArgument when the
  /// server cannot listen on the address
  uint16_t listen(const std::string& host, uint16_t port);
  /// The same on a Unix socket. A stale socket file without a listener is replaced.
  void listen_unix(const std::string& path);
  /// Takes the address without accepting connections. A server that only calls reserve() checks
  /// whether another server could listen there. \throws InvalidArgument as listen() does
  void reserve(const std::string& host, uint16_t port);
  void reserve_unix(const std::string& path);
  /// Serves until shut_down() is done.
  void run();
  /// Stops accepting, lets answers go out for at most `grace_seconds`, then ends run().
  void shut_down(int grace_seconds);
  /// Ends run() now.
  void stop();

  /// Runs `task` on the I/O thread. Thread-safe; tasks that are still queued after run() are
  /// dropped.
  void post(std::function<void()> task);
  /// Runs `task` on the I/O thread, `seconds` from now.
  void post_after(int seconds, std::function<void()> task);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace reprise::server
