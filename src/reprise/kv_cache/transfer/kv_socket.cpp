#include "reprise/kv_cache/transfer/kv_socket.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <system_error>
#include <utility>

#include "reprise/base/error.h"

namespace reprise::kv_cache {
namespace {

constexpr int kBacklog = 128;
constexpr int32_t kFirstFreePort = 20'000;  // where the search for a free local name begins
constexpr int32_t kLastPort = 65'535;

[[noreturn]] void fail(const std::string& what, int error = errno) {
  throw Error(fmt::format("{}: {}", what, std::generic_category().message(error)));
}

struct FreeAddresses {
  void operator()(addrinfo* list) const noexcept { freeaddrinfo(list); }
};

std::unique_ptr<addrinfo, FreeAddresses> look_up(const std::string& host, int32_t port, int flags) {
  const addrinfo hints = {.ai_flags = flags | AI_NUMERICSERV, .ai_socktype = SOCK_STREAM};
  addrinfo* list = nullptr;
  const int error = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &list);
  if (error != 0) throw Error(fmt::format("{}:{}: {}", host, port, gai_strerror(error)));
  return std::unique_ptr<addrinfo, FreeAddresses>(list);
}

int32_t port_of(int descriptor) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  if (getsockname(descriptor, reinterpret_cast<sockaddr*>(&address), &size) != 0) return 0;
  const bool is_ipv6 = address.ss_family == AF_INET6;
  return ntohs(is_ipv6 ? reinterpret_cast<const sockaddr_in6&>(address).sin6_port
                       : reinterpret_cast<const sockaddr_in&>(address).sin_port);
}

struct LocalAddress {
  sockaddr_un address{};
  socklen_t size = 0;
};

/// A name in Linux's abstract namespace begins with a zero.
LocalAddress local_address(int32_t port) {
  LocalAddress local;
  local.address.sun_family = AF_UNIX;
  const std::string name = fmt::format("reprise-kv-{}", port);
  std::copy(name.begin(), name.end(), local.address.sun_path + 1);
  local.size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return local;
}

