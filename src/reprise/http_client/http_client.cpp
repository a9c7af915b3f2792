#include "reprise/http_client/http_client.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/host_name_verification.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/buffer_body.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>
#include <csignal>
#include <limits>
#include <optional>
#include <unordered_set>

#include "reprise/base/equal_ignoring_case.h"
#include "reprise/base/error.h"
#include "reprise/http_client/proxy_tunnel.h"
#include "reprise/http_client/root_certificates.h"

namespace reprise::http_client {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
namespace ssl = boost::asio::ssl;
using asio::ip::tcp;
using boost::system::error_code;

constexpr auto kConnectTimeout = std::chrono::seconds(30);
constexpr size_t kPieceBytes = size_t{16} << 10;
constexpr uint32_t kMaxHeaderBytes = uint32_t{64} << 10;
constexpr size_t kMaxReplyBytes = size_t{64} << 20;

struct Connection {
  Connection(asio::io_context& io, ssl::context* context) : stream(io) {
    if (context != nullptr) tls.emplace(stream, *context);
    // Beast reads as many bytes at once as the buffer has room for, and begins with 512.
    buffer.reserve(kPieceBytes);
  }

  /// Calls `use` with the stream that carries HTTP, either plain or TLS.
  template <typename Use>
  void over(const Use& use) {
    if (tls) {
      use(*tls);
    } else {
      use(stream);
    }
  }

  beast::tcp_stream stream;
  std::optional<ssl::stream<beast::tcp_stream&>> tls;
  beast::flat_buffer buffer;
  bool was_used = false;
};

}  // namespace

std::string_view HttpHead::header(std::string_view name) const {
  for (const auto& [key, value] : headers) {
    if (equal_ignoring_case(key, name)) return value;
  }
  return {};
}

struct HttpClient::Impl {
  class Exchange;

  Impl(BaseUrl url, ServerCertificate check, std::optional<HttpProxy> through)
      : server(std::move(url)), certificate(check), proxy(std::move(through)) {
    if (!server.is_tls) return;
    tls.emplace(ssl::context::tls_client);
    try {
      tls->set_options(ssl::context::no_tlsv1 | ssl::context::no_tlsv1_1);
      if (certificate == ServerCertificate::checked) {
        tls->set_default_verify_paths();  // and those of SSL_CERT_FILE and SSL_CERT_DIR
        const std::string elsewhere = root_certificates_elsewhere("/");
        const X509_STORE* store = SSL_CTX_get_cert_store(tls->native_handle());
        const bool has_none = sk_X509_OBJECT_num(X509_STORE_get0_objects(store)) == 0;
        if (has_none && !elsewhere.empty()) tls->load_verify_file(elsewhere);
        tls->set_verify_mode(ssl::verify_peer);
      }
    } catch (const boost::system::system_error& error) {
      throw Error(fmt::format("{}: no TLS: {}", server.authority(), error.code().message()));
    }
  }

  BaseUrl server;
  ServerCertificate certificate;
  std::optional<HttpProxy> proxy;
  std::optional<ssl::context> tls;  // for https
  // Waiting handlers are stored in `io` and own the exchanges and timers. `io` is declared after
  // the two sets, so it is destroyed before them.
  std::unordered_set<Exchange*> exchanges;
  std::unordered_set<asio::steady_timer*> timers;
  asio::io_context io{1};
  std::optional<tcp::resolver::results_type> addresses;
  std::vector<std::unique_ptr<Connection>> idle;
};

/// One request and its answer, in the states connecting, sending, reading and ended.
class HttpClient::Impl::Exchange : public std::enable_shared_from_this<Exchange> {
 public:
  Exchange(Impl& client, HttpCall call, HttpHandlers handlers)
      : client_(&client), handlers_(std::move(handlers)), silence_limit_(call.silence_limit) {
    request_.method_string(call.method);
    request_.target(client.server.path + call.target);
    request_.version(11);
    request_.set(http::field::host, client.server.host_header());
    request_.set(http::field::accept, "*/*");
    request_.set(http::field::user_agent, "reprise");
    for (const auto& [name, value] : call.headers) request_.set(name, value);
    if (!call.body.empty()) {
      if (request_.find(http::field::content_type) == request_.end()) {
        request_.set(http::field::content_type, "application/json");
      }
      request_.body() = std::move(call.body);
    }
    request_.prepare_payload();
    client_->exchanges.insert(this);
  }
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;
  ~Exchange() { client_->exchanges.erase(this); }

