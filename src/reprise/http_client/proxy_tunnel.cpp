#include "reprise/http_client/proxy_tunnel.h"

#include <fmt/format.h>

#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/write.hpp>
#include <memory>
#include <utility>

namespace reprise::http_client {
namespace {

namespace beast = boost::beast;
using boost::system::error_code;

class Tunnel : public std::enable_shared_from_this<Tunnel> {
 public:
  Tunnel(beast::tcp_stream& stream,
         const BaseUrl& server,
         const HttpProxy& proxy,
         std::function<void(const std::string& error)> on_end)
      : stream_(&stream), proxy_(proxy.url.authority()), on_end_(std::move(on_end)) {
    request_.method(beast::http::verb::connect);
    request_.target(server.authority());
    request_.version(11);
    request_.set(beast::http::field::host, server.authority());
    request_.set(beast::http::field::user_agent, "reprise");
    if (!proxy.authorization.empty()) {
      request_.set(beast::http::field::proxy_authorization, proxy.authorization);
    }
    answer_.skip(true);  // the server's bytes follow the head
  }

  void open() {
    beast::http::async_write(
        *stream_, request_, [self = shared_from_this()](const error_code& error, size_t) {
          if (error) return self->end(error.message());
          self->read_answer();
        });
  }

 private:
  void read_answer() {
    beast::http::async_read_header(
        *stream_, buffer_, answer_, [self = shared_from_this()](const error_code& error, size_t) {
          if (error) return self->end(error.message());
          const auto& head = self->answer_.get();
          if (head.result_int() == 200) return self->on_end_({});
          self->end(
              fmt::format("{} {}; HTTPS_PROXY names it, NO_PROXY names servers to ask directly",
                          head.result_int(),
                          std::string_view(head.reason())));
        });
  }

  void end(const std::string& why) { on_end_(fmt::format("the proxy {}: {}", proxy_, why)); }

  beast::tcp_stream* stream_;  // of the connection
  std::string proxy_;
  std::function<void(const std::string& error)> on_end_;
  beast::http::request<beast::http::empty_body> request_;
  beast::http::response_parser<beast::http::empty_body> answer_;
  beast::flat_buffer buffer_;
};

}  // namespace

void async_open_tunnel(beast::tcp_stream& stream,
                       const BaseUrl& server,
                       const HttpProxy& proxy,
                       std::function<void(const std::string& error)> on_end) {
  std::make_shared<Tunnel>(stream, server, proxy, std::move(on_end))->open();
}

}  // namespace reprise::http_client
