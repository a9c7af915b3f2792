#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "reprise/parallel/mailbox.h"

namespace reprise::api {

/// A thread that moves messages between replicas.
class MessageThread {
 public:
  struct Handlers {
    /// Called on the thread for each message; may call post().
    std::function<void(int from, std::span<const std::byte> message)> take;
    /// Called on the thread now and then, about every millisecond or more often.
    std::function<void()> look;
    /// Called once on the thread when messages can no longer be moved; the thread then ends.
    std::function<void(const std::string& reason)> fail;
  };

  MessageThread(const parallel::Communicator& replicas, Handlers handlers);
  MessageThread(const MessageThread&) = delete;
  MessageThread& operator=(const MessageThread&) = delete;
  /// As stop().
  ~MessageThread();

  /// Thread-safe. After a failure the message is dropped.
  void post(int to, std::vector<std::byte> message) noexcept;
  void post_to_others(const std::vector<std::byte>& message) noexcept;
  /// Sends what was posted, and ends the thread. The thread itself must not call it.
  void stop();

 private:
  void run();
  void move_messages();

  const parallel::Communicator* replicas_;
  parallel::Mailbox mailbox_;
  Handlers handlers_;
  std::atomic<bool> stops_ = false;
  std::thread thread_;
};

}  // namespace reprise::api