  void start(bool may_reuse) {
    if (may_reuse && !client_->idle.empty()) {
      connection_ = std::move(client_->idle.back());
      client_->idle.pop_back();
      write();
      return;
    }
    connect();
  }

  void cancel(const std::string& error) {
    if (ended_) return;
    if (connection_) connection_->stream.close();
    end(error);
  }

 private:
  [[nodiscard]] bool uses_proxy() const { return client_->proxy && client_->server.is_tls; }

  void connect() {
    const BaseUrl& peer = uses_proxy() ? client_->proxy->url : client_->server;
    try {
      if (!client_->addresses) {
        tcp::resolver resolver(client_->io);
        client_->addresses = resolver.resolve(peer.host, std::to_string(peer.port));
      }
    } catch (const boost::system::system_error& error) {
      end(fmt::format("{}: {}", peer.authority(), error.code().message()));
      return;
    }
    connection_ =
        std::make_unique<Connection>(client_->io, client_->tls ? &*client_->tls : nullptr);
    connection_->stream.expires_after(kConnectTimeout);
    connection_->stream.async_connect(
        *client_->addresses, [self = shared_from_this()](const error_code& error, const auto&) {
          if (self->ended_) return;
          if (error) return self->fail(error);
          try {
            self->connection_->stream.socket().set_option(tcp::no_delay(true));
          } catch (const boost::system::system_error& failure) {
            return self->fail(failure.code());  // the server has closed the connection already
          }
          if (!self->uses_proxy()) return self->shake_hands();
          self->open_tunnel();
        });
  }

  void open_tunnel() {
    async_open_tunnel(connection_->stream,
                      client_->server,
                      *client_->proxy,
                      [self = shared_from_this()](const std::string& error) {
                        if (self->ended_) return;
                        if (!error.empty()) return self->end(error);
                        self->shake_hands();
                      });
  }

  void shake_hands() {
    if (!connection_->tls) return write();
    ssl::stream<beast::tcp_stream&>& stream = *connection_->tls;
    const std::string& host = client_->server.host;
    error_code error;
    asio::ip::make_address(host, error);
    // A machine that serves several hosts chooses by the name (SNI). If the host is an IP address,
    // no name is sent.
    if (error) SSL_set_tlsext_host_name(stream.native_handle(), host.c_str());
    if (client_->certificate == ServerCertificate::checked) {
      stream.set_verify_callback(ssl::host_name_verification(host));
    }
    stream.async_handshake(ssl::stream_base::client,
                           [self = shared_from_this()](const error_code& failure) {
                             if (self->ended_) return;
                             if (failure) return self->fail(failure);
                             self->write();
                           });
  }

  void write() {
    connection_->stream.expires_after(silence_limit_);
    connection_->over([this](auto& stream) {
      http::async_write(
          stream, request_, [self = shared_from_this()](const error_code& error, size_t) {
            if (self->ended_) return;
            if (error) return self->fail(error);
            self->read_head();
          });
    });
  }

  void read_head() {
    parser_.emplace();
    parser_->header_limit(kMaxHeaderBytes);
    parser_->body_limit(boost::none);  // the client passes pieces on and never keeps them
    connection_->over([this](auto& stream) {
      http::async_read_header(stream,
                              connection_->buffer,
                              *parser_,
                              [self = shared_from_this()](const error_code& error, size_t) {
                                if (self->ended_) return;
                                if (error) return self->fail(error);
                                self->on_head();
                              });
    });
  }

  void on_head() {
    has_answer_ = true;
    const auto& answer = parser_->get();
    if (handlers_.on_head) {
      HttpHead head{.status = static_cast<int>(answer.result_int()), .reason = answer.reason()};
      for (const auto& field : answer)
        head.headers.emplace_back(field.name_string(), field.value());
      handlers_.on_head(head);
    }
    read_body();
  }

  void read_body() {
    if (ended_) return;
    if (parser_->is_done()) return finish();
    connection_->stream.expires_after(silence_limit_);
    parser_->get().body() = {.data = piece_.data(), .size = piece_.size(), .more = true};
    connection_->over([this](auto& stream) {
      http::async_read_some(stream,
                            connection_->buffer,
                            *parser_,
                            [self = shared_from_this()](const error_code& error, size_t) {
                              if (self->ended_) return;
                              self->on_body(error);
                            });
    });
  }

