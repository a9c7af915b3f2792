#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace reprise::parallel {

/// Messages between ranks: the processes that run one model together. A Communicator makes
/// collective operations of these messages. Not thread-safe: the communicator calls one member at a
/// time, from any thread.
///
/// Messages between two ranks with the same tag arrive in the order in which they were sent.
class Transport {
 public:
  /// Identifies a message until test() returns true for it.
  using Handle = int;
  /// The largest tag that every transport accepts.
  static constexpr uint32_t kMaxTag = 0x7fffffff;

  virtual ~Transport() = default;

  [[nodiscard]] virtual int rank() const noexcept = 0;
  [[nodiscard]] virtual int size() const noexcept = 0;
  /// One line for logs: "Open MPI 4.1.4".
  [[nodiscard]] virtual std::string description() const = 0;

  /// Starts a message. `data` must stay as it is until test() returns true. \throws Error
  [[nodiscard]] virtual Handle send(int to, uint32_t tag, const void* data, size_t bytes) = 0;
  /// Starts to receive a message of exactly this length. \throws Error
  [[nodiscard]] virtual Handle receive(int from, uint32_t tag, void* data, size_t bytes) = 0;
  /// Whether the message is complete. After true the handle is no longer valid. \throws Error
  [[nodiscard]] virtual bool test(Handle handle) = 0;
  /// The tag of a message from this rank that arrived and that nothing has received. Ignores
  /// messages with the tag `ignored`.
  [[nodiscard]] virtual std::optional<uint32_t> waiting_tag(int from, uint32_t ignored) = 0;

  /// Ends the connection in an orderly way. Every rank calls it, after its last message. Without
  /// this call the destructor leaves the connection as it is, because a lost rank could make it
  /// wait for ever.
  virtual void finish() noexcept = 0;
};

}  // namespace reprise::parallel
