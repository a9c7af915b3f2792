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

/// A thread that moves letters between replicas.
class LetterThread {
 public:
  struct Handlers {
    /// Called on the thread for each letter; may call post().
    std::function<void(int from, std::span<const std::byte> letter)> take;
    /// Called on the thread now and then, about every millisecond or more often.
    std::function<void()> look;
    /// Called once on the thread when letters can no longer be moved; the thread then ends.
    std::function<void(const std::string& reason)> fail;
  };

  LetterThread(const parallel::Communicator& replicas, Handlers handlers);
  LetterThread(const LetterThread&) = delete;
  LetterThread& operator=(const LetterThread&) = delete;
  /// As stop().
  ~LetterThread();

  /// Thread-safe. After a failure the letter is dropped.
  void post(int to, std::vector<std::byte> letter) noexcept;
  void post_to_others(const std::vector<std::byte>& letter) noexcept;
  /// Sends what was posted, and ends the thread. The thread itself must not call it.
  void stop();

 private:
  void run();
  void move_letters();

  const parallel::Communicator* replicas_;
  parallel::Mailbox mailbox_;
  Handlers handlers_;
  std::atomic<bool> stops_ = false;
  std::thread thread_;
};

}  // namespace reprise::api
