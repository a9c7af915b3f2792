#include "reprise/parallel/tcp_rendezvous.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <span>
#include <thread>
#include <utility>

#include "reprise/base/error.h"

namespace reprise::parallel {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr std::array<char, 8> kMagic = {'R', 'P', 'R', 'S', 'R', 'A', 'N', 'K'};
constexpr uint32_t kVersion = 1;
// A connection that has not sent its hello after this time is closed.
constexpr milliseconds kHelloTime{5'000};
// Unknown peers that may be connected at the same time. Further ones wait in the kernel's queue.
constexpr size_t kMaxUnknown = 64;

using Token = std::array<uint8_t, 16>;

/// The first bytes of each connection, from the rank that opened it.
struct Hello {
  std::array<char, 8> magic = kMagic;
  uint32_t version = kVersion;
  uint32_t size = 0;  // of the group
  uint32_t rank = 0;
  uint32_t port = 0;  // where this rank listens
  Token token{};      // zeros: it has none yet
};

/// The address of a rank, which rank 0 tells the other ranks.
struct Place {
  std::array<char, 64> address{};  // an address in digits, ends with a zero
  uint32_t port = 0;
};

std::string last_error() { return std::strerror(errno); }

/// The addresses of a name. \throws Error
class Addresses {
 public:
  Addresses(const std::string& host, uint16_t port) {
    addrinfo hints{};
    hints.ai_family = AF_UNSPEC;
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* found = nullptr;
    const int code = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
    if (code != 0) {
      throw Error(
          fmt::format("MASTER_ADDR {}: cannot be resolved: {}; expected the address of rank 0",
                      host,
                      gai_strerror(code)));
    }
    list_.reset(found);
  }
  [[nodiscard]] const addrinfo& first() const noexcept { return *list_; }

 private:
  struct Free {
    void operator()(addrinfo* list) const noexcept { freeaddrinfo(list); }
  };
  std::unique_ptr<addrinfo, Free> list_;
};

void set_options(int fd) {
  const int on = 1;
  (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  (void)fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
}

Socket listen_at(const sockaddr* address, socklen_t length, const std::string& name) {
  Socket socket(::socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = 1;
  (void)setsockopt(socket.fd(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (!socket.is_open() || bind(socket.fd(), address, length) != 0 ||
      listen(socket.fd(), 128) != 0) {
    throw Error(fmt::format(
        "rank 0 cannot listen at {}: {}; MASTER_ADDR must be an address of the machine of rank 0, "
        "and MASTER_PORT free",
        name,
        last_error()));
  }
  set_options(socket.fd());
  return socket;
}

uint16_t port_of(int fd) {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  (void)getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length);
  return address.ss_family == AF_INET6
             ? ntohs(reinterpret_cast<const sockaddr_in6&>(address).sin6_port)
             : ntohs(reinterpret_cast<const sockaddr_in&>(address).sin_port);
}

// The address of the other side, in digits.
std::string peer_of(int fd) {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  std::array<char, 64> text{};
  if (getpeername(fd, reinterpret_cast<sockaddr*>(&address), &length) != 0 ||
      getnameinfo(reinterpret_cast<const sockaddr*>(&address),
                  length,
                  text.data(),
                  text.size(),
                  nullptr,
                  0,
                  NI_NUMERICHOST) != 0) {
    return "an unknown address";
  }
  return text.data();
}

bool wait_for(int fd, short events, Clock::time_point deadline) {
  for (;;) {
    const auto left = std::chrono::duration_cast<milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) return false;
    pollfd entry{.fd = fd, .events = events, .revents = 0};
    const int ready = poll(&entry, 1, static_cast<int>(std::min<int64_t>(left + 1, 1000)));
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) return false;
  }
}

bool send_all(int fd, std::span<const std::byte> bytes, Clock::time_point deadline) {
  while (!bytes.empty()) {
    const ssize_t sent = send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent > 0) {
      bytes = bytes.subspan(static_cast<size_t>(sent));
    } else if ((sent < 0 && errno != EAGAIN && errno != EINTR) ||
               !wait_for(fd, POLLOUT, deadline)) {
      return false;
    }
  }
  return true;
}

bool receive_all(int fd, std::span<std::byte> bytes, Clock::time_point deadline) {
  while (!bytes.empty()) {
    const ssize_t got = recv(fd, bytes.data(), bytes.size(), 0);
    if (got > 0) {
      bytes = bytes.subspan(static_cast<size_t>(got));
    } else if (got == 0 || (errno != EAGAIN && errno != EINTR) || !wait_for(fd, POLLIN, deadline)) {
      return false;
    }
  }
  return true;
}

template <typename T>
std::span<std::byte> bytes_of(T& value) {
  return std::as_writable_bytes(std::span(&value, 1));
}

// Tries again until the deadline, because the other side may not listen yet.
Socket connect_to(const std::string& host, uint16_t port, Clock::time_point deadline, int rank) {
  const Addresses addresses(host, port);
  const addrinfo& to = addresses.first();
  std::string reason = "the time was over";
  while (Clock::now() < deadline) {
    Socket socket(::socket(to.ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    set_options(socket.fd());
    if (connect(socket.fd(), to.ai_addr, to.ai_addrlen) == 0) return socket;
    int error = errno;
    if (error == EINPROGRESS) {
      socklen_t length = sizeof error;
      error = wait_for(socket.fd(), POLLOUT, deadline) &&
                      getsockopt(socket.fd(), SOL_SOCKET, SO_ERROR, &error, &length) == 0
                  ? error
                  : ETIMEDOUT;
      if (error == 0) return socket;
    }
    reason = std::strerror(error);
    std::this_thread::sleep_for(milliseconds(50));
  }
  throw Error(fmt::format("rank {} cannot be reached at {}:{}: {}", rank, host, port, reason));
}

/// Takes connections until each awaited rank has said hello.
class Reception {
 public:
  Reception(TcpMeeting& meeting, int listener, Token token, Clock::time_point deadline)
      : meeting_(&meeting), listener_(listener), token_(token), deadline_(deadline) {}

  /// Fills the entries of ranks >= first_rank. \throws Error
  void receive(int first_rank, std::vector<Socket>& sockets, std::vector<Place>& places) {
    const auto is_complete = [&] {
      return std::all_of(sockets.begin() + first_rank, sockets.end(), [](const Socket& socket) {
        return socket.is_open();
      });
    };
    while (!is_complete()) {
      if (Clock::now() > deadline_) fail(first_rank, sockets);
      wait_for_bytes();
      take_connections();
      for (size_t i = unknown_.size(); i-- > 0;) {
        if (read_hello(unknown_[i], first_rank, sockets, places)) {
          unknown_.erase(unknown_.begin() + static_cast<std::ptrdiff_t>(i));
        }
      }
    }
  }

 private:
  struct Unknown {
    Socket socket;
    std::string address;
    Hello hello;
    size_t num_read = 0;
    Clock::time_point deadline;
  };

  void wait_for_bytes() {
    std::vector<pollfd> entries = {{.fd = listener_, .events = POLLIN, .revents = 0}};
    // If there is no room for another unknown peer, new connections wait, and only the existing
    // ones are read.
    if (unknown_.size() >= kMaxUnknown) entries.clear();
    for (const Unknown& unknown : unknown_) {
      entries.push_back({.fd = unknown.socket.fd(), .events = POLLIN, .revents = 0});
    }
    (void)poll(entries.data(), entries.size(), 100);
  }

  void take_connections() {
    while (unknown_.size() < kMaxUnknown) {
      Socket socket(accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC));
      if (!socket.is_open()) return;
      set_options(socket.fd());
      const std::string address = peer_of(socket.fd());
      unknown_.push_back({.socket = std::move(socket),
                          .address = address,
                          .hello = {},
                          .num_read = 0,
                          .deadline = Clock::now() + kHelloTime});
    }
  }

  // Whether this connection is finished with: it was accepted or closed.
  bool read_hello(Unknown& from,
                  int first_rank,
                  std::vector<Socket>& sockets,
                  std::vector<Place>& places) {
    const std::span<std::byte> rest = bytes_of(from.hello).subspan(from.num_read);
    const ssize_t got = recv(from.socket.fd(), rest.data(), rest.size(), 0);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
      if (Clock::now() < from.deadline) return false;
      return refuse(from, "it did not say which rank it is");
    }
    if (got <= 0) return refuse(from, "it closed the connection");
    from.num_read += static_cast<size_t>(got);
    if (from.num_read < sizeof from.hello) return false;
    const Hello& hello = from.hello;
    if (hello.magic != kMagic || hello.version != kVersion) {
      return refuse(from, "its first bytes are not those of a rank of this version");
    }
    if (hello.token != token_) return refuse(from, "it did not take part when the ranks connected");
    if (std::cmp_not_equal(hello.size, meeting_->size)) {
      return refuse(from,
                    fmt::format("it is rank {} of {}, and this engine has {}",
                                hello.rank,
                                hello.size,
                                meeting_->size));
    }
    if (hello.rank >= hello.size || std::cmp_less(hello.rank, first_rank) ||
        hello.port > UINT16_MAX || sockets[hello.rank].is_open()) {
      return refuse(from, fmt::format("rank {} is not expected (again)", hello.rank));
    }
    Place& place = places[hello.rank];
    from.address.copy(place.address.data(), place.address.size() - 1);
    place.port = hello.port;
    sockets[hello.rank] = std::move(from.socket);
    return true;
  }

  bool refuse(Unknown& from, const std::string& why) const {
    if (meeting_->on_unknown_peer) {
      meeting_->on_unknown_peer(
          fmt::format("a connection from {} was closed: {}", from.address, why));
    }
    from.socket = Socket();
    return true;
  }

  [[noreturn]] void fail(int first_rank, const std::vector<Socket>& sockets) const {
    std::string missing;
    for (auto rank = static_cast<size_t>(first_rank); rank < sockets.size(); ++rank) {
      if (sockets[rank].is_open()) continue;
      missing += fmt::format("{}{}", missing.empty() ? "" : ", ", rank);
    }
    throw Error(fmt::format(
        "rank {} waited {} s in vain for rank {} of {}; start all ranks with the same MASTER_ADDR, "
        "MASTER_PORT and WORLD_SIZE",
        meeting_->rank,
        meeting_->timeout.count(),
        missing,
        meeting_->size));
  }

  TcpMeeting* meeting_;
  int listener_;
  Token token_;
  Clock::time_point deadline_;
  std::vector<Unknown> unknown_;
};

std::vector<Socket> meet_as_first(TcpMeeting& meeting, Clock::time_point deadline) {
  const auto size = static_cast<size_t>(meeting.size);
  if (!meeting.listener.is_open()) {
    const Addresses addresses(meeting.address, meeting.port);
    meeting.listener = listen_at(addresses.first().ai_addr,
                                 addresses.first().ai_addrlen,
                                 fmt::format("{}:{}", meeting.address, meeting.port));
  }
  set_options(meeting.listener.fd());
  std::vector<Socket> sockets(size);
  std::vector<Place> places(size);
  Reception(meeting, meeting.listener.fd(), Token{}, deadline).receive(1, sockets, places);
  Token token{};
  if (getrandom(token.data(), token.size(), 0) != static_cast<ssize_t>(token.size())) {
    throw Error(fmt::format("no random numbers: {}", last_error()));
  }
  for (size_t rank = 1; rank < size; ++rank) {
    const int fd = sockets[rank].fd();
    if (!send_all(fd, bytes_of(token), deadline) ||
        !send_all(fd, std::as_bytes(std::span(places)), deadline)) {
      throw Error(fmt::format("rank {} closed its connection while the ranks connected", rank));
    }
  }
  return sockets;
}

std::vector<Socket> meet_as_other(TcpMeeting& meeting, Clock::time_point deadline) {
  const auto size = static_cast<size_t>(meeting.size);
  std::vector<Socket> sockets(size);
  std::vector<Place> places(size);
  sockets[0] = connect_to(meeting.address, meeting.port, deadline, 0);
  // Listens at the address that reaches rank 0, and at no other.
  sockaddr_storage own{};
  socklen_t length = sizeof own;
  (void)getsockname(sockets[0].fd(), reinterpret_cast<sockaddr*>(&own), &length);
  if (own.ss_family == AF_INET6) {
    reinterpret_cast<sockaddr_in6&>(own).sin6_port = 0;
  } else {
    reinterpret_cast<sockaddr_in&>(own).sin_port = 0;
  }
  const Socket listener = listen_at(reinterpret_cast<sockaddr*>(&own), length, "its own address");
  Hello hello{.size = static_cast<uint32_t>(meeting.size),
              .rank = static_cast<uint32_t>(meeting.rank),
              .port = port_of(listener.fd())};
  if (!send_all(sockets[0].fd(), bytes_of(hello), deadline) ||
      !receive_all(sockets[0].fd(), bytes_of(hello.token), deadline) ||
      !receive_all(sockets[0].fd(), std::as_writable_bytes(std::span(places)), deadline)) {
    throw Error(fmt::format(
        "rank {}: rank 0 at {}:{} closed the connection or did not answer in time; start all ranks "
        "with the same WORLD_SIZE ({}) and the same program",
        meeting.rank,
        meeting.address,
        meeting.port,
        meeting.size));
  }
  for (int rank = 1; rank < meeting.rank; ++rank) {
    Place& place = places[static_cast<size_t>(rank)];
    place.address.back() = '\0';
    sockets[static_cast<size_t>(rank)] =
        connect_to(place.address.data(), static_cast<uint16_t>(place.port), deadline, rank);
    if (!send_all(sockets[static_cast<size_t>(rank)].fd(), bytes_of(hello), deadline)) {
      throw Error(fmt::format("rank {} closed the connection", rank));
    }
  }
  Reception reception(meeting, listener.fd(), hello.token, deadline);
  sockets[static_cast<size_t>(meeting.rank)] = Socket(dup(listener.fd()));
  reception.receive(meeting.rank, sockets, places);
  sockets[static_cast<size_t>(meeting.rank)] = Socket();
  return sockets;
}

}  // namespace

Socket& Socket::operator=(Socket&& other) noexcept {
  if (this != &other) {
    if (fd_ >= 0) close(fd_);
    fd_ = other.release();
  }
  return *this;
}

Socket::~Socket() {
  if (fd_ >= 0) close(fd_);
}

int Socket::release() noexcept { return std::exchange(fd_, -1); }

Socket listen_on_free_port(uint16_t& port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  Socket socket =
      listen_at(reinterpret_cast<const sockaddr*>(&address), sizeof address, "127.0.0.1");
  port = port_of(socket.fd());
  return socket;
}

std::vector<Socket> meet(TcpMeeting meeting) {
  const Clock::time_point deadline = Clock::now() + meeting.timeout;
  return meeting.rank == 0 ? meet_as_first(meeting, deadline) : meet_as_other(meeting, deadline);
}

}  // namespace reprise::parallel
