#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "reprise/parallel/communicator.h"

namespace reprise::parallel {

/// Messages of any length between ranks, at any time, outside of collective operations.
/// Messages from one rank to another arrive in the order in which they were sent. There is one
/// mailbox in a process.
class Mailbox {
 public:
  /// A longer message is an error of the sender.
  static constexpr size_t kMaxMessageBytes = size_t{256} << 20;

  /// Receives from all ranks of the group. The communicator also gives the ranks' names for
  /// messages.
  explicit Mailbox(const Communicator& ranks);
  Mailbox(const Mailbox&) = delete;
  Mailbox& operator=(const Mailbox&) = delete;

  /// Sends a message. Returns at once; poll() then sends the bytes. Thread-safe. \throws RankError
  /// if a rank is lost or the message is too long
  void post(int to, std::vector<std::byte> message);

  using Take = std::function<void(int from, std::span<const std::byte> message)>;
  /// Sends and receives what is possible now, and passes complete messages to `take`. Returns
  /// whether anything was sent or received. Only one thread may call poll(); `take` may call
  /// post(). \throws RankError
  [[nodiscard]] bool poll(const Take& take);
  /// Whether all messages of this rank are sent. Thread-safe.
  [[nodiscard]] bool is_sent();

 private:
  struct Outgoing {
    int to = 0;
    uint64_t num_bytes = 0;
    std::vector<std::byte> message;
    Transport::Handle header = 0;
    Transport::Handle body = 0;
    bool is_header_sent = false;
    bool is_body_sent = false;
  };
  struct Incoming {
    uint64_t num_bytes = 0;
    std::vector<std::byte> message;
    Transport::Handle handle = 0;
    bool is_in_body = false;
  };

  void expect_header(int from);
  [[nodiscard]] bool move_outgoing();
  /// Whether a whole message has arrived from this rank.
  [[nodiscard]] bool move_incoming(int from, bool& has_moved);

  const Communicator* ranks_;
  RankLink* link_;
  // Guarded by the link's mutex. Transports refer to these, so they must not move.
  std::deque<std::unique_ptr<Outgoing>> outgoing_;
  std::vector<Incoming> incoming_;  // by rank of the group
};

}  // namespace reprise::parallel
