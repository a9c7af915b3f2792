#include "reprise/server/http_server.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <exception>
#include <type_traits>
#include <unordered_set>
#include <utility>

#include "reprise/base/error.h"
#include "reprise/server/api_error.h"
#include "reprise/server/client_stream.h"
#include "reprise/server/tls_context.h"

namespace reprise::server {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using asio::ip::tcp;
using boost::system::error_code;
using std::chrono::seconds;

constexpr size_t kReadAheadBytes = size_t{64} << 10;
// What a client whose request was refused may still send before it is cut off: closing at once
// would reset the connection and lose the answer.
constexpr size_t kLingerBytes = size_t{64} << 20;
constexpr int kLingerSeconds = 5;
constexpr size_t kMaxLoggedTarget = 256;

/// Beast's reasons, as statuses; 0: the client went, nobody to answer.
int status_of(const error_code& error) {
  if (error == http::error::body_limit) return 413;
  if (error == http::error::header_limit || error == http::error::buffer_overflow) return 431;
  if (error == http::error::bad_version) return 505;
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
    case 505:
      return "Only HTTP/1.0 and HTTP/1.1 are spoken here.";
    default:
      return "This is not a well-formed HTTP/1.1 request.";
  }
}

std::string visible_or_empty(std::string_view text) {
  constexpr size_t kMaxChars = 128;
  const bool is_fine =
      text.size() <= kMaxChars &&
      std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c < 127; });
  return is_fine ? std::string(text) : std::string();
}

/// A name or an address, perhaps with a port: nothing that another parser could read as a path.
bool is_host(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view(".-_:[]%").find(c) != std::string_view::npos;
  });
}

}  // namespace

std::string_view reason_phrase(int status) {
  return http::obsolete_reason(static_cast<http::status>(status));
}

struct HttpServer::Impl {
  class Session;
  class Exchange;

  Impl(const HttpOptions& options, HttpHandlers handler_functions)
      : limits(options.limits),
        root_path(options.root_path),
        handlers(std::move(handler_functions)) {
    if (options.tls.is_set()) tls.emplace(make_tls_context(options.tls));
  }

  template <typename Acceptor>
  void accept(Acceptor& acceptor);
  void take(ClientStream::Socket socket, std::string peer);
  [[nodiscard]] std::shared_ptr<void> share_body_memory(size_t num_bytes);
  void wait_for_signal();
  void remove(Session* session);

  HttpLimits limits;
  std::string root_path;
  HttpHandlers handlers;
  std::optional<asio::ssl::context> tls;
  // Also requests hold it, which may outlive this.
  std::shared_ptr<std::atomic<size_t>> all_body_bytes = std::make_shared<std::atomic<size_t>>(0);
  // Sessions own themselves by what they wait for, so they go when `io` goes.
  std::unordered_set<Session*> sessions;
  bool shutting_down = false;
  asio::io_context io{1};
  tcp::acceptor acceptor{io};
  asio::local::stream_protocol::acceptor unix_acceptor{io};
  std::string unix_path;  // to remove in the end
  asio::signal_set signals{io};
  asio::steady_timer accept_pause{io};
};

/// One connection. States: reading a request, answering it (an exchange exists), lingering, closed.
class HttpServer::Impl::Session : public std::enable_shared_from_this<Session> {
 public:
  Session(Impl& server, ClientStream::Socket socket, std::string peer)
      : server_(&server),
        stream_(std::move(socket), server.tls ? &*server.tls : nullptr),
        peer_(std::move(peer)) {
    server_->sessions.insert(this);
  }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  ~Session() { server_->remove(this); }

  void start();
  void refuse(const HttpResponse& response) {
    keep_alive_ = false;
    has_unread_body_ = true;
    send_whole(response);
  }
  /// Idle connections close now, the others after their answer.
  void wind_down() {
    keep_alive_ = false;
    if (!is_answering_ && !is_sending_) close();
  }

  // For Exchange.
  void send_whole(const HttpResponse& response);
  void send_stream_head(const HttpResponse& head);
  void send_stream_bytes(std::string_view bytes);
  void send_stream_end();

