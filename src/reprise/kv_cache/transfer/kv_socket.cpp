#include "reprise/kv_cache/transfer/kv_socket.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
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

std::unique_ptr<addrinfo, FreeAddresses> find_addresses(const std::string& host,
                                                        int32_t port,
                                                        int flags) {
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

bool is_of_this_user(int descriptor) {
  ucred peer{};
  socklen_t size = sizeof(peer);
  return getsockopt(descriptor, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
         peer.uid == geteuid();
}

/// A message of one byte, with room for a descriptor.
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

KvAddress copy_of(const sockaddr* address, socklen_t size) {
  KvAddress result{.size = size};
  std::memcpy(&result.storage, address, size);
  return result;
}

const sockaddr* raw(const KvAddress& address) {
  return reinterpret_cast<const sockaddr*>(&address.storage);
}

/// Whether the call should be tried again when the socket is ready.
bool is_not_now() { return errno == EAGAIN || errno == EINTR; }

constexpr int kSocketFlags = SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK;

}  // namespace

KvSocket KvSocket::listen(const std::string& host, int32_t port) {
  const auto addresses = find_addresses(host, port, AI_PASSIVE);
  const addrinfo& first = *addresses;
  KvSocket result(socket(first.ai_family, kSocketFlags, 0), port);
  const int on = 1;
  setsockopt(result.descriptor_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (result.descriptor_ < 0 || bind(result.descriptor_, first.ai_addr, first.ai_addrlen) != 0 ||
      ::listen(result.descriptor_, kBacklog) != 0) {
    fail(fmt::format("{}:{}", host, port));
  }
  result.port_ = port_of(result.descriptor_);
  return result;
}

KvSocket KvSocket::listen_here(int32_t port) {
  const bool is_any = port == 0;
  for (int32_t tried = is_any ? kFirstFreePort : port;; ++tried) {
    KvSocket result(socket(AF_UNIX, kSocketFlags, 0), tried);
    if (result.descriptor_ < 0) fail("socket");
    const KvAddress address = address_here(tried);
    if (bind(result.descriptor_, raw(address), address.size) == 0 &&
        ::listen(result.descriptor_, kBacklog) == 0) {
      return result;
    }
    if (!is_any || errno != EADDRINUSE || tried == kLastPort) {
      fail(fmt::format("shared memory of port {}", tried));
    }
  }
}

/// A name in Linux's abstract namespace begins with a zero.
KvAddress KvSocket::address_here(int32_t port) {
  sockaddr_un local{};
  local.sun_family = AF_UNIX;
  const std::string name = fmt::format("reprise-kv-{}", port);
  std::copy(name.begin(), name.end(), local.sun_path + 1);
  return copy_of(reinterpret_cast<const sockaddr*>(&local),
                 static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size()));
}

bool KvSocket::is_numeric(const std::string& host) {
  const addrinfo hints = {.ai_flags = AI_NUMERICHOST, .ai_socktype = SOCK_STREAM};
  addrinfo* list = nullptr;
  if (getaddrinfo(host.c_str(), nullptr, &hints, &list) != 0) return false;
  freeaddrinfo(list);
  return true;
}

std::vector<KvAddress> KvSocket::look_up(const std::string& host, int32_t port) {
  const auto list = find_addresses(host, port, 0);
  std::vector<KvAddress> addresses;
  for (const addrinfo* next = list.get(); next != nullptr; next = next->ai_next) {
    addresses.push_back(copy_of(next->ai_addr, next->ai_addrlen));
  }
  return addresses;
}

KvSocket::KvSocket(const KvAddress& address)
    : descriptor_(socket(address.storage.ss_family, kSocketFlags, 0)) {
  if (descriptor_ < 0) fail("socket");
}

KvSocket::KvSocket(KvSocket&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)), port_(other.port_) {}

KvSocket& KvSocket::operator=(KvSocket&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  std::swap(port_, other.port_);
  return *this;
}

KvSocket::~KvSocket() {
  if (descriptor_ >= 0) close(descriptor_);
}

