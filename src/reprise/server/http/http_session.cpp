#include "reprise/server/http/http_session.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/http/read.hpp>
#include <cerrno>
#include <chrono>

#include "reprise/base/equal_ignoring_case.h"
#include "reprise/server/http/api_error.h"
#include "reprise/server/http/http_head.h"

namespace reprise::server {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using asio::ip::tcp;
using std::chrono::seconds;

// A client whose request was refused may still send this many bytes before the connection is
// closed. Closing the connection at once would reset it and lose the answer.
constexpr size_t kLingerBytes = size_t{64} << 20;
constexpr int kLingerSeconds = 5;
constexpr int kLingerSecondsAtTheEnd = 1;

/// The id by which the client knows the request: the one in the answer's header if the server sets
/// it, else the client's own.
std::string request_id_of(const HttpRequest& request, const HttpHeaders& of_answer) {
  for (const auto& [name, value] : of_answer) {
    if (name == kRequestIdHeader) return value;
  }
  return request.request_id;
}

}  // namespace

std::string_view reason_phrase(int status) {
  return http::obsolete_reason(static_cast<http::status>(status));
}

class HttpSession::Exchange : public HttpExchange {
 public:
  explicit Exchange(std::shared_ptr<HttpSession> session) : session_(std::move(session)) {}

  void respond(HttpResponse response) override {
    if (auto session = std::exchange(session_, nullptr)) {
      session->send_whole(response, std::move(facts_));
    }
  }
  void begin_stream(const HttpResponse& head) override {
    if (session_) session_->send_stream_head(head);
  }
  void write(std::string_view bytes) override {
    // send_stream_bytes() may disconnect and so reset `session_`; this copy keeps the session
    // alive.
    if (auto session = session_; session && !bytes.empty()) session->send_stream_bytes(bytes);
  }
  void finish_stream() override {
    if (auto session = std::exchange(session_, nullptr)) {
      session->send_stream_end(std::move(facts_));
    }
  }
  [[nodiscard]] bool client_is_gone() const override { return session_ == nullptr; }
  void on_disconnect(std::function<void()> callback) override { callback_ = std::move(callback); }
  void note(AnswerFacts facts) override { facts_ = std::move(facts); }

  void client_went() {
    const auto session = std::exchange(session_, nullptr);
    if (!session) return;
    if (auto callback = std::exchange(callback_, nullptr)) callback();
    session->log_answer(std::move(facts_));
  }

 private:
  std::shared_ptr<HttpSession> session_;
  std::function<void()> callback_;
  AnswerFacts facts_;
};

void HttpSession::start() {
  if (!stream_.is_tls()) return read_header();
  stream_.expires_after(seconds(shared_->limits.header_timeout_seconds));
  stream_.async_handshake([self = shared_from_this()](error_code error) {
    error ? self->close() : self->read_header();
  });
}

void HttpSession::read_header() {
  if (is_reading_ahead_) return;  // the completion of that read calls read_header()
  parser_.emplace();
  extra_headers_.clear();
  is_head_ = is_http_1_0_ = false;
  parser_->header_limit(static_cast<uint32_t>(shared_->limits.max_header_bytes));
  parser_->body_limit(shared_->limits.max_body_bytes);
  start_deadline(Clock::now() + seconds(shared_->limits.header_timeout_seconds));
  http::async_read_header(
      stream_, buffer_, *parser_, [self = shared_from_this()](error_code error, size_t) {
        self->on_header(error);
      });
}

void HttpSession::answer_protocol_error(const error_code& error) {
  const auto unread = buffer_.data();
  const std::optional<ApiError> answer =
      protocol_error(error, {static_cast<const char*>(unread.data()), unread.size()});
  answer ? refuse(error_response(*answer)) : close();
}

void HttpSession::answer_late_header() {
  // A connection without a request is idle: the client could take an answer for the answer to its
  // next request.
  if (buffer_.size() == 0 && !parser_->got_some()) return close();
  refuse(
      error_response(ApiError(408,
                              fmt::format("The request's header did not arrive within {} seconds.",
                                          shared_->limits.header_timeout_seconds))));
}

void HttpSession::start_deadline(Clock::time_point at) {
  is_too_late_ = false;
  stream_.expires_never();
  deadline_.expires_at(at);
  deadline_.async_wait([self = shared_from_this()](error_code error) {
    // The deadline may have moved after this handler was queued.
    if (error || self->is_closed_ || self->deadline_.expiry() > Clock::now()) return;
    self->is_too_late_ = true;
    self->stream_.cancel();
  });
}

/// Returns whether the deadline has passed.
bool HttpSession::end_deadline() {
  deadline_.expires_at(Clock::time_point::max());
  return is_too_late_;
}