 private:
  using Parser = http::request_parser<http::string_body>;

  void read_header();
  void read_ahead();
  void finish_connection();
  void on_header(const error_code& error);
  [[nodiscard]] std::optional<ApiError> check_rules() const;
  void read_body();
  void on_body(const error_code& error);
  void answer_protocol_error(const error_code& error);
  void watch_for_disconnect();
  void on_readable();
  void flush();
  void on_sent(const error_code& error);
  void linger();
  void disconnect();
  void close();
  void append_head(const HttpResponse& response, std::string_view framing);

  Impl* server_;  // outlives every session
  ClientStream stream_;
  std::string peer_;          // "127.0.0.1:50000"
  std::string request_line_;  // "GET /health HTTP/1.1"
  HttpHeaders extra_headers_;
  beast::flat_buffer buffer_{2 * kReadAheadBytes};
  std::optional<Parser> parser_;
  HttpRequest request_;
  std::weak_ptr<Exchange> exchange_;
  std::string unsent_;
  std::string being_sent_;
  std::array<char, 4096> discarded_{};
  size_t num_discarded_ = 0;
  bool keep_alive_ = false;
  bool is_http_1_0_ = false;
  bool is_head_ = false;
  bool is_answering_ = false;  // from the whole request to the end of its answer's text
  bool is_streaming_ = false;
  bool is_sending_ = false;
  bool is_watching_ = false;
  bool is_reading_ahead_ = false;  // TLS: a read is pending while a request is answered
  bool has_unread_body_ = false;
  bool is_closed_ = false;
};

class HttpServer::Impl::Exchange : public HttpExchange {
 public:
  explicit Exchange(std::shared_ptr<Session> session) : session_(std::move(session)) {}

  void respond(HttpResponse response) override {
    if (auto session = std::exchange(session_, nullptr)) session->send_whole(response);
  }
  void begin_stream(const HttpResponse& head) override {
    if (session_) session_->send_stream_head(head);
  }
  void write(std::string_view bytes) override {
    // The session may disconnect, which lets go of it here.
    if (auto session = session_; session && !bytes.empty()) session->send_stream_bytes(bytes);
  }
  void finish_stream() override {
    if (auto session = std::exchange(session_, nullptr)) session->send_stream_end();
  }
  [[nodiscard]] bool client_is_gone() const override { return session_ == nullptr; }
  void on_disconnect(std::function<void()> callback) override { callback_ = std::move(callback); }

  void client_went() {
    if (std::exchange(session_, nullptr) == nullptr) return;
    if (auto callback = std::exchange(callback_, nullptr)) callback();
  }

 private:
  std::shared_ptr<Session> session_;
  std::function<void()> callback_;
};

void HttpServer::Impl::Session::start() {
  if (!stream_.is_tls()) return read_header();
  stream_.expires_after(seconds(server_->limits.header_timeout_seconds));
  stream_.async_handshake([self = shared_from_this()](error_code error) {
    error ? self->close() : self->read_header();
  });
}

void HttpServer::Impl::Session::read_header() {
  if (is_reading_ahead_) return;  // that read goes on here
  parser_.emplace();
  parser_->header_limit(static_cast<uint32_t>(server_->limits.max_header_bytes));
  parser_->body_limit(server_->limits.max_body_bytes);
  stream_.expires_after(seconds(server_->limits.header_timeout_seconds));
  http::async_read_header(
      stream_, buffer_, *parser_, [self = shared_from_this()](error_code error, size_t) {
        self->on_header(error);
      });
}

void HttpServer::Impl::Session::answer_protocol_error(const error_code& error) {
  const int status = status_of(error);
  if (status == 0) return close();
  refuse(error_response(ApiError(status, std::string(sentence_of(status)))));
}

