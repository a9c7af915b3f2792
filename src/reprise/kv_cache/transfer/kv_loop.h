#pragma once

#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "reprise/kv_cache/transfer/kv_exchange.h"

namespace reprise::kv_cache {

/// Drives exchanges with one thread, so that a silent peer costs a descriptor and no thread.
/// Thread-safe.
class KvLoop {
 public:
  /// \throws Error when the process has no descriptor left
  KvLoop();
  KvLoop(const KvLoop&) = delete;
  KvLoop& operator=(const KvLoop&) = delete;
  ~KvLoop();

  void add(std::unique_ptr<KvExchange> exchange);
  /// Ends the exchanges that are left with an error, and the thread. What is added later ends too.
  /// Called once, by another thread.
  void stop();

 private:
  void run();
  [[nodiscard]] bool take_added();
  void wait_and_advance();
  static void drive(std::unique_ptr<KvExchange>& exchange, bool is_late);
  void wake() const noexcept;

  int wake_descriptor_;                                 // an eventfd
  std::vector<std::unique_ptr<KvExchange>> exchanges_;  // of the thread
  std::mutex mutex_;                                    // guards the two below
  std::vector<std::unique_ptr<KvExchange>> added_;
  bool stops_ = false;
  std::jthread thread_;  // last: it uses the other members
};

}  // namespace reprise::kv_cache
