#pragma once

#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "reprise/kv_cache/transfer/kv_exchange.h"

namespace reprise::kv_cache {

/// Drives all exchanges with one thread, so that a silent peer costs a descriptor but no thread.
/// Thread-safe.
class KvLoop {
 public:
  /// \throws Error when the process has no descriptor left
  KvLoop();
  KvLoop(const KvLoop&) = delete;
  KvLoop& operator=(const KvLoop&) = delete;
  ~KvLoop();

  void add(std::unique_ptr<KvExchange> exchange);
  /// Ends the remaining exchanges with an error, and ends the thread. Exchanges that are added
  /// later end too. Called once, by another thread.
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