void HttpSession::on_header(const error_code& error) {
  const bool is_late = end_deadline();
  if (is_closed_) return;
  if (error) return is_late ? answer_late_header() : answer_protocol_error(error);
  const auto& head = parser_->get();
  is_http_1_0_ = head.version() == 10;
  is_head_ = head.method() == http::verb::head;
  keep_alive_ = parser_->keep_alive() && !shared_->is_shutting_down;
  request_ = read_head(head, shared_->root_path);
  request_.client = counted_peer_;
  extra_headers_ = shared_->handlers.headers(request_);
  unlogged_ = {.request_line = request_line(head),
               .request_id = request_id_of(request_, extra_headers_),
               .began = Clock::now()};
  if (const std::optional<ApiError> broken = check_head(head, shared_->limits)) {
    refuse(error_response(*broken));
    // If the client has sent nothing more, it cannot lose the answer, so the connection need not
    // linger.
    has_unread_body_ = !parser_->is_done() || buffer_.size() > 0;
    return;
  }
  const HeadCheck checked = shared_->handlers.check_head(request_);
  if (checked.refusal) {
    if (!parser_->is_done()) return refuse(*checked.refusal);
    is_answering_ = true;
    return send_whole(*checked.refusal, {});
  }
  if (parser_->is_done()) return on_body({});
  begin_body(checked.takes_body ? shared_->limits.max_body_bytes
                                : shared_->limits.max_unused_body_bytes);
}

void HttpSession::begin_body(size_t max_bytes) {
  if (parser_->content_length().value_or(0) > max_bytes) {
    return refuse(error_response(ApiError(
        413,
        fmt::format("{} takes no body, and this one has {} bytes; at most {} are read and ignored.",
                    request_.path.substr(0, 128),
                    *parser_->content_length(),
                    max_bytes))));
  }
  RequestBody::value_type& body = parser_->get().body();
  body.max_bytes = max_bytes;
  body.share = std::make_shared<BodyMemory::Share>(shared_->body_memory);
  parser_->eager(true);
  body_deadline_ = Clock::now() + seconds(shared_->limits.body_timeout_seconds);
  const bool waits_for_100 =
      equal_ignoring_case(parser_->get()[http::field::expect], "100-continue");
  if (!waits_for_100) return read_body();
  stream_.expires_after(seconds(shared_->limits.write_timeout_seconds));
  asio::async_write(stream_,
                    asio::buffer(std::string_view("HTTP/1.1 100 Continue\r\n\r\n")),
                    [self = shared_from_this()](error_code failed, size_t) {
                      if (failed) return self->close();
                      self->read_body();
                    });
}

void HttpSession::read_body() {
  start_deadline(
      std::min(body_deadline_, Clock::now() + seconds(shared_->limits.body_stall_timeout_seconds)));
  http::async_read_some(
      stream_, buffer_, *parser_, [self = shared_from_this()](error_code error, size_t) {
        self->on_body(error);
      });
}

void HttpSession::on_body(const error_code& error) {
  const bool is_late = end_deadline();
  if (is_closed_) return;
  if (error && is_late) {
    return refuse(error_response(ApiError(
        408,
        fmt::format("The request's body did not arrive in time: it has {} seconds, and {} seconds "
                    "between two parts.",
                    shared_->limits.body_timeout_seconds,
                    shared_->limits.body_stall_timeout_seconds))));
  }
  if (error == boost::system::errc::not_enough_memory) {
    return refuse(error_response(
        ApiError(503, "The server is reading as many large requests as it has memory for.")));
  }
  if (error) return answer_protocol_error(error);
  if (!parser_->is_done()) return read_body();
  RequestBody::value_type& body = parser_->get().body();
  request_.body = std::move(body.text);
  request_.body_share = std::move(body.share);
  is_answering_ = true;
  auto exchange = std::make_shared<Exchange>(shared_from_this());
  exchange_ = exchange;
  shared_->handlers.handle(std::move(request_), std::move(exchange));
  watch_for_disconnect();
}

void HttpSession::watch_for_disconnect() {
  if (is_watching_ || is_closed_ || !is_answering_) return;
  is_watching_ = true;
  stream_.socket().async_wait(tcp::socket::wait_read,
                              [self = shared_from_this()](error_code error) {
                                self->is_watching_ = false;
                                if (!error) self->on_readable();
                              });
}

