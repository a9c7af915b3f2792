#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "reprise/base/error.h"
#include "reprise/parallel/transport.h"

namespace reprise::parallel {

/// A rank is lost, late, or does something else than the others. The engine cannot go on.
class RankError : public Error {
 public:
  using Error::Error;
};

/// The purpose of a collective operation. It is a part of the tag of its messages, so a message
/// never completes an operation of another purpose.
enum class Operation : uint8_t {
  start_up,   // comparing options and plans
  command,    // rank 0 says what the others do next
  agreement,  // comparing the decision for a step
  data,       // a collective op of the model
  end,        // all ranks are about to leave
};
[[nodiscard]] std::string_view operation_name(Operation operation) noexcept;

/// How long an operation waits for the other ranks.
enum class Patience : uint8_t {
  step,       // CommunicatorOptions::timeout
  unlimited,  // as long as the other ranks give signs of life
};

struct CommunicatorOptions {
  /// Ranks run the same step at the same time, so one waits for another only for moments.
  std::chrono::milliseconds timeout{20'000};
  /// Each rank tells each other rank in this interval that it is alive.
  std::chrono::milliseconds beat_interval{1'000};
  /// A rank without a sign of life for so long is lost. Timeout and silence stay below the 30 s
  /// within which a lost rank must be named.
  std::chrono::milliseconds silence{12'000};
  /// Called once, with a sentence that names the rank, by the thread that noticed the failure. That
  /// may be a thread of the communicator.
  std::function<void(const std::string&)> on_failure;
};

/// Collective operations among the ranks of an engine. All ranks call the same operations in the
/// same order; results are the same bits on each of them. An operation that cannot complete in time
/// names the rank that it waits for, and every later operation fails with the same sentence.
///
/// Operations may come from any thread, one at a time. A thread of the communicator sends and
/// receives signs of life, so a rank that was killed or stopped is noticed while no operation runs.
class Communicator {
 public:
  static constexpr int kMaxRanks = 64;

  /// \throws InvalidArgument for more than kMaxRanks ranks
  Communicator(std::unique_ptr<Transport> transport, const CommunicatorOptions& options);
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;
  /// Leaves the connection as it is, unless finish() has ended it. A launcher like mpirun then ends
  /// the other ranks.
  ~Communicator();

  [[nodiscard]] int rank() const noexcept { return rank_; }
  [[nodiscard]] int size() const noexcept { return size_; }
  [[nodiscard]] std::string description() const { return transport_->description(); }

  /// Writes the `bytes` bytes at `mine` of rank 0, 1, ... to `all`, one after the other.
  /// \throws RankError
  void all_gather(Operation operation,
                  const void* mine,
                  void* all,
                  size_t bytes,
                  Patience patience = Patience::step);
  /// Writes the bytes of rank `root` to `data` of all ranks. \throws RankError
  void broadcast(
      Operation operation, int root, void* data, size_t bytes, Patience patience = Patience::step);
  /// Returns when all ranks have called it. \throws RankError
  void barrier(Operation operation, Patience patience = Patience::step);

  /// all_gather for kernels, which cannot throw. Returns false after a failure, which check()
  /// reports.
  [[nodiscard]] bool try_all_gather(const void* mine, void* all, size_t bytes) noexcept;

  /// \throws RankError if a rank was lost or late
  void check() const;
  [[nodiscard]] bool has_failed() const noexcept { return has_failed_; }
  /// Ends the connection in an orderly way. Every rank calls it, after its last operation.
  /// \throws RankError
  void finish();

  /// Makes every later operation fail with this reason. Only the first reason counts.
  void fail(const std::string& reason) noexcept;

  /// Collective ops declare that they write this memory. So they run one after the other, in the
  /// order of the program, on every rank.
  [[nodiscard]] std::span<std::byte> order_token() noexcept { return order_token_; }

 private:
  using Clock = std::chrono::steady_clock;
  struct Message {
    int peer = 0;
    bool is_send = false;
    Transport::Handle handle = 0;
    bool is_done = false;
  };
  struct Peer {
    Transport::Handle beat_in = 0;
    Transport::Handle beat_out = 0;
    bool is_sending = false;
    uint64_t received = 0;
    Clock::time_point heard;
  };

  [[nodiscard]] uint32_t next_tag(Operation operation) noexcept;
  void wait(std::span<Message> messages, Patience patience);
  [[nodiscard]] bool test_all(std::span<Message> messages);
  [[nodiscard]] std::string late_text(std::span<const Message> messages);
  [[noreturn]] void fail_and_throw(const std::string& reason);
  void watch();
  void stop_watching();
  void exchange_beats(bool is_time_to_send);
  [[nodiscard]] std::string find_silent_peer(Clock::time_point now) const;

  std::unique_ptr<Transport> transport_;
  CommunicatorOptions options_;
  int rank_;
  int size_;
  std::mutex transport_mutex_;
  uint32_t sequence_ = 0;
  Operation current_ = Operation::start_up;
  mutable std::mutex failure_mutex_;
  std::string failure_;
  std::atomic<bool> has_failed_ = false;
  std::array<std::byte, 64> order_token_{};
  // Of the thread that watches over signs of life.
  std::vector<Peer> peers_;  // by rank; the own entry is unused
  uint64_t beat_ = 0;
  std::mutex stop_mutex_;
  std::condition_variable stop_condition_;
  bool stops_ = false;
  std::thread watcher_;
};

}  // namespace reprise::parallel
