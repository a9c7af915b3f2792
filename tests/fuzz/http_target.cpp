#include <boost/beast/http/parser.hpp>
#include <optional>
#include <string>

#include "reprise/server/http/allowed_hosts.h"
#include "reprise/server/http/http_head.h"
#include "reprise/server/http/request_parser.h"
#include "reprise/server/http/request_query.h"
#include "tests/fuzz/targets.h"

namespace reprise::fuzz {
namespace {

namespace http = boost::beast::http;
using boost::system::error_code;

constexpr size_t kMaxBody = 512;

/// The result of reading the first request in some bytes.
struct Reading {
  int status = 0;  // of the refusal; 0: none
  bool is_whole = false;
  bool keeps_alive = false;
  std::string method;
  std::string path;
  std::string query;
  std::string host;
  std::string body;
  size_t num_used = 0;  // bytes of this request; the next request begins after them

  bool operator==(const Reading&) const = default;
};

/// Reads as HttpSession does: the head, the checks of the head, and then the body. The bytes arrive
/// in pieces of `piece_bytes`.
class Connection {
 public:
  explicit Connection(size_t piece_bytes) : piece_bytes_(piece_bytes) {
    parser_.header_limit(static_cast<uint32_t>(limits_.max_header_bytes));
    parser_.body_limit(kMaxBody);
  }

  Reading read(std::string_view input) {
    size_t end = 0;
    while (!has_ended_ && (end < input.size() || end == 0)) {
      end = std::min(end + piece_bytes_, input.size());
      take(input.substr(result_.num_used, end - result_.num_used), end == input.size());
      if (end == input.size()) break;
    }
    return result_;
  }

 private:
  void take(std::string_view bytes, bool is_last) {
    while (!has_ended_) {
      error_code error;
      const size_t num_used = parser_.put(boost::asio::buffer(bytes), error);
      result_.num_used += num_used;
      bytes.remove_prefix(num_used);
      if (error == http::error::need_more) {
        if (is_last) has_ended_ = true;
        return;
      }
      if (error) return refuse(error, bytes);
      if (parser_.is_header_done() && !is_head_checked_) check_head();
      if (parser_.is_done() && !has_ended_) finish();
      if (num_used == 0) return;
    }
  }

  void refuse(const error_code& error, std::string_view unread) {
    has_ended_ = true;
    const auto answer = server::protocol_error(error, unread);
    result_.status = answer ? answer->status() : -1;
  }

  void check_head() {
    is_head_checked_ = true;
    const auto& head = parser_.get();
    const server::HttpRequest request = server::read_head(head, "/root");
    require(server::request_line(head).size() < 256, "a line of the log is short");
    result_.method = request.method;
    result_.path = request.path;
    result_.query = request.query;
    result_.host = request.host;
    result_.keeps_alive = parser_.keep_alive();
    if (const auto broken = server::check_head(head, limits_)) {
      result_.status = broken->status();
      has_ended_ = true;
      return;
    }
    require(head.count(http::field::host) <= 1, "an accepted request has one host");
    require(head.count(http::field::transfer_encoding) == 0 ||
                head.count(http::field::content_length) == 0,
            "an accepted body has one length");
    require(request.path.starts_with('/') || request.path == "*", "an accepted path begins with /");
    try {
      hosts_.check(request.host);
    } catch (const server::ApiError& error) {
      require(error.status() == 403, "another host is forbidden");
    }
    (void)server::query_values(request.query, "a");
    (void)server::percent_decode(request.path);
    parser_.get().body().max_bytes = kMaxBody;
    parser_.eager(true);
  }

  void finish() {
    has_ended_ = true;
    result_.is_whole = true;
    result_.body = parser_.get().body().text;
    require(result_.body.size() <= kMaxBody, "a body has at most the allowed size");
  }

  size_t piece_bytes_;
  server::HttpLimits limits_;
  server::AllowedHosts hosts_{{"example.com", "*.example.org"}};
  server::RequestParser parser_;
  Reading result_;
  bool is_head_checked_ = false;
  bool has_ended_ = false;
};

}  // namespace

void http(std::string_view input) {
  if (input.empty()) return;
  const Reading whole = Connection(input.size()).read(input);
  require(whole.status == 0 || whole.status == -1 || (whole.status >= 400 && whole.status < 506),
          "a refusal has a status of an error");
  // The network decides where a request is cut into packets, and this must not change the request's
  // meaning.
  const size_t piece_bytes = 1 + static_cast<unsigned char>(input.front()) % 16;
  const Reading in_pieces = Connection(piece_bytes).read(input);
  if (whole.is_whole || in_pieces.is_whole) {
    require(whole == in_pieces, "a request means the same however it arrives");
  }
}

}  // namespace reprise::fuzz
