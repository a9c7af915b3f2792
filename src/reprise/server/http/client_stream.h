#pragma once

#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/beast/core/basic_stream.hpp>
#include <boost/beast/core/stream_traits.hpp>
#include <chrono>
#include <optional>
#include <utility>

namespace reprise::server {

/// A client's byte stream: TCP or a Unix socket, with or without TLS. It meets Asio's requirements
/// for a stream; one read and one write may be pending at a time. Private to http_server.cpp.
class ClientStream {
 public:
  using Socket = boost::asio::generic::stream_protocol::socket;
  using Transport = boost::beast::basic_stream<boost::asio::generic::stream_protocol>;
  using executor_type = Transport::executor_type;

  /// `tls`, if any, must outlive this.
  ClientStream(Socket socket, boost::asio::ssl::context* tls) : transport_(std::move(socket)) {
    if (tls != nullptr) tls_.emplace(transport_, *tls);
  }
  ClientStream(const ClientStream&) = delete;
  ClientStream& operator=(const ClientStream&) = delete;
  ~ClientStream() = default;

  [[nodiscard]] bool is_tls() const noexcept { return tls_.has_value(); }
  [[nodiscard]] executor_type get_executor() { return transport_.get_executor(); }
  [[nodiscard]] Socket& socket() { return transport_.socket(); }
  /// Sets the time limit of operations that start after this call.
  void expires_after(std::chrono::seconds time) { transport_.expires_after(time); }
  /// Operations that start after this call have no time limit.
  void expires_never() { transport_.expires_never(); }
  /// Ends the pending operations with an error; the connection stays open.
  void cancel() { transport_.cancel(); }
  /// Closes the socket without a TLS shutdown message.
  void close() { transport_.close(); }

  /// \pre is_tls()
  template <typename Handler>
  void async_handshake(Handler&& handler) {
    tls_->async_handshake(boost::asio::ssl::stream_base::server, std::forward<Handler>(handler));
  }
  /// Sends the TLS shutdown message. \pre is_tls()
  template <typename Handler>
  void async_shutdown(Handler&& handler) {
    tls_->async_shutdown(std::forward<Handler>(handler));
  }
  template <typename Buffers, typename Handler>
  void async_read_some(const Buffers& buffers, Handler&& handler) {
    tls_ ? tls_->async_read_some(buffers, std::forward<Handler>(handler))
         : transport_.async_read_some(buffers, std::forward<Handler>(handler));
  }
  template <typename Buffers, typename Handler>
  void async_write_some(const Buffers& buffers, Handler&& handler) {
    tls_ ? tls_->async_write_some(buffers, std::forward<Handler>(handler))
         : transport_.async_write_some(buffers, std::forward<Handler>(handler));
  }

 private:
  Transport transport_;
  std::optional<boost::asio::ssl::stream<Transport&>> tls_;
};

}  // namespace reprise::server
