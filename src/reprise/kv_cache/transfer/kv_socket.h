#pragma once

#include <sys/socket.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace reprise::kv_cache {

/// The address that a socket connects to.
struct KvAddress {
  sockaddr_storage storage{};
  socklen_t size = 0;
};

/// One end of a connection, or a socket at which connections arrive. No function waits; wait with
/// poll() until the socket can do more. One thread at a time. Move-only.
///
/// All functions throw Error, which says what failed and why.
class KvSocket {
 public:
  KvSocket() = default;
  /// Listens with TCP. Port 0: any free port.
  [[nodiscard]] static KvSocket listen(const std::string& host, int32_t port);
  /// Listens for processes of the same user on this machine: at a name outside of the file system,
  /// which disappears with its process. Only such connections can send descriptors. Port 0: any
  /// free port.
  [[nodiscard]] static KvSocket listen_here(int32_t port);
  [[nodiscard]] static KvAddress address_here(int32_t port);

  /// Whether a host is an address in digits, which needs no name server.
  [[nodiscard]] static bool is_numeric(const std::string& host);
  /// The addresses of a host. Waits for a name server unless is_numeric().
  [[nodiscard]] static std::vector<KvAddress> look_up(const std::string& host, int32_t port);

  /// A socket that will connect to this address.
  explicit KvSocket(const KvAddress& address);
  KvSocket(KvSocket&& other) noexcept;
  KvSocket& operator=(KvSocket&& other) noexcept;
  ~KvSocket();

  /// Whether the connection is established. \throws Error too when the other side belongs to
  /// another user
  [[nodiscard]] bool connect(const KvAddress& address);
  /// A connection that has arrived, if there is one.
  [[nodiscard]] std::optional<KvSocket> accept();

  /// These functions return the number of bytes; 0: nothing is possible now. Reading also throws
  /// when the connection has ended.
  [[nodiscard]] size_t write(std::span<const std::byte> bytes);
  [[nodiscard]] size_t read(std::span<std::byte> bytes);
  /// Reads up to the end of a line and appends it to `line`, without the end. Returns whether the
  /// end of the line was read. \throws Error too when the line is longer than `max_bytes`
  [[nodiscard]] bool read_line(std::string& line, size_t max_bytes);
  /// Whether it was sent.
  [[nodiscard]] bool send_descriptor(int descriptor);
  /// A descriptor that has arrived, if there is one. The caller owns it.
  [[nodiscard]] std::optional<int> receive_descriptor();

  [[nodiscard]] int descriptor() const noexcept { return descriptor_; }
  /// Where this socket listens.
  [[nodiscard]] int32_t port() const noexcept { return port_; }
  /// The host at the other end, as bytes to compare.
  [[nodiscard]] std::string peer_host() const;

 private:
  KvSocket(int descriptor, int32_t port) : descriptor_(descriptor), port_(port) {}

  int descriptor_ = -1;
  int32_t port_ = 0;
};

}  // namespace reprise::kv_cache
