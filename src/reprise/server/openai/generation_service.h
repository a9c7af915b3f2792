#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <unordered_map>
#include <vector>

#include "reprise/api/async_engine.h"
#include "reprise/base/log.h"
#include "reprise/server/openai/answer.h"
#include "reprise/server/openai/event_queue.h"
#include "reprise/server/openai/generation_request.h"
#include "reprise/server/openai/prompt_encoder.h"
#include "reprise/server/openai/request_log.h"
#include "reprise/server/openai/served_model.h"

namespace reprise::server {

/// What requests asked for and got, over their answers to one prompt. Each prompt counts once, when
/// all of its answers have ended by themselves.
struct GenerationCounts {
  explicit GenerationCounts(int64_t max_model_len)
      : max_num_generation_tokens(api::RequestHistograms(max_model_len).generation_tokens) {}

  Histogram params_n{api::buckets::kAnswers};
  Histogram max_num_generation_tokens;
};

struct GenerationServiceOptions {
  int32_t max_num_seqs = 256;                 // the engine's limit on running requests
  int32_t max_waiting_requests = 4096;        // further requests are answered 429
  bool enable_prompt_tokens_details = false;  // usage tells how much of a prompt was cached
  RequestLogOptions request_log;
  Log log;  // messages about the engine and its requests; the access log is separate
};

/// The requests that the engine works on: admits them, hands their events to their answers, aborts
/// those whose client has gone. I/O thread only. States: admitting, draining (admits nothing more).
class GenerationService {
 public:
  /// Runs a task on the I/O thread, from any thread.
  using Post = std::function<void(std::function<void()>)>;

  /// Told once, with the reason, when requests fail because the engine is dead.
  using OnEngineDeath = std::function<void(const std::string& reason)>;

  /// `engine` and `model` must outlive this.
  GenerationService(const GenerationServiceOptions& options,
                    api::AsyncEngine& engine,
                    const ServedModel& model,
                    Post post,
                    OnEngineDeath on_engine_death = {});
  GenerationService(const GenerationService&) = delete;
  GenerationService& operator=(const GenerationService&) = delete;
  /// Aborts what is not finished.
  ~GenerationService();

  /// \throws ApiError 503 when no request can be served
  void check_health() const;
  /// \throws ApiError 503, 429 when the server is full, 400 when so many answers never fit
  void check_room(int num_choices) const;
  /// Gives the request to the engine and answers through `exchange`. `prompts` are its prompts as
  /// PromptEncoder gave them; an empty `request_id` means a new one. \throws as the checks, and as
  /// AsyncEngine::submit
  void start(const GenerationRequest& request,
             const std::vector<EncodedPrompt>& prompts,
             const std::string& request_id,
             const ExchangeRef& exchange,
             api::TimePoint arrived);

  /// As start(), once what `request.asked_output` says is compiled, which other requests do not
  /// wait for. `marks`: where the model reasons first.
  void start_constrained(GenerationRequest request,
                         std::vector<EncodedPrompt> prompts,
                         std::optional<structured_output::ReasoningMarks> marks,
                         std::string request_id,
                         const ExchangeRef& exchange,
                         api::TimePoint arrived);

  [[nodiscard]] size_t num_requests() const noexcept { return generations_.size(); }
  [[nodiscard]] const GenerationCounts& counts() const noexcept { return counts_; }
  /// Answers in the making: a request with n = 2 counts as two.
  [[nodiscard]] int64_t num_active() const noexcept { return num_active_; }
  [[nodiscard]] bool is_draining() const noexcept { return is_draining_; }
  /// For a request that brings none: 32 random hexadecimal digits.
  [[nodiscard]] std::string new_id();
  /// Admits no more; `when_idle` is called once nothing is active, perhaps at once.
  void drain(std::function<void()> when_idle);
  /// Answers everything with `error`.
  void fail_all(const ApiError& error);

 private:
  struct Generation;
  using Key = uint64_t;

  void submit(Key key,
              Generation& generation,
              const GenerationRequest& request,
              const std::vector<EncodedPrompt>& prompts,
              api::TimePoint arrived);
  void take_events();
  void take_event(const EngineEvent& event);
  void note_error(const std::string& reason);
  void observe(const Generation& generation);
  void fail(Key key, const ApiError& error);
  void forget(Key key);
  void note_idle();
  /// Brings callbacks of the grammar compiler to the I/O thread while there is a service.
  struct Door;

  int64_t capacity_;  // answers in the making at a time, at most
  bool enable_prompt_tokens_details_;
  RequestLogOptions request_log_;
  Log log_;
  api::AsyncEngine* engine_;
  const ServedModel* model_;
  std::shared_ptr<Door> door_;
  std::shared_ptr<EventQueue> events_;  // also the engine's callbacks hold it
  std::unordered_map<Key, std::shared_ptr<Generation>> generations_;
  std::mt19937_64 random_ids_{std::random_device{}()};
  GenerationCounts counts_;
  Key next_key_ = 1;
  int64_t num_active_ = 0;
  bool is_draining_ = false;
  std::function<void()> when_idle_;
  OnEngineDeath on_engine_death_;  // empty once it was told
};

}  // namespace reprise::server
