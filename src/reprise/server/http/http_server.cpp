#include "reprise/server/http/http_server.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <csignal>
#include <type_traits>
#include <utility>
#include <vector>

#include "reprise/base/error.h"
#include "reprise/server/http/api_error.h"
#include "reprise/server/http/http_session.h"
#include "reprise/server/http/tls_context.h"
#include "reprise/server/http/tls_files.h"

namespace reprise::server {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;
using std::chrono::seconds;

/// The part of an address that one client cannot choose freely: the whole IPv4 address, or the
/// network of an IPv6 address.
std::string counted_part(const asio::ip::address& address) {
  if (!address.is_v6() || address.is_loopback()) return address.to_string();
  const asio::ip::address_v6 v6 = address.to_v6();
  if (v6.is_v4_mapped()) return asio::ip::make_address_v4(asio::ip::v4_mapped, v6).to_string();
  asio::ip::address_v6::bytes_type bytes = v6.to_bytes();
  std::fill(bytes.begin() + bytes.size() / 2, bytes.end(), 0);
  return asio::ip::address_v6(bytes).to_string();
}

constexpr seconds kTlsFilesPeriod{1};

/// A signal that was ignored from the start stays ignored, as programs under nohup expect.
bool is_ignored(int signal) {
  struct sigaction action{};
  return ::sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

}  // namespace

struct HttpServer::Impl {
  Impl(const HttpOptions& options, HttpHandlers handlers)
      : shared{.limits = options.limits,
               .root_path = options.root_path,
               .handlers = std::move(handlers),
               .tls = {},
               .body_memory = BodyMemory(options.limits.max_all_body_bytes),
               .open = {},
               .num_open_by_peer = {},
               .on_closed = [this] { stop_after_the_last(); }} {
    if (!options.tls.is_set()) return;
    shared.tls.emplace(make_tls_context(options.tls));
    if (options.tls.refreshes) refresh.emplace(options.tls);
  }

  template <typename Acceptor>
  void accept(Acceptor& from);
  void take(ClientStream::Socket socket, std::string peer, std::string counted_peer);
  [[nodiscard]] size_t max_per_peer() const;
  void wait_for_signal();
  void refresh_tls();
  void watch_tls_files();
  void take_address(const std::string& host, uint16_t port, bool listens);
  void take_unix(const std::string& path, bool listens);
  void stop_after_the_last() {
    if (shared.is_shutting_down && shared.open.empty()) io.stop();
  }