bool KvSocket::connect(const KvAddress& address) {
  if (::connect(descriptor_, raw(address), address.size) != 0 && errno != EISCONN) {
    // A local listener with too many connections says EAGAIN; others connect in the background.
    if (is_not_now() || errno == EINPROGRESS || errno == EALREADY) return false;
    fail("no connection");
  }
  if (address.storage.ss_family != AF_UNIX) {
    send_small_messages_at_once(descriptor_);
  } else if (!is_of_this_user(descriptor_)) {
    throw Error("the shared memory belongs to another user");
  }
  return true;
}

std::optional<KvSocket> KvSocket::accept() {
  for (;;) {
    const int accepted = accept4(descriptor_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (accepted < 0) {
      if (is_not_now() || errno == ECONNABORTED) return {};
      fail("accept");
    }
    KvSocket connection(accepted, port_);
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

size_t KvSocket::write(std::span<const std::byte> bytes) {
  const ssize_t sent = send(descriptor_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  if (sent >= 0) return static_cast<size_t>(sent);
  if (!is_not_now()) fail("the other side");
  return 0;
}

size_t KvSocket::read(std::span<std::byte> bytes) {
  const ssize_t received = recv(descriptor_, bytes.data(), bytes.size(), 0);
  if (received > 0 || bytes.empty()) return static_cast<size_t>(received);
  if (received == 0) throw Error("the other side ended the connection too early");
  if (!is_not_now()) fail("the other side");
  return 0;
}

bool KvSocket::read_line(std::string& line, size_t max_bytes) {
  std::array<char, 1024> seen{};
  for (;;) {
    // Looks first, because bytes after the line belong to another reader.
    const ssize_t received = recv(descriptor_, seen.data(), seen.size(), MSG_PEEK);
    if (received == 0) throw Error("the other side ended the connection too early");
    if (received < 0) {
      if (!is_not_now()) fail("the other side");
      return false;
    }
    const std::string_view part(seen.data(), static_cast<size_t>(received));
    const size_t end = part.find('\n');
    line.append(part.substr(0, end));
    const size_t taken = std::min(end, part.size() - 1) + 1;
    if (read(std::as_writable_bytes(std::span(seen)).first(taken)) != taken) {
      throw Error("the other side: bytes that had arrived are gone");
    }
    if (line.size() > max_bytes) {
      throw Error(fmt::format("the other side sent a line of more than {} bytes", max_bytes));
    }
    if (end != std::string_view::npos) return true;
  }
}

bool KvSocket::send_descriptor(int descriptor) {
  DescriptorMessage message;
  cmsghdr* const header = CMSG_FIRSTHDR(&message.header);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(header), &descriptor, sizeof(int));
  if (sendmsg(descriptor_, &message.header, MSG_NOSIGNAL) >= 0) return true;
  if (!is_not_now()) fail("the other side");
  return false;
}

std::optional<int> KvSocket::receive_descriptor() {
  DescriptorMessage message;
  const ssize_t received = recvmsg(descriptor_, &message.header, MSG_CMSG_CLOEXEC);
  if (received < 0) {
    if (!is_not_now()) fail("the other side");
    return {};
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

std::string KvSocket::peer_host() const {
  KvAddress peer{.size = sizeof(peer.storage)};
  if (getpeername(descriptor_, reinterpret_cast<sockaddr*>(&peer.storage), &peer.size) != 0) {
    return {};
  }
  const auto bytes_of = [](const auto& address) {
    return std::string(reinterpret_cast<const char*>(&address), sizeof(address));
  };
  switch (peer.storage.ss_family) {
    case AF_INET:
      return bytes_of(reinterpret_cast<const sockaddr_in&>(peer.storage).sin_addr);
    case AF_INET6:
      return bytes_of(reinterpret_cast<const sockaddr_in6&>(peer.storage).sin6_addr);
    default:
      return {};  // this machine
  }
}

}  // namespace reprise::kv_cache