std::optional<ApiError> HttpServer::Impl::Session::check_rules() const {
  const auto& head = parser_->get();
  const HttpLimits& limits = server_->limits;
  if (head.version() != 10 && head.version() != 11)
    return ApiError(505, std::string(sentence_of(505)));
  if (head.target().size() > limits.max_target_bytes)
    return ApiError(414, std::string(sentence_of(414)));
  if (static_cast<size_t>(std::distance(head.begin(), head.end())) > limits.max_headers) {
    return ApiError(431, std::string(sentence_of(431)));
  }
  for (const auto& field : head) {
    if (field.name_string().size() + field.value().size() > limits.max_header_line_bytes) {
      return ApiError(431, std::string(sentence_of(431)));
    }
  }
  if (!is_host(head[http::field::host])) {
    return ApiError(400, "The Host header is no host.");
  }
  const size_t num_hosts = head.count(http::field::host);
  if (num_hosts > 1 || (num_hosts == 0 && head.version() == 11)) {
    return ApiError(400, "A request needs exactly one Host header.");
  }
  const size_t num_encodings = head.count(http::field::transfer_encoding);
  if (num_encodings > 0 &&
      (num_encodings > 1 || head.version() != 11 || head.count(http::field::content_length) > 0 ||
       !beast::iequals(head[http::field::transfer_encoding], "chunked"))) {
    return ApiError(400, "Transfer-Encoding may only be chunked, once, without a Content-Length.");
  }
  if (head.count(http::field::content_length) > 1) {
    return ApiError(400, "Content-Length is repeated.");
  }
  if (head.count(http::field::content_encoding) > 0 &&
      !beast::iequals(head[http::field::content_encoding], "identity")) {
    return ApiError(415, "Compressed request bodies are not supported.");
  }
  return {};
}

void HttpServer::Impl::Session::on_header(const error_code& error) {
  if (error) return answer_protocol_error(error);
  const auto& head = parser_->get();
  is_http_1_0_ = head.version() == 10;
  is_head_ = head.method() == http::verb::head;
  keep_alive_ = parser_->keep_alive() && !server_->shutting_down;
  request_line_ = fmt::format("{} {} HTTP/1.{}",
                              std::string_view(head.method_string()),
                              std::string_view(head.target()).substr(0, kMaxLoggedTarget),
                              is_http_1_0_ ? 0 : 1);
  if (const std::optional<ApiError> broken = check_rules()) return refuse(error_response(*broken));
  const auto text = [&head](http::field field) { return std::string(head[field]); };
  std::string_view path = head.target().substr(0, head.target().find('?'));
  const std::string& root = server_->root_path;
  if (!root.empty() && path.starts_with(root) && path.substr(root.size()).starts_with('/')) {
    path.remove_prefix(root.size());
  }
  request_ = {.method = std::string(head.method_string()),
              .path = std::string(path),
              .authorization = text(http::field::authorization),
              .content_type = text(http::field::content_type),
              .origin = text(http::field::origin),
              .preflight_method = text(http::field::access_control_request_method),
              .preflight_headers = text(http::field::access_control_request_headers),
              .request_id = visible_or_empty(std::string(head["X-Request-Id"])),
              .body = {},
              .body_share = {}};
  extra_headers_ = server_->handlers.headers(request_);
  if (const std::optional<HttpResponse> refusal = server_->handlers.check_head(request_)) {
    if (!parser_->is_done()) return refuse(*refusal);
    is_answering_ = true;
    return send_whole(*refusal);
  }
  if (parser_->is_done()) return on_body({});
  // A body in chunks does not say how large it will be.
  const auto length = parser_->content_length();
  request_.body_share = server_->share_body_memory(
      static_cast<size_t>(length ? *length : server_->limits.max_body_bytes));
  if (!request_.body_share) {
    return refuse(error_response(
        ApiError(503, "The server is reading as many large requests as it has memory for.")));
  }
  if (!beast::iequals(head[http::field::expect], "100-continue")) return read_body();
  stream_.expires_after(seconds(server_->limits.write_timeout_seconds));
  asio::async_write(stream_,
                    asio::buffer(std::string_view("HTTP/1.1 100 Continue\r\n\r\n")),
                    [self = shared_from_this()](error_code failed, size_t) {
                      if (failed) return self->close();
                      self->read_body();
                    });
}

void HttpServer::Impl::Session::read_body() {
  stream_.expires_after(seconds(server_->limits.body_timeout_seconds));
  http::async_read(
      stream_, buffer_, *parser_, [self = shared_from_this()](error_code error, size_t) {
        self->on_body(error);
      });
}