  void on_body(const error_code& error) {
    const size_t got = piece_.size() - parser_->get().body().size;
    if (got > 0 && handlers_.on_piece) handlers_.on_piece({piece_.data(), got});
    if (error && error != http::error::need_buffer) return fail(error);
    read_body();
  }

  void finish() {
    if (parser_->keep_alive()) {
      connection_->was_used = true;
      connection_->stream.expires_never();
      client_->idle.push_back(std::move(connection_));
    }
    end({});
  }

  void fail(const error_code& error) {
    // The server may have closed this idle connection just before the client used it again.
    if (connection_ && connection_->was_used && !has_answer_) {
      connection_.reset();
      return start(false);
    }
    const bool is_cut = error == http::error::end_of_stream ||
                        error == http::error::partial_message ||
                        error == ssl::error::stream_truncated;
    end(is_cut ? fmt::format("{} closed the connection before its answer was complete",
                             client_->server.authority())
               : fmt::format("{}: {}", client_->server.authority(), error.message()));
  }

  void end(const std::string& error) {
    if (ended_) return;
    ended_ = true;
    if (handlers_.on_end) handlers_.on_end(error);
  }

  Impl* client_;
  HttpHandlers handlers_;
  std::chrono::seconds silence_limit_;
  http::request<http::string_body> request_;
  std::unique_ptr<Connection> connection_;
  std::optional<http::response_parser<http::buffer_body>> parser_;
  std::array<char, kPieceBytes> piece_;
  bool has_answer_ = false;
  bool ended_ = false;
};

HttpClient::HttpClient(BaseUrl server,
                       ServerCertificate certificate,
                       std::optional<HttpProxy> proxy)
    : impl_(std::make_unique<Impl>(std::move(server), certificate, std::move(proxy))) {}

HttpClient::~HttpClient() = default;

void HttpClient::send(HttpCall call, HttpHandlers handlers) {
  std::make_shared<Impl::Exchange>(*impl_, std::move(call), std::move(handlers))->start(true);
}

void HttpClient::at(Clock::time_point time, std::function<void()> task) {
  auto timer = std::make_shared<asio::steady_timer>(impl_->io, time);
  impl_->timers.insert(timer.get());
  timer->async_wait([impl = impl_.get(), timer, task = std::move(task)](const error_code& error) {
    impl->timers.erase(timer.get());
    if (!error) task();
  });
}

void HttpClient::run() {
  impl_->io.restart();
  impl_->io.run();
}

bool HttpClient::run_interruptible() {
  bool interrupted = false;
  asio::signal_set signals(impl_->io, SIGINT);
  signals.async_wait([&](const error_code& error, int) {
    if (error) return;
    interrupted = true;
    cancel("interrupted");
  });
  impl_->io.restart();
  // Waits for answers only: the wait for the signal must not keep run() from returning.
  while (!impl_->exchanges.empty() && impl_->io.run_one() > 0) {
  }
  signals.cancel();
  impl_->io.restart();
  impl_->io.poll();
  return interrupted;
}

void HttpClient::cancel(const std::string& error) {
  for (asio::steady_timer* timer : impl_->timers) timer->cancel();
  // When one exchange ends, another may start, so the set is copied first.
  const std::vector<Impl::Exchange*> all(impl_->exchanges.begin(), impl_->exchanges.end());
  for (Impl::Exchange* exchange : all) {
    if (impl_->exchanges.contains(exchange)) exchange->cancel(error);
  }
}

HttpReply HttpClient::fetch(HttpCall call) {
  HttpReply reply;
  std::string failure;
  const std::string what = fmt::format("{} {}", call.method, call.target);
  send(std::move(call),
       {.on_head = [&](const HttpHead& head) { static_cast<HttpHead&>(reply) = head; },
        .on_piece =
            [&](std::string_view piece) {
              reply.body += piece;
              if (reply.body.size() > kMaxReplyBytes) cancel("the answer is longer than 64 MiB");
            },
        .on_end = [&](const std::string& error) { failure = error; }});
  run();
  if (!failure.empty()) throw Error(fmt::format("{}: {}", what, failure));
  return reply;
}

}  // namespace reprise::http_client