void HttpSession::on_readable() {
  if (is_closed_ || !is_answering_) return;
  // If a client sends further requests early, the server reads ahead up to a limit, so that it
  // still notices a disconnect.
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

void HttpSession::read_ahead() {
  is_reading_ahead_ = true;
  // This time limit is for the remaining bytes of a TLS record.
  stream_.expires_after(seconds(shared_->limits.header_timeout_seconds));
  stream_.async_read_some(buffer_.prepare(discarded_.size()),
                          [self = shared_from_this()](error_code error, size_t num_bytes) {
                            self->is_reading_ahead_ = false;
                            if (self->is_closed_) return;
                            self->buffer_.commit(num_bytes);
                            if (error) return self->disconnect();
                            if (self->is_answering_) return self->watch_for_disconnect();
                            if (!self->is_sending_)
                              // otherwise the end of the pending write calls read_header()
                              self->read_header();
                          });
}

void HttpSession::append_head(const HttpResponse& response, std::string_view framing) {
  unlogged_.status = response.status;
  unsent_ += fmt::format(
      "HTTP/1.1 {} {}\r\nServer: reprise\r\n", response.status, reason_phrase(response.status));
  if (!response.content_type.empty()) {
    unsent_ += fmt::format("Content-Type: {}\r\n", response.content_type);
  }
  const auto append = [this](const HttpHeaders& headers) {
    for (const auto& [name, value] : headers) unsent_ += fmt::format("{}: {}\r\n", name, value);
  };
  append(response.headers);
  std::erase_if(extra_headers_, [&response](const auto& extra) {
    return std::any_of(response.headers.begin(), response.headers.end(), [&extra](const auto& own) {
      return equal_ignoring_case(own.first, extra.first);
    });
  });
  append(extra_headers_);
  if (!keep_alive_) {
    unsent_ += "Connection: close\r\n";
  } else if (is_http_1_0_) {
    unsent_ += "Connection: keep-alive\r\n";
  }
  unsent_ += framing;
  unsent_ += "\r\n";
}

void HttpSession::log_answer(AnswerFacts facts) {
  const Unlogged request = std::exchange(unlogged_, {});
  if (request.request_line.empty()) return;
  if (facts.request_id.empty()) facts.request_id = request.request_id;
  const std::chrono::duration<double> time = Clock::now() - request.began;
  shared_->handlers.on_answer({.peer = peer_,
                               .request_line = request.request_line,
                               .status = request.status == 0 ? kClientClosed : request.status,
                               .seconds = time.count(),
                               .facts = std::move(facts)});
}

void HttpSession::send_whole(const HttpResponse& response, AnswerFacts facts) {
  if (is_closed_) return;
  // An answer "not modified" has no body, and a length would be that of the file.
  const bool has_body = response.status != 304;
  append_head(response,
              has_body ? fmt::format("Content-Length: {}\r\n", response.body.size()) : "");
  if (!is_head_) unsent_ += response.body;
  is_answering_ = false;
  log_answer(std::move(facts));
  flush();
}

void HttpSession::send_stream_head(const HttpResponse& head) {
  if (is_closed_) return;
  is_streaming_ = true;
  // HTTP/1.0 has no chunked encoding, so the end of the connection marks the end of the answer.
  if (is_http_1_0_) keep_alive_ = false;
  append_head(head, is_http_1_0_ ? "" : "Transfer-Encoding: chunked\r\n");
  flush();
}

void HttpSession::send_stream_bytes(std::string_view bytes) {
  if (is_closed_) return;
  if (is_http_1_0_) {
    unsent_ += bytes;
  } else {
    unsent_ += fmt::format("{:x}\r\n", bytes.size());
    unsent_ += bytes;
    unsent_ += "\r\n";
  }
  if (unsent_.size() + being_sent_.size() > shared_->limits.max_unsent_bytes) return disconnect();
  flush();
}

void HttpSession::send_stream_end(AnswerFacts facts) {
  if (is_closed_) return;
  if (!is_http_1_0_) unsent_ += "0\r\n\r\n";
  is_answering_ = is_streaming_ = false;
  log_answer(std::move(facts));
  flush();
}

void HttpSession::flush() {
  if (is_sending_ || unsent_.empty()) return;
  is_sending_ = true;
  being_sent_ = std::exchange(unsent_, {});
  stream_.expires_after(seconds(shared_->limits.write_timeout_seconds));
  asio::async_write(
      stream_, asio::buffer(being_sent_), [self = shared_from_this()](error_code error, size_t) {
        self->on_sent(error);
      });
}

void HttpSession::on_sent(const error_code& error) {
  is_sending_ = false;
  being_sent_.clear();
  if (is_closed_) return;
  if (error) return disconnect();
  if (!unsent_.empty()) return flush();
  if (is_answering_) return;
  if (!keep_alive_ || shared_->is_shutting_down)
    return has_unread_body_ ? linger() : finish_connection();
  read_header();
}

void HttpSession::finish_connection() {
  if (!stream_.is_tls() || is_reading_ahead_) return close();
  stream_.expires_after(seconds(kLingerSeconds));
  stream_.async_shutdown([self = shared_from_this()](error_code) { self->close(); });
}

void HttpSession::linger() {
  error_code ignored;
  if (num_discarded_ == 0) {
    if (!stream_.is_tls()) (void)stream_.socket().shutdown(tcp::socket::shutdown_send, ignored);
    stream_.expires_after(
        seconds(shared_->is_shutting_down ? kLingerSecondsAtTheEnd : kLingerSeconds));
  }
  stream_.async_read_some(asio::buffer(discarded_),
                          [self = shared_from_this()](error_code error, size_t num_bytes) {
                            self->num_discarded_ += num_bytes;
                            if (error || self->num_discarded_ > kLingerBytes) return self->close();
                            self->linger();
                          });
}

void HttpSession::disconnect() {
  close();
  if (const std::shared_ptr<Exchange> exchange = exchange_.lock()) exchange->client_went();
}

void HttpSession::close() {
  if (std::exchange(is_closed_, true)) return;
  is_answering_ = false;
  deadline_.cancel();
  error_code ignored;
  (void)stream_.socket().shutdown(tcp::socket::shutdown_both, ignored);
  stream_.close();
}

}  // namespace reprise::server