void HttpServer::Impl::Session::on_body(const error_code& error) {
  if (error) return answer_protocol_error(error);
  request_.body = std::move(parser_->get().body());
  is_answering_ = true;
  auto exchange = std::make_shared<Exchange>(shared_from_this());
  exchange_ = exchange;
  server_->handlers.handle(std::move(request_), std::move(exchange));
  watch_for_disconnect();
}

void HttpServer::Impl::Session::watch_for_disconnect() {
  if (is_watching_ || is_closed_ || !is_answering_) return;
  is_watching_ = true;
  stream_.socket().async_wait(tcp::socket::wait_read,
                              [self = shared_from_this()](error_code error) {
                                self->is_watching_ = false;
                                if (!error) self->on_readable();
                              });
}

void HttpServer::Impl::Session::on_readable() {
  if (is_closed_ || !is_answering_) return;
  // A client that pipelines is read ahead for a while, so that its going is still seen.
  if (buffer_.size() >= kReadAheadBytes) return;
  if (stream_.is_tls()) return read_ahead();
  const auto space = buffer_.prepare(discarded_.size());
  const ssize_t num_bytes =
      ::recv(stream_.socket().native_handle(), space.data(), space.size(), MSG_DONTWAIT);
  if (num_bytes > 0) buffer_.commit(static_cast<size_t>(num_bytes));
  const bool is_alive =
      num_bytes > 0 ||
      (num_bytes < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR));
  if (is_alive) {
    watch_for_disconnect();
  } else {
    disconnect();
  }
}

void HttpServer::Impl::Session::read_ahead() {
  is_reading_ahead_ = true;
  // For the rest of what TLS encrypted at once.
  stream_.expires_after(seconds(server_->limits.header_timeout_seconds));
  stream_.async_read_some(buffer_.prepare(discarded_.size()),
                          [self = shared_from_this()](error_code error, size_t num_bytes) {
                            self->is_reading_ahead_ = false;
                            if (self->is_closed_) return;
                            self->buffer_.commit(num_bytes);
                            if (error) return self->disconnect();
                            if (self->is_answering_) return self->watch_for_disconnect();
                            if (!self->is_sending_)
                              self->read_header();  // else that comes after what is being sent
                          });
}

void HttpServer::Impl::Session::append_head(const HttpResponse& response,
                                            std::string_view framing) {
  if (!request_line_.empty()) {
    server_->handlers.on_answer(peer_, request_line_, response.status);
    request_line_.clear();
  }
  unsent_ += fmt::format(
      "HTTP/1.1 {} {}\r\nServer: reprise\r\n", response.status, reason_phrase(response.status));
  if (!response.content_type.empty()) {
    unsent_ += fmt::format("Content-Type: {}\r\n", response.content_type);
  }
  const auto append = [this](const HttpHeaders& headers) {
    for (const auto& [name, value] : headers) unsent_ += fmt::format("{}: {}\r\n", name, value);
  };
  append(response.headers);
  append(extra_headers_);
  if (!keep_alive_) {
    unsent_ += "Connection: close\r\n";
  } else if (is_http_1_0_) {
    unsent_ += "Connection: keep-alive\r\n";
  }
  unsent_ += framing;
  unsent_ += "\r\n";
}

void HttpServer::Impl::Session::send_whole(const HttpResponse& response) {
  if (is_closed_) return;
  append_head(response, fmt::format("Content-Length: {}\r\n", response.body.size()));
  if (!is_head_) unsent_ += response.body;
  is_answering_ = false;
  flush();
}

void HttpServer::Impl::Session::send_stream_head(const HttpResponse& head) {
  if (is_closed_) return;
  is_streaming_ = true;
  // HTTP/1.0 knows no chunks: the end of the connection is the end of the answer.
  if (is_http_1_0_) keep_alive_ = false;
  append_head(head, is_http_1_0_ ? "" : "Transfer-Encoding: chunked\r\n");
  flush();
}

