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

/// What one client may cost. Bytes and seconds.
struct HttpLimits {
  size_t max_target_bytes = size_t{8} << 10;       // else 414
  size_t max_header_bytes = size_t{32} << 10;      // all of them; else 431
  size_t max_headers = 100;                        // else 431
  size_t max_header_line_bytes = size_t{8} << 10;  // name and value of one; else 431
  size_t max_body_bytes = size_t{16} << 20;        // else 413
  size_t max_all_body_bytes = size_t{256} << 20;   // of all requests together; else 503
  size_t max_connections = 4096;                   // else 503
  size_t max_unsent_bytes = size_t{1} << 20;       // of a stream; else the client is disconnected
  int header_timeout_seconds = 15;  // from the end of the last answer to the end of the header
  int body_timeout_seconds = 60;
  int write_timeout_seconds = 30;  // for what is being sent to make it to the socket
};

enum class ClientCertificates { none, optional, required };

/// PEM files.
struct TlsOptions {
  std::string certificate_file;  // with the chain
  std::string key_file;
  std::string ca_file;  // whose certificates clients may show
  ClientCertificates client_certificates = ClientCertificates::none;
  std::string ciphers;  // of TLS 1.2, as OpenSSL writes them; empty: OpenSSL's choice

  [[nodiscard]] bool is_set() const noexcept {
    return !certificate_file.empty() || !key_file.empty();
  }
};

struct HttpOptions {
  HttpLimits limits;
  TlsOptions tls;
  std::string root_path;  // "/prefix" that a proxy leaves in front of paths; may be absent there
};

/// What the server asks of its owner; all on the I/O thread, none may throw.
struct HttpHandlers {
  /// Sees the head (`body` is empty) before the body is read; an answer refuses the request.
  std::function<std::optional<HttpResponse>(const HttpRequest&)> check_head;
  std::function<void(HttpRequest, std::shared_ptr<HttpExchange>)> handle;
  /// Headers that every answer to this request has, unless the answer brings them itself. The head
  /// alone is there.
  std::function<HttpHeaders(const HttpRequest&)> headers;
  /// An answer begins: for the log.
  std::function<void(std::string_view peer, std::string_view request_line, int status)> on_answer;
  /// SIGINT or SIGTERM arrived.
  std::function<void()> on_signal;
};

/// HTTP/1.1 with keep-alive, with or without TLS, on one thread: the one that calls run(). What
/// breaks the rules of HTTP or a limit is answered here, with the same error bodies as everything
/// else.
class HttpServer {
 public:
  /// \throws InvalidArgument for TLS files that do not work
  HttpServer(const HttpOptions& options, HttpHandlers handlers);
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;
  ~HttpServer();

  /// Returns the port, which the system chooses when `port` is 0.
  /// \throws InvalidArgument when the address cannot be had
  uint16_t listen(const std::string& host, uint16_t port);
  /// The same on a Unix socket; a socket that nobody listens on any more is replaced.
  void listen_unix(const std::string& path);
  /// Serves until shut_down() is done.
  void run();
  /// Stops accepting, lets answers go out for at most `grace_seconds`, then ends run().
  void shut_down(int grace_seconds);
  /// Ends run() now.
  void stop();

  /// Runs `task` on the I/O thread. Thread-safe; tasks that are still there after run() are
  /// dropped.
  void post(std::function<void()> task);
  /// Runs `task` on the I/O thread, `seconds` from now.
  void post_after(int seconds, std::function<void()> task);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace reprise::server
