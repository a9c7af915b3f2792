#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace reprise::bench {

using Clock = std::chrono::steady_clock;

/// "http://host:port/path", cut up.
struct BaseUrl {
  bool is_tls = false;  // https
  std::string host;
  uint16_t port = 80;
  std::string path;  // "" or "/v1": comes before every target

  /// "host:port", with brackets around an IPv6 address.
  [[nodiscard]] std::string authority() const;
};
/// \throws InvalidArgument naming `option`
[[nodiscard]] BaseUrl parse_url(std::string_view option, std::string_view text);

struct HttpCall {
  std::string method = "GET";
  std::string target = "/";
  std::vector<std::pair<std::string, std::string>> headers;
  std::string body;  // JSON when not empty
};

/// All run on the thread that calls run(); `on_end` is the last, exactly once.
struct HttpHandlers {
  std::function<void(int status, std::string_view reason)> on_head;
  std::function<void(std::string_view piece)> on_piece;
  /// Empty when the whole answer arrived; else why it did not.
  std::function<void(const std::string& error)> on_end;
};

struct HttpReply {
  int status = 0;
  std::string reason;
  std::string body;
};

/// Whether the certificate of a server must be of that host and signed by somebody whom this
/// machine trusts (OpenSSL's places; SSL_CERT_FILE and SSL_CERT_DIR name others).
enum class ServerCertificate : uint8_t { checked, unchecked };

/// HTTP/1.1 to one server, with TLS where its URL says https, any number of answers at once,
/// connections reused. One thread: the one that calls run(). Handlers may send more.
class HttpClient {
 public:
  /// \throws Error when TLS is needed and cannot be set up
  explicit HttpClient(BaseUrl server, ServerCertificate certificate = ServerCertificate::checked);
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;
  ~HttpClient();

  void send(HttpCall call, HttpHandlers handlers);
  /// Runs `task` in run(), not before `time`.
  void at(Clock::time_point time, std::function<void()> task);
  /// Until nothing is being answered and no task waits. An exception of a handler comes out here.
  void run();
  /// As run(), but SIGINT cuts all answers off instead of ending the program. True: that happened.
  bool run_interruptible();
  /// Ends every answer with this error, and forgets the tasks.
  void cancel(const std::string& error);

  /// One small answer, waited for. \throws Error when there is none, or more than 64 MiB
  HttpReply fetch(HttpCall call);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace reprise::bench