void HttpServer::Impl::Session::send_stream_bytes(std::string_view bytes) {
  if (is_closed_) return;
  if (is_http_1_0_) {
    unsent_ += bytes;
  } else {
    unsent_ += fmt::format("{:x}\r\n", bytes.size());
    unsent_ += bytes;
    unsent_ += "\r\n";
  }
  if (unsent_.size() + being_sent_.size() > server_->limits.max_unsent_bytes) return disconnect();
  flush();
}

void HttpServer::Impl::Session::send_stream_end() {
  if (is_closed_) return;
  if (!is_http_1_0_) unsent_ += "0\r\n\r\n";
  is_answering_ = is_streaming_ = false;
  flush();
}

void HttpServer::Impl::Session::flush() {
  if (is_sending_ || unsent_.empty()) return;
  is_sending_ = true;
  being_sent_ = std::exchange(unsent_, {});
  stream_.expires_after(seconds(server_->limits.write_timeout_seconds));
  asio::async_write(
      stream_, asio::buffer(being_sent_), [self = shared_from_this()](error_code error, size_t) {
        self->on_sent(error);
      });
}

void HttpServer::Impl::Session::on_sent(const error_code& error) {
  is_sending_ = false;
  being_sent_.clear();
  if (is_closed_) return;
  if (error) return disconnect();
  if (!unsent_.empty()) return flush();
  if (is_answering_) return;
  if (!keep_alive_ || server_->shutting_down)
    return has_unread_body_ ? linger() : finish_connection();
  read_header();
}

void HttpServer::Impl::Session::finish_connection() {
  if (!stream_.is_tls() || is_reading_ahead_) return close();
  stream_.expires_after(seconds(kLingerSeconds));
  stream_.async_shutdown([self = shared_from_this()](error_code) { self->close(); });
}

void HttpServer::Impl::Session::linger() {
  error_code ignored;
  if (num_discarded_ == 0) {
    if (!stream_.is_tls()) stream_.socket().shutdown(tcp::socket::shutdown_send, ignored);
    stream_.expires_after(seconds(kLingerSeconds));
  }
  stream_.async_read_some(asio::buffer(discarded_),
                          [self = shared_from_this()](error_code error, size_t num_bytes) {
                            self->num_discarded_ += num_bytes;
                            if (error || self->num_discarded_ > kLingerBytes) return self->close();
                            self->linger();
                          });
}

void HttpServer::Impl::Session::disconnect() {
  close();
  if (const std::shared_ptr<Exchange> exchange = exchange_.lock()) exchange->client_went();
}

void HttpServer::Impl::Session::close() {
  if (std::exchange(is_closed_, true)) return;
  is_answering_ = false;
  error_code ignored;
  stream_.socket().shutdown(tcp::socket::shutdown_both, ignored);
  stream_.close();
}

std::shared_ptr<void> HttpServer::Impl::share_body_memory(size_t num_bytes) {
  if (all_body_bytes->load() + num_bytes > limits.max_all_body_bytes) return nullptr;
  all_body_bytes->fetch_add(num_bytes);
  const auto give_back = [total = all_body_bytes, num_bytes](void*) {
    total->fetch_sub(num_bytes);
  };
  return {all_body_bytes.get(), give_back};
}

void HttpServer::Impl::take(ClientStream::Socket socket, std::string peer) {
  // Twice as many would be an attack, which is not worth an answer.
  if (sessions.size() >= 2 * limits.max_connections) return;
  auto session = std::make_shared<Session>(*this, std::move(socket), std::move(peer));
  if (sessions.size() <= limits.max_connections) return session->start();
  if (!tls) session->refuse(error_response(ApiError(503, "There are too many connections.")));
}

template <typename Acceptor>
void HttpServer::Impl::accept(Acceptor& from) {
  from.async_accept([this, &from](error_code error, auto socket) {
    if (shutting_down || error == asio::error::operation_aborted) return;
    if (error) {
      // Most likely no file descriptors are left; some will be.
      accept_pause.expires_after(std::chrono::milliseconds(100));
      accept_pause.async_wait([this, &from](error_code cancelled) {
        if (!cancelled) accept(from);
      });
      return;
    }
    std::string peer = "unix:";
    if constexpr (std::is_same_v<decltype(socket), tcp::socket>) {
      error_code ignored;
      socket.set_option(tcp::no_delay(true), ignored);
      const tcp::endpoint endpoint = socket.remote_endpoint(ignored);
      peer = fmt::format("{}:{}", endpoint.address().to_string(), endpoint.port());
    }
    take(std::move(socket), std::move(peer));
    accept(from);
  });
}

