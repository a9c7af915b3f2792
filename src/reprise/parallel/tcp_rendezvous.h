#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace reprise::parallel {

/// A file descriptor that is closed with this object.
class Socket {
 public:
  Socket() = default;
  explicit Socket(int fd) noexcept : fd_(fd) {}
  Socket(Socket&& other) noexcept : fd_(other.release()) {}
  Socket& operator=(Socket&& other) noexcept;
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  ~Socket();

  [[nodiscard]] int fd() const noexcept { return fd_; }
  [[nodiscard]] bool is_open() const noexcept { return fd_ >= 0; }
  [[nodiscard]] int release() noexcept;

 private:
  int fd_ = -1;
};

/// The place where the ranks of an engine meet, from the launcher's variables RANK, WORLD_SIZE,
/// MASTER_ADDR and MASTER_PORT.
struct TcpMeeting {
  int rank = 0;
  int size = 1;
  std::string address = "127.0.0.1";  // the address of rank 0: a name, or digits
  uint16_t port = 0;
  std::chrono::seconds timeout{300};  // until all ranks must be there
  /// Rank 0 may get a socket that already listens, so that no other program can take the port
  /// first. Then rank 0 needs neither address nor port.
  Socket listener;
  /// Gets a message for each connection that is not a rank of this engine. Such connections are
  /// closed, and the ranks continue.
  std::function<void(const std::string&)> on_unknown_peer;
};

/// A socket that listens on 127.0.0.1 on a free port. \throws Error
[[nodiscard]] Socket listen_on_free_port(uint16_t& port);

/// Connects each rank with each other rank. Rank 0 listens only at the given address. Each other
/// rank connects to it and sends the port at which the rank itself listens. It gets the addresses
/// of all ranks and a random number, which it must send to the ranks that it connects to: so they
/// know that it has talked to rank 0. Every read has a fixed size and a deadline. Returns the
/// sockets by rank; the own one is closed.
/// \throws Error that names the ranks that did not come, or what is wrong with the address
[[nodiscard]] std::vector<Socket> meet(TcpMeeting meeting);

}  // namespace reprise::parallel
