#include "reprise/bench/http_client.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/buffer_body.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>
#include <charconv>
#include <csignal>
#include <limits>
#include <optional>
#include <unordered_set>

#include "reprise/base/error.h"

namespace reprise::bench {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using asio::ip::tcp;
using boost::system::error_code;

constexpr auto kConnectTimeout = std::chrono::seconds(30);
constexpr auto kAnswerTimeout = std::chrono::hours(6);  // as vLLM's client
constexpr size_t kPieceBytes = size_t{16} << 10;
constexpr uint32_t kMaxHeaderBytes = uint32_t{64} << 10;
constexpr size_t kMaxReplyBytes = size_t{64} << 20;

struct Connection {
  explicit Connection(asio::io_context& io) : stream(io) {}
  beast::tcp_stream stream;
  beast::flat_buffer buffer;
  bool was_used = false;
};

}  // namespace

std::string BaseUrl::authority() const {
  return host.find(':') == std::string::npos ? fmt::format("{}:{}", host, port)
                                             : fmt::format("[{}]:{}", host, port);
}

BaseUrl parse_url(std::string_view option, std::string_view text) {
  const auto refuse = [&](std::string_view why) -> InvalidArgument {
    return InvalidArgument(fmt::format(
        "{}: '{}' {}; expected http://HOST:PORT or http://HOST:PORT/PATH", option, text, why));
  };
  std::string_view rest = text;
  constexpr std::string_view kHttp = "http://";
  if (rest.starts_with("https://")) throw refuse("needs TLS, which this client does not speak");
  if (!rest.starts_with(kHttp)) throw refuse("does not begin with http://");
  rest.remove_prefix(kHttp.size());
  BaseUrl url;
  const size_t slash = std::min(rest.find('/'), rest.size());
  url.path = rest.substr(slash);
  while (url.path.ends_with('/')) url.path.pop_back();
  rest = rest.substr(0, slash);
  if (const bool is_v6 = rest.starts_with('['); is_v6) {
    const size_t end = rest.find(']');
    if (end == std::string_view::npos) throw refuse("has no ']' after its address");
    url.host = rest.substr(1, end - 1);
    rest = rest.substr(end + 1);
  } else {
    const size_t colon = std::min(rest.find(':'), rest.size());
    url.host = rest.substr(0, colon);
    rest = rest.substr(colon);
  }
  const bool has_bad_byte =
      std::any_of(text.begin(), text.end(), [](char c) { return c <= ' ' || c == 127; });
  if (url.host.empty() || has_bad_byte) throw refuse("names no host");
  if (rest.empty()) return url;
  rest.remove_prefix(1);
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), url.port);
  if (error != std::errc{} || end != rest.data() + rest.size() || url.port == 0) {
    throw refuse("has no port in 1..65535");
  }
  return url;
}

struct HttpClient::Impl {
  class Exchange;

  explicit Impl(BaseUrl url) : server(std::move(url)) {}

  BaseUrl server;
  // Exchanges and timers are owned by what waits for them in `io`, which therefore goes first.
  std::unordered_set<Exchange*> exchanges;
  std::unordered_set<asio::steady_timer*> timers;
  asio::io_context io{1};
  std::optional<tcp::resolver::results_type> addresses;
  std::vector<std::unique_ptr<Connection>> idle;
};

/// One call and its answer: connecting, sending, reading, ended.
class HttpClient::Impl::Exchange : public std::enable_shared_from_this<Exchange> {
 public:
  Exchange(Impl& client, HttpCall call, HttpHandlers handlers)
      : client_(&client), handlers_(std::move(handlers)) {
    request_.method_string(call.method);
    request_.target(client.server.path + call.target);
    request_.version(11);
    request_.set(http::field::host, client.server.authority());
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
  void connect() {
    try {
      if (!client_->addresses) {
        tcp::resolver resolver(client_->io);
        client_->addresses =
            resolver.resolve(client_->server.host, std::to_string(client_->server.port));
      }
    } catch (const boost::system::system_error& error) {
      end(fmt::format("{}: {}", client_->server.authority(), error.code().message()));
      return;
    }
    connection_ = std::make_unique<Connection>(client_->io);
    connection_->stream.expires_after(kConnectTimeout);
    connection_->stream.async_connect(
        *client_->addresses, [self = shared_from_this()](const error_code& error, const auto&) {
          if (self->ended_) return;
          if (error) return self->fail(error);
          error_code ignored;
          self->connection_->stream.socket().set_option(tcp::no_delay(true), ignored);
          self->write();
        });
  }

  void write() {
    connection_->stream.expires_after(kAnswerTimeout);
    http::async_write(connection_->stream,
                      request_,
                      [self = shared_from_this()](const error_code& error, size_t) {
                        if (self->ended_) return;
                        if (error) return self->fail(error);
                        self->read_head();
                      });
  }

  void read_head() {
    parser_.emplace();
    parser_->header_limit(kMaxHeaderBytes);
    parser_->body_limit(boost::none);  // pieces are handed on, never kept
    http::async_read_header(connection_->stream,
                            connection_->buffer,
                            *parser_,
                            [self = shared_from_this()](const error_code& error, size_t) {
                              if (self->ended_) return;
                              if (error) return self->fail(error);
                              self->on_head();
                            });
  }

  void on_head() {
    has_answer_ = true;
    const auto& head = parser_->get();
    if (handlers_.on_head) handlers_.on_head(head.result_int(), std::string(head.reason()));
    read_body();
  }

  void read_body() {
    if (ended_) return;
    if (parser_->is_done()) return finish();
    parser_->get().body() = {.data = piece_.data(), .size = piece_.size(), .more = true};
    http::async_read_some(connection_->stream,
                          connection_->buffer,
                          *parser_,
                          [self = shared_from_this()](const error_code& error, size_t) {
                            if (self->ended_) return;
                            self->on_body(error);
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
    // A server may close an idle connection just as it is used again.
    if (connection_ && connection_->was_used && !has_answer_) {
      connection_.reset();
      return start(false);
    }
    const bool is_cut =
        error == http::error::end_of_stream || error == http::error::partial_message;
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
  http::request<http::string_body> request_;
  std::unique_ptr<Connection> connection_;
  std::optional<http::response_parser<http::buffer_body>> parser_;
  std::array<char, kPieceBytes> piece_;
  bool has_answer_ = false;
  bool ended_ = false;
};

HttpClient::HttpClient(BaseUrl server) : impl_(std::make_unique<Impl>(std::move(server))) {}

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
  // The signal itself is something to wait for; the answers are what counts.
  while (!impl_->exchanges.empty() && impl_->io.run_one() > 0) {
  }
  signals.cancel();
  impl_->io.restart();
  impl_->io.poll();
  return interrupted;
}

void HttpClient::cancel(const std::string& error) {
  for (asio::steady_timer* timer : impl_->timers) timer->cancel();
  // Ending one may start another.
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
       {.on_head =
            [&](int status, std::string_view reason) {
              reply.status = status;
              reply.reason = reason;
            },
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

}  // namespace reprise::bench