void HttpServer::Impl::wait_for_signal() {
  signals.async_wait([this](error_code error, int) {
    if (error) return;
    wait_for_signal();
    handlers.on_signal();
  });
}

void HttpServer::Impl::remove(Session* session) {
  sessions.erase(session);
  if (shutting_down && sessions.empty()) io.stop();
}

HttpServer::HttpServer(const HttpOptions& options, HttpHandlers handlers)
    : impl_(std::make_unique<Impl>(options, std::move(handlers))) {}

HttpServer::~HttpServer() {
  if (!impl_->unix_path.empty()) ::unlink(impl_->unix_path.c_str());
}

uint16_t HttpServer::listen(const std::string& host, uint16_t port) {
  try {
    tcp::resolver resolver(impl_->io);
    const auto found = resolver.resolve(
        host, std::to_string(port), tcp::resolver::passive | tcp::resolver::numeric_service);
    const tcp::endpoint endpoint = *found.begin();
    impl_->acceptor.open(endpoint.protocol());
    impl_->acceptor.set_option(tcp::acceptor::reuse_address(true));
    impl_->acceptor.bind(endpoint);
    impl_->acceptor.listen();
    return impl_->acceptor.local_endpoint().port();
  } catch (const boost::system::system_error& error) {
    const bool is_taken = error.code() == asio::error::address_in_use;
    throw InvalidArgument(fmt::format(
        "cannot listen on {}:{}: {}{}",
        host,
        port,
        error.code().message(),
        is_taken ? "; end what listens there, or choose another --port (0: a free one)" : ""));
  }
}

void HttpServer::listen_unix(const std::string& path) {
  struct stat status {};
  const bool is_socket = ::lstat(path.c_str(), &status) == 0 && S_ISSOCK(status.st_mode);
  try {
    const asio::local::stream_protocol::endpoint endpoint(path);
    if (is_socket) {
      error_code refused;
      asio::local::stream_protocol::socket probe(impl_->io);
      probe.connect(endpoint, refused);
      if (refused == asio::error::connection_refused) ::unlink(path.c_str());
    }
    impl_->unix_acceptor.open();
    impl_->unix_acceptor.bind(endpoint);
    impl_->unix_path = path;
    impl_->unix_acceptor.listen();
  } catch (const boost::system::system_error& error) {
    throw InvalidArgument(fmt::format("--uds {}: {}", path, error.code().message()));
  }
}

void HttpServer::run() {
  impl_->signals.add(SIGINT);
  impl_->signals.add(SIGTERM);
  impl_->wait_for_signal();
  if (impl_->acceptor.is_open()) impl_->accept(impl_->acceptor);
  if (impl_->unix_acceptor.is_open()) impl_->accept(impl_->unix_acceptor);
  impl_->io.run();
}

void HttpServer::shut_down(int grace_seconds) {
  if (std::exchange(impl_->shutting_down, true)) return;
  error_code ignored;
  impl_->acceptor.close(ignored);
  impl_->unix_acceptor.close(ignored);
  const std::vector<Impl::Session*> sessions(impl_->sessions.begin(), impl_->sessions.end());
  for (Impl::Session* session : sessions) session->wind_down();
  if (impl_->sessions.empty()) return impl_->io.stop();
  post_after(grace_seconds, [this] { impl_->io.stop(); });
}

void HttpServer::stop() { impl_->io.stop(); }

void HttpServer::post(std::function<void()> task) { asio::post(impl_->io, std::move(task)); }

void HttpServer::post_after(int delay_seconds, std::function<void()> task) {
  auto timer = std::make_shared<asio::steady_timer>(impl_->io, seconds(delay_seconds));
  timer->async_wait([timer, task = std::move(task)](error_code error) {
    if (!error) task();
  });
}

}  // namespace reprise::server
