#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "reprise/kv_cache/transfer/kv_image.h"
#include "reprise/kv_cache/transfer/kv_loop.h"
#include "reprise/kv_cache/transfer/kv_socket.h"
#include "reprise/kv_cache/transfer/kv_source.h"
#include "reprise/kv_cache/transfer/kv_transfer_config.h"
#include "reprise/kv_cache/transfer/kv_transfer_counts.h"

namespace reprise::kv_cache {

/// A prompt to be fetched.
struct KvFetch {
  struct Result {
    std::shared_ptr<const KvImage> image;  // null: `error` says why
    std::string error;                     // for the log only, because it may quote the other side
  };

  KvSource source;
  std::vector<int32_t> token_ids;
  std::string adapter;
  std::string cache_salt;
  std::function<void(Result)> on_fetched;
};

/// Fetches images, many at a time. An image must be of this model and of the beginning of the
/// prompt, with the same adapter and salt. Thread-safe.
///
/// A producer must answer within a few seconds, and everything must be there within the timeout of
/// the configuration, which begins with fetch(). Requests wait for each producer by themselves, so
/// a silent one takes nothing from the others.
class KvFetches {
 public:
  static constexpr size_t kMaxConnectionsToOne = 32;
  // The largest number of fetches from one producer, including those that wait.
  static constexpr size_t kMaxOfOne = 512;
  static constexpr size_t kMaxOfAll = 1024;

  /// Borrows `config` and `loop`.
  KvFetches(const KvTransferConfig& config,
            const KvCacheLayout& layout,
            std::string model,
            KvLoop& loop);
  KvFetches(const KvFetches&) = delete;
  KvFetches& operator=(const KvFetches&) = delete;
  /// \pre stop()
  ~KvFetches() = default;

  /// Calls on_fetched once: on a thread of this object, on the loop's thread, or within this call.
  /// on_fetched must not block or throw. The fetched images that are still held have at most
  /// kv_buffer_size bytes together.
  void fetch(KvFetch wanted);
  /// Ends the waiting fetches with an error. Called before the loop is stopped.
  void stop();

  /// `exports` stay empty.
  [[nodiscard]] KvTransferCounts counts() const;

 private:
  class Fetching;
  using Time = KvExchange::Clock::time_point;
  struct Task {
    KvFetch wanted;
    std::vector<KvAddress> addresses;
    Time begin;
  };
  /// The tasks and limits of one producer.
  struct Producer {
    std::deque<Task> ready;  // wait for a connection to end
    // The tasks in this queue, those whose host name is looked up, and those that run.
    size_t num_tasks = 0;
    size_t num_connections = 0;
  };

  void run_look_ups(const std::stop_token& stop);
  void begin(Task task);
  void finish(const Task& task, KvFetch::Result result, bool had_connection);
  /// Takes memory for the bytes of an image from the limit, and gives it back when the result is
  /// destroyed. \throws Error
  [[nodiscard]] std::shared_ptr<const void> take_room(size_t num_bytes);

  const KvTransferConfig* config_;
  KvCacheLayout layout_;
  std::string model_;
  KvLoop* loop_;
  /// The bytes of the images that were fetched. Shared with these images, which may outlive this
  /// object.
  std::shared_ptr<std::atomic<size_t>> bytes_held_ = std::make_shared<std::atomic<size_t>>(0);

  mutable std::mutex mutex_;  // guards the members below, except the thread
  std::condition_variable_any has_names_;
  std::deque<Task> names_;  // to be looked up
  std::map<KvProducer, Producer> producers_;
  size_t num_tasks_ = 0;
  KvTransferCounts counts_;
  bool stops_ = false;
  std::jthread look_ups_;  // waits for name servers; last: it uses the other members
};

}  // namespace reprise::kv_cache
