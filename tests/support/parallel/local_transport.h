#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "reprise/parallel/transport.h"

namespace reprise::parallel {

/// The mailboxes of ranks that are threads of one process. Thread-safe.
class LocalHub {
 public:
  explicit LocalHub(int size) : size_(size) {}

  [[nodiscard]] int size() const noexcept { return size_; }
  void post(int from, int to, uint32_t tag, std::vector<std::byte> data);
  /// Takes the oldest message; returns false if there is none.
  bool take(int from, int to, uint32_t tag, std::vector<std::byte>& data);
  [[nodiscard]] std::optional<uint32_t> waiting_tag(int from, int to, uint32_t ignored);
  /// From now on the messages of this rank are lost, as if its process had stopped.
  void silence(int rank);

 private:
  int size_;
  std::mutex mutex_;
  std::map<std::pair<int, int>, std::deque<std::pair<uint32_t, std::vector<std::byte>>>> boxes_;
  std::set<int> silent_;
};

/// A transport for tests: the ranks are threads of one process.
class LocalTransport final : public Transport {
 public:
  LocalTransport(std::shared_ptr<LocalHub> hub, int rank) : hub_(std::move(hub)), rank_(rank) {}

  [[nodiscard]] int rank() const noexcept override { return rank_; }
  [[nodiscard]] int size() const noexcept override { return hub_->size(); }
  [[nodiscard]] std::string description() const override { return "threads"; }
  [[nodiscard]] Handle send(int to, uint32_t tag, const void* data, size_t bytes) override;
  [[nodiscard]] Handle receive(int from, uint32_t tag, void* data, size_t bytes) override;
  [[nodiscard]] bool test(Handle handle) override;
  [[nodiscard]] std::optional<uint32_t> waiting_tag(int from, uint32_t ignored) override {
    return hub_->waiting_tag(from, rank_, ignored);
  }
  void finish() noexcept override {}

 private:
  struct Receive {
    int from = 0;
    uint32_t tag = 0;
    void* data = nullptr;
    size_t bytes = 0;
  };
  std::shared_ptr<LocalHub> hub_;
  int rank_;
  std::map<Handle, Receive> receives_;
  Handle next_ = 1;
};

/// Runs `run` for each rank on a thread of its own, and returns when all have ended. The first
/// exception is thrown again.
void run_ranks(int size,
               const std::function<void(int rank, const std::shared_ptr<LocalHub>&)>& run);

}  // namespace reprise::parallel