bool is_of_this_user(int descriptor) {
  ucred peer{};
  socklen_t size = sizeof(peer);
  return getsockopt(descriptor, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
         peer.uid == geteuid();
}

/// One byte, and room for a descriptor beside it.
struct DescriptorMessage {
  DescriptorMessage() {
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    header.msg_control = control.data();
    header.msg_controllen = control.size();
  }
  DescriptorMessage(const DescriptorMessage&) = delete;
  DescriptorMessage& operator=(const DescriptorMessage&) = delete;

  char content = 0;
  iovec part = {.iov_base = &content, .iov_len = 1};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  msghdr header{};
};

void send_small_messages_at_once(int descriptor) {
  const int on = 1;
  setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

constexpr int kSocketFlags = SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK;

}  // namespace

KvSocket KvSocket::listen(const std::string& host, int32_t port) {
  const auto addresses = look_up(host, port, AI_PASSIVE);
  const addrinfo& first = *addresses;
  KvSocket result(socket(first.ai_family, kSocketFlags, 0), port);
  const int on = 1;
  setsockopt(result.descriptor_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (!result.is_valid() || bind(result.descriptor_, first.ai_addr, first.ai_addrlen) != 0 ||
      ::listen(result.descriptor_, kBacklog) != 0) {
    fail(fmt::format("{}:{}", host, port));
  }
  result.port_ = port_of(result.descriptor_);
  return result;
}

KvSocket KvSocket::connect(const std::string& host,
                           int32_t port,
                           Clock::time_point deadline,
                           const std::atomic<bool>* end) {
  const auto addresses = look_up(host, port, 0);
  for (const addrinfo* next = addresses.get();; next = next->ai_next) {
    KvSocket result(socket(next->ai_family, kSocketFlags, 0), port, end);
    if (!result.is_valid()) fail("socket");
    try {
      result.connect_to(next->ai_addr, next->ai_addrlen, deadline);
      send_small_messages_at_once(result.descriptor_);
      return result;
    } catch (const Error&) {
      if (next->ai_next == nullptr) throw;
    }
  }
}

KvSocket KvSocket::listen_here(int32_t port) {
  const bool is_any = port == 0;
  for (int32_t tried = is_any ? kFirstFreePort : port;; ++tried) {
    KvSocket result(socket(AF_UNIX, kSocketFlags, 0), tried);
    if (!result.is_valid()) fail("socket");
    const LocalAddress local = local_address(tried);
    const auto* const address = reinterpret_cast<const sockaddr*>(&local.address);
    if (bind(result.descriptor_, address, local.size) == 0 &&
        ::listen(result.descriptor_, kBacklog) == 0) {
      return result;
    }
    if (!is_any || errno != EADDRINUSE || tried == kLastPort) {
      fail(fmt::format("shared memory of port {}", tried));
    }
  }
}

KvSocket KvSocket::connect_here(int32_t port,
                                Clock::time_point deadline,
                                const std::atomic<bool>* end) {
  KvSocket result(socket(AF_UNIX, kSocketFlags, 0), port, end);
  if (!result.is_valid()) fail("socket");
  const LocalAddress local = local_address(port);
  result.connect_to(&local.address, local.size, deadline);
  if (!is_of_this_user(result.descriptor_)) {
    throw Error(fmt::format("shared memory of port {} belongs to another user", port));
  }
  return result;
}

KvSocket::KvSocket(KvSocket&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)), port_(other.port_), end_(other.end_) {}

KvSocket& KvSocket::operator=(KvSocket&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  std::swap(port_, other.port_);
  std::swap(end_, other.end_);
  return *this;
}

KvSocket::~KvSocket() {
  if (is_valid()) close(descriptor_);
}

KvSocket KvSocket::accept(const std::atomic<bool>* end) {
  for (;;) {
    wait(POLLIN, Clock::time_point::max());
    if (end != nullptr && end->load()) return {};
    const int accepted = accept4(descriptor_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (accepted < 0) {
      // Another thread was quicker, or the connection is gone already.
      if (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED) continue;
      fail("accept");
    }
    KvSocket connection(accepted, port_, end);
    int family = 0;
    socklen_t size = sizeof(family);
    getsockopt(accepted, SOL_SOCKET, SO_DOMAIN, &family, &size);
    if (family != AF_UNIX) {
      send_small_messages_at_once(accepted);
    } else if (!is_of_this_user(accepted)) {
      continue;
    }
    return connection;
  }
}

void KvSocket::shut_down() noexcept {
  if (is_valid()) shutdown(descriptor_, SHUT_RDWR);
}

/// May return early; the caller tries again.
void KvSocket::wait(short events, Clock::time_point deadline) const {
  if (end_ != nullptr && end_->load()) throw Error("the server is shutting down");
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
  if (left.count() <= 0) fail("the other side", ETIMEDOUT);
  // A listener has nothing to look for meanwhile: shut_down() wakes it.
  const int64_t longest = end_ == nullptr ? 60'000 : 100;
  pollfd waited = {.fd = descriptor_, .events = events, .revents = 0};
  const int num_ready = poll(&waited, 1, static_cast<int>(std::min(left.count(), longest)));
  if (num_ready < 0 && errno != EINTR) fail("poll");
}

void KvSocket::connect_to(const void* address, size_t size, Clock::time_point deadline) {
  const auto* const target = static_cast<const sockaddr*>(address);
  while (::connect(descriptor_, target, static_cast<socklen_t>(size)) != 0) {
    if (errno == EISCONN) return;
    // A local listener with too many connections says EAGAIN; others connect in the background.
    if (errno != EINPROGRESS && errno != EALREADY && errno != EAGAIN && errno != EINTR) {
      fail(fmt::format("port {}", port_));
    }
    wait(POLLOUT, deadline);
  }
}

void KvSocket::write(std::span<const std::byte> bytes, Clock::time_point deadline) {
  while (!bytes.empty()) {
    const ssize_t sent = send(descriptor_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent > 0) {
      bytes = bytes.subspan(static_cast<size_t>(sent));
    } else if (errno == EAGAIN) {
      wait(POLLOUT, deadline);
    } else if (errno != EINTR) {
      fail("the other side");
    }
  }
}

void KvSocket::read(std::span<std::byte> bytes, Clock::time_point deadline) {
  while (!bytes.empty()) {
    const ssize_t received = recv(descriptor_, bytes.data(), bytes.size(), 0);
    if (received > 0) {
      bytes = bytes.subspan(static_cast<size_t>(received));
    } else if (received == 0) {
      throw Error(
          fmt::format("the other side ended the connection; {} bytes are missing", bytes.size()));
    } else if (errno == EAGAIN) {
      wait(POLLIN, deadline);
    } else if (errno != EINTR) {
      fail("the other side");
    }
  }
}

std::string KvSocket::read_line(size_t max_bytes, Clock::time_point deadline) {
  std::string line;
  for (;;) {
    char next = 0;
    read(std::as_writable_bytes(std::span(&next, 1)), deadline);
    if (next == '\n') return line;
    if (line.size() == max_bytes) {
      throw Error(fmt::format("the other side sent a line of more than {} bytes", max_bytes));
    }
    line += next;
  }
}

void KvSocket::write_line(std::string line, Clock::time_point deadline) {
  line += '\n';
  write(std::as_bytes(std::span(line)), deadline);
}

void KvSocket::send_descriptor(int descriptor, Clock::time_point deadline) {
  DescriptorMessage message;
  cmsghdr* const header = CMSG_FIRSTHDR(&message.header);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(header), &descriptor, sizeof(int));
  while (sendmsg(descriptor_, &message.header, MSG_NOSIGNAL) < 0) {
    if (errno != EAGAIN && errno != EINTR) fail("the other side");
    wait(POLLOUT, deadline);
  }
}

int KvSocket::receive_descriptor(Clock::time_point deadline) {
  DescriptorMessage message;
  ssize_t received = 0;
  while ((received = recvmsg(descriptor_, &message.header, MSG_CMSG_CLOEXEC)) < 0) {
    if (errno != EAGAIN && errno != EINTR) fail("the other side");
    wait(POLLIN, deadline);
  }
  const cmsghdr* const header = CMSG_FIRSTHDR(&message.header);
  if (received == 0 || header == nullptr || header->cmsg_type != SCM_RIGHTS ||
      header->cmsg_len != CMSG_LEN(sizeof(int))) {
    throw Error("the other side sent no shared memory");
  }
  int descriptor = -1;
  std::memcpy(&descriptor, CMSG_DATA(header), sizeof(int));
  return descriptor;
}

}  // namespace reprise::kv_cache