  SharedBySessions shared;  // after `io`: destroying `io` also destroys the sessions
  asio::io_context io{1};
  tcp::acceptor acceptor{io};
  asio::local::stream_protocol::acceptor unix_acceptor{io};
  std::string unix_path;  // removed when the server ends
  asio::signal_set signals{io};
  asio::steady_timer accept_pause{io};
  std::optional<TlsFiles> refresh;  // the files that are read again
  asio::steady_timer refresh_timer{io};
};

size_t HttpServer::Impl::max_per_peer() const {
  const HttpLimits& limits = shared.limits;
  if (limits.max_connections_per_peer > 0) return limits.max_connections_per_peer;
  return std::max<size_t>(1, limits.max_connections - limits.max_connections / 4);
}

void HttpServer::Impl::take(ClientStream::Socket socket,
                            std::string peer,
                            std::string counted_peer) {
  const auto known = shared.num_open_by_peer.find(counted_peer);
  const bool is_counted = !counted_peer.empty();
  const size_t num_of_peer =
      is_counted && known != shared.num_open_by_peer.end() ? known->second : 0;
  // Twice the limit of connections is taken for an attack; further connections are closed without
  // an answer.
  if (shared.open.size() >= 2 * shared.limits.max_connections) return;
  if (num_of_peer >= 2 * max_per_peer()) return;
  auto session = std::make_shared<HttpSession>(
      shared, std::move(socket), std::move(peer), std::move(counted_peer));
  const bool are_too_many = shared.open.size() > shared.limits.max_connections;
  const bool are_too_many_of_peer = num_of_peer >= max_per_peer();
  if (!are_too_many && !are_too_many_of_peer) return session->start();
  if (shared.tls) return;
  session->refuse(
      error_response(ApiError(503,
                              are_too_many ? "There are too many connections."
                                           : "There are too many connections from this address.")));
}

template <typename Acceptor>
void HttpServer::Impl::accept(Acceptor& from) {
  from.async_accept([this, &from](error_code error, auto socket) {
    if (shared.is_shutting_down || error == asio::error::operation_aborted) return;
    if (error) {
      // Usually no file descriptors are left. Accept again after a pause, when some may be free.
      accept_pause.expires_after(std::chrono::milliseconds(100));
      accept_pause.async_wait([this, &from](error_code cancelled) {
        if (!cancelled) accept(from);
      });
      return;
    }
    std::string peer = "unix:";
    std::string counted_peer;
    if constexpr (std::is_same_v<decltype(socket), tcp::socket>) {
      error_code ignored;
      socket.set_option(tcp::no_delay(true), ignored);
      const tcp::endpoint endpoint = socket.remote_endpoint(ignored);
      peer = fmt::format("{}:{}", endpoint.address().to_string(), endpoint.port());
      counted_peer = counted_part(endpoint.address());
    }
    take(std::move(socket), std::move(peer), std::move(counted_peer));
    accept(from);
  });
}

void HttpServer::Impl::wait_for_signal() {
  signals.async_wait([this](error_code error, int signal) {
    if (error) return;
    wait_for_signal();
    const bool reads_again = refresh || shared.handlers.on_hang_up;
    if (signal != SIGHUP || !reads_again) return shared.handlers.on_signal();
    if (refresh) refresh_tls();
    if (shared.handlers.on_hang_up) shared.handlers.on_hang_up();
  });
}

void HttpServer::Impl::refresh_tls() {
  shared.handlers.on_tls_refresh(refresh_tls_context(shared.tls, refresh->options()));
}

void HttpServer::Impl::watch_tls_files() {
  refresh_timer.expires_after(kTlsFilesPeriod);
  refresh_timer.async_wait([this](error_code error) {
    if (error) return;
    if (refresh->have_changed()) refresh_tls();
    watch_tls_files();
  });
}

void HttpServer::Impl::take_address(const std::string& host, uint16_t port, bool listens) {
  try {
    tcp::resolver resolver(io);
    const auto found = resolver.resolve(
        host, std::to_string(port), tcp::resolver::passive | tcp::resolver::numeric_service);
    const tcp::endpoint endpoint = *found.begin();
    acceptor.open(endpoint.protocol());
    acceptor.set_option(tcp::acceptor::reuse_address(true));
    acceptor.bind(endpoint);
    if (listens) acceptor.listen();
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

void HttpServer::Impl::take_unix(const std::string& path, bool listens) {
  struct stat status{};
  const bool is_socket = ::lstat(path.c_str(), &status) == 0 && S_ISSOCK(status.st_mode);
  try {
    const asio::local::stream_protocol::endpoint endpoint(path);
    if (is_socket) {
      error_code refused;
      asio::local::stream_protocol::socket probe(io);
      (void)probe.connect(endpoint, refused);
      if (refused == asio::error::connection_refused) ::unlink(path.c_str());
    }
    unix_acceptor.open();
    unix_acceptor.bind(endpoint);
    unix_path = path;
    if (listens) unix_acceptor.listen();
  } catch (const boost::system::system_error& error) {
    const char* advice = "";
    if (error.code() == asio::error::address_in_use) {
      advice = is_socket ? "; end the server that listens there, or choose another path"
                         : "; what is there is not a socket, choose another path";
    }
    throw InvalidArgument(fmt::format("--uds {}: {}{}", path, error.code().message(), advice));
  }
}

HttpServer::HttpServer(const HttpOptions& options, HttpHandlers handlers)
    : impl_(std::make_unique<Impl>(options, std::move(handlers))) {}

HttpServer::~HttpServer() {
  if (!impl_->unix_path.empty()) ::unlink(impl_->unix_path.c_str());
}

uint16_t HttpServer::listen(const std::string& host, uint16_t port) {
  impl_->take_address(host, port, true);
  return impl_->acceptor.local_endpoint().port();
}

void HttpServer::reserve(const std::string& host, uint16_t port) {
  impl_->take_address(host, port, false);
}

void HttpServer::listen_unix(const std::string& path) { impl_->take_unix(path, true); }

void HttpServer::reserve_unix(const std::string& path) { impl_->take_unix(path, false); }

void HttpServer::run() {
  impl_->signals.add(SIGINT);
  impl_->signals.add(SIGTERM);
  // SIGHUP means that the terminal or the service manager has gone. Running requests still get
  // their answers.
  if (!is_ignored(SIGHUP)) impl_->signals.add(SIGHUP);
  impl_->wait_for_signal();
  if (impl_->refresh) impl_->watch_tls_files();
  if (impl_->acceptor.is_open()) impl_->accept(impl_->acceptor);
  if (impl_->unix_acceptor.is_open()) impl_->accept(impl_->unix_acceptor);
  impl_->io.run();
}

void HttpServer::shut_down(int grace_seconds) {
  if (std::exchange(impl_->shared.is_shutting_down, true)) return;
  error_code ignored;
  (void)impl_->acceptor.close(ignored);
  (void)impl_->unix_acceptor.close(ignored);
  const std::vector<HttpSession*> open(impl_->shared.open.begin(), impl_->shared.open.end());
  for (HttpSession* session : open) session->wind_down();
  if (impl_->shared.open.empty()) return impl_->io.stop();
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
