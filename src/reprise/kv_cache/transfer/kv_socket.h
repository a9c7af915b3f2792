#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace reprise::kv_cache {

/// One end of a connection, or a place where connections arrive. Every operation has a deadline.
/// One thread at a time, except shut_down(). Move-only.
///
/// All functions throw Error, which says what failed and why.
class KvSocket {
 public:
  using Clock = std::chrono::steady_clock;

  KvSocket() = default;
  /// TCP. Port 0: any free port.
  [[nodiscard]] static KvSocket listen(const std::string& host, int32_t port);
  /// `end` ends all waiting of this socket when it becomes true. Borrowed; null: nothing does.
  [[nodiscard]] static KvSocket connect(const std::string& host,
                                        int32_t port,
                                        Clock::time_point deadline,
                                        const std::atomic<bool>* end = nullptr);
  /// Between processes of one user on one machine: a name outside of the file system, which goes
  /// with its process. Only such connections can send descriptors. Port 0: any free port.
  [[nodiscard]] static KvSocket listen_here(int32_t port);
  [[nodiscard]] static KvSocket connect_here(int32_t port,
                                             Clock::time_point deadline,
                                             const std::atomic<bool>* end = nullptr);
  KvSocket(KvSocket&& other) noexcept;
  KvSocket& operator=(KvSocket&& other) noexcept;
  ~KvSocket();

  /// Waits for a connection. An invalid socket: `end` is true, which shut_down() makes this
  /// function notice. The connection has the same `end`.
  [[nodiscard]] KvSocket accept(const std::atomic<bool>* end = nullptr);
  /// Wakes all threads that wait in this socket. Thread-safe.
  void shut_down() noexcept;

  void write(std::span<const std::byte> bytes, Clock::time_point deadline);
  void read(std::span<std::byte> bytes, Clock::time_point deadline);
  /// A line without its end. \throws Error too when it is longer than `max_bytes`
  [[nodiscard]] std::string read_line(size_t max_bytes, Clock::time_point deadline);
  void write_line(std::string line, Clock::time_point deadline);
  void send_descriptor(int descriptor, Clock::time_point deadline);
  /// The caller owns the descriptor.
  [[nodiscard]] int receive_descriptor(Clock::time_point deadline);

  [[nodiscard]] bool is_valid() const noexcept { return descriptor_ >= 0; }
  /// Where this socket listens.
  [[nodiscard]] int32_t port() const noexcept { return port_; }

 private:
  KvSocket(int descriptor, int32_t port, const std::atomic<bool>* end = nullptr)
      : descriptor_(descriptor), port_(port), end_(end) {}
  void wait(short events, Clock::time_point deadline) const;
  void connect_to(const void* address, size_t size, Clock::time_point deadline);

  int descriptor_ = -1;
  int32_t port_ = 0;
  const std::atomic<bool>* end_ = nullptr;
};

}  // namespace reprise::kv_cache
