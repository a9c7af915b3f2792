#pragma once

#include <array>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "reprise/server/http/body_memory.h"
#include "reprise/server/http/client_stream.h"
#include "reprise/server/http/http_exchange.h"
#include "reprise/server/http/http_server.h"
#include "reprise/server/http/request_parser.h"

namespace reprise::server {

class HttpSession;

/// The data that the connections of one server share. I/O thread only.
struct SharedBySessions {
  HttpLimits limits;
  std::string root_path;
  HttpHandlers handlers;
  std::optional<boost::asio::ssl::context> tls;
  BodyMemory body_memory;
  // A session is owned by its pending operations, so the pointers here do not own it.
  std::unordered_set<HttpSession*> open;
  // open connections by the counted part of the address
  std::unordered_map<std::string, size_t> num_open_by_peer;
  std::function<void()> on_closed;  // called after a session closed and was removed from `open`
  bool is_shutting_down = false;
};

/// One connection. States: reading a request, answering it (an exchange exists), lingering, closed.
class HttpSession : public std::enable_shared_from_this<HttpSession> {
 public:
  /// `peer` is for the log. `counted_peer` is the part of the address for which connections are
  /// counted; empty: they are not counted.
  HttpSession(SharedBySessions& shared,
              ClientStream::Socket socket,
              std::string peer,
              std::string counted_peer)
      : shared_(&shared),
        stream_(std::move(socket), shared.tls ? &*shared.tls : nullptr),
        deadline_(stream_.get_executor()),
        peer_(std::move(peer)),
        counted_peer_(std::move(counted_peer)) {
    shared_->open.insert(this);
    ++shared_->num_open_by_peer[counted_peer_];
  }
  HttpSession(const HttpSession&) = delete;
  HttpSession& operator=(const HttpSession&) = delete;
  ~HttpSession() {
    shared_->open.erase(this);
    const auto count = shared_->num_open_by_peer.find(counted_peer_);
    if (--count->second == 0) shared_->num_open_by_peer.erase(count);
    shared_->on_closed();
  }

  void start();
  /// Answers a request that was not read to its end, then closes the connection.
  void refuse(const HttpResponse& response) {
    keep_alive_ = false;
    has_unread_body_ = true;
    send_whole(response, {});
  }
  /// Closes an idle connection now and a busy one after its answer.
  void wind_down() {
    keep_alive_ = false;
    if (!is_answering_ && !is_sending_) close();
  }

  // Called by the session's exchange.
  void send_whole(const HttpResponse& response, AnswerFacts facts);
  void send_stream_head(const HttpResponse& head);
  void send_stream_bytes(std::string_view bytes);
  void send_stream_end(AnswerFacts facts);
  /// Reports the request to the access log, once.
  void log_answer(AnswerFacts facts);

 private:
  /// Limit on the bytes that are read from a client while its request is answered.
  static constexpr size_t kReadAheadBytes = size_t{64} << 10;

  class Exchange;
  using Clock = std::chrono::steady_clock;
  /// A request that is not in the access log yet.
  struct Unlogged {
    std::string request_line;  // "GET /health HTTP/1.1"; empty: there is none
    std::string request_id;    // X-Request-Id of the answer, or else of the request; may be empty
    int status = 0;            // 0: the answer has not begun
    Clock::time_point began;
  };
  using Parser = RequestParser;
  using error_code = boost::system::error_code;

  void read_header();
  void read_ahead();
  void finish_connection();
  void on_header(const error_code& error);
  void begin_body(size_t max_bytes);
  void read_body();
  void on_body(const error_code& error);
  void answer_protocol_error(const error_code& error);
  void answer_late_header();
  void start_deadline(Clock::time_point at);
  [[nodiscard]] bool end_deadline();
  void watch_for_disconnect();
  void on_readable();
  void flush();
  void on_sent(const error_code& error);
  void linger();
  void disconnect();
  void close();
  void append_head(const HttpResponse& response, std::string_view framing);

  SharedBySessions* shared_;  // owned by the server; outlives every session
  ClientStream stream_;
  // The time limit for reading. Unlike the stream's own limit, it leaves the connection open, so
  // that the client gets an answer.
  boost::asio::steady_timer deadline_;
  Clock::time_point body_deadline_;
  std::string peer_;          // "127.0.0.1:50000"
  std::string counted_peer_;  // "127.0.0.1"
  Unlogged unlogged_;
  HttpHeaders extra_headers_;
  boost::beast::flat_buffer buffer_{2 * kReadAheadBytes};
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
  bool is_answering_ = false;  // from the last byte of the request to the last byte of its answer
  bool is_streaming_ = false;
  bool is_sending_ = false;
  bool is_watching_ = false;
  bool is_reading_ahead_ = false;  // TLS: a read is pending while a request is answered
  bool has_unread_body_ = false;
  bool is_too_late_ = false;  // the deadline has passed
  bool is_closed_ = false;
};

}  // namespace reprise::server
