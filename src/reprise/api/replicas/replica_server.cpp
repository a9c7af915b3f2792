#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "reprise/api/async_engine_loop.h"
#include "reprise/api/loading/engine_loader.h"
#include "reprise/api/loading/loaded_engine.h"
#include "reprise/api/loading/replay_log.h"
#include "reprise/api/options/model_text.h"
#include "reprise/api/replicas/message_thread.h"
#include "reprise/api/replicas/replica_messages.h"
#include "reprise/api/replicas/replica_router.h"
#include "reprise/base/error.h"
#include "reprise/engine/engine_core.h"
#include "reprise/runner/data_parallel_steps.h"

namespace reprise::api {
namespace {

constexpr int kFrontend = 0;
// How often the frontend hears of the state of this replica, while it changes.
constexpr std::chrono::milliseconds kStatsInterval{200};

/// One replica: an engine that gets its requests in messages.
class Replica {
 public:
  explicit Replica(LoadedEngine& engine)
      : engine_(&engine),
        loop_(std::make_unique<AsyncEngineLoop>(
            *engine.core, engine.text->tokenizer(), idle_steps_of(engine), on_record_of(engine))),
        messages_(*engine.args.replicas,
                  {.take = [this](int, std::span<const std::byte> message) { take(message); },
                   .look = [this] { tell_stats(); },
                   .fail = [this](const std::string& reason) { end(reason); }}) {
    if (engine.data_parallel != nullptr) {
      engine.data_parallel->set_on_begin([this](uint64_t wave) {
        messages_.post_to_others(write_message(MessageKind::wave, wave));
      });
    }
    messages_.post(kFrontend, write_message(MessageKind::ready));
  }

  Replica(const Replica&) = delete;
  Replica& operator=(const Replica&) = delete;
  ~Replica() {
    // The thread of messages uses the loop. Requests that are still unfinished, after a failure,
    // post messages that nothing sends any more.
    messages_.stop();
    loop_.reset();
  }

  /// Returns when the frontend has sent a message to stop. \throws parallel::RankError
  void run() {
    std::unique_lock lock(mutex_);
    ended_.wait(lock, [this] { return is_ended_; });
    if (!failure_.empty()) throw parallel::RankError(failure_);
  }

 private:
  void end(const std::string& failure) {
    {
      const std::lock_guard lock(mutex_);
      is_ended_ = true;
      failure_ = failure;
    }
    ended_.notify_all();
  }

  void take(std::span<const std::byte> message) {
    switch (kind_of_message(message)) {
      case MessageKind::add:
        return add(read_add_message(message));
      case MessageKind::abort:
        return loop_->abort(scheduler::RequestId{read_number(message)});
      case MessageKind::wave:
        if (engine_->data_parallel != nullptr) {
          engine_->data_parallel->join_wave(read_number(message));
          loop_->wake();
        }
        return;
      case MessageKind::reset_cache: {
        bool is_reset = false;
        loop_->run_between_steps(
            [&is_reset](engine::EngineCore& core) { is_reset = core.reset_prefix_cache(); });
        return messages_.post(kFrontend, write_message(MessageKind::cache_reset, is_reset ? 1 : 0));
      }
      case MessageKind::stop:
        has_stopped_ = true;
        messages_.post(kFrontend, write_message(MessageKind::stopped));
        return end("");
      default:
        throw Error("the frontend sent a message that only a replica may send");
    }
  }

  void add(AddMessage&& message) {
    const scheduler::RequestId id{message.id};
    const auto num_prompt_tokens = static_cast<int32_t>(message.prompt_token_ids.size());
    try {
      loop_->submit(
          std::move(message.prompt_token_ids),
          message.params,
          [this](engine::OutputDelta&& delta) { messages_.post(kFrontend, write_message(delta)); },
          {.priority = message.priority,
           .cache_salt = std::move(message.cache_salt),
           .client_id = std::move(message.client_id)},
          std::chrono::steady_clock::now(),
          id);
    } catch (const std::exception& error) {
      // The frontend has asked its own scheduler, which has the same limits.
      messages_.post(kFrontend,
                     write_message(engine::OutputDelta{.id = id,
                                                       .num_prompt_tokens = num_prompt_tokens,
                                                       .finished = true,
                                                       .finish_reason = "error",
                                                       .error = error.what()}));
    }
  }

  void tell_stats() {
    if (has_stopped_) return;
    const TimePoint now = std::chrono::steady_clock::now();
    if (now - told_ < kStatsInterval) return;
    told_ = now;
    EngineStats stats = loop_->stats();
    const bool is_new = stats.num_steps != told_steps_ || stats.is_dead ||
                        stats.num_requests_waiting + stats.num_requests_running != told_requests_;
    if (!is_new) return;
    told_steps_ = stats.num_steps;
    told_requests_ = stats.num_requests_waiting + stats.num_requests_running;
    messages_.post(kFrontend, write_message(stats));
  }

  LoadedEngine* engine_;
  std::mutex mutex_;
  std::condition_variable ended_;
  bool is_ended_ = false;
  std::string failure_;
  // Used only by the thread of messages.
  TimePoint told_;
  uint64_t told_steps_ = 0;
  int64_t told_requests_ = -1;
  bool has_stopped_ = false;  // the frontend takes no message any more
  std::unique_ptr<AsyncEngineLoop> loop_;
  MessageThread messages_;  // last: its thread uses all members above
};

}  // namespace

void serve_replica(const EngineArgs& args) {
  const std::unique_ptr<LoadedEngine> engine = load_engine(args);
  Replica(*engine).run();
}

}  // namespace reprise::api
