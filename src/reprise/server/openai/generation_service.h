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
#include "reprise/server/tracing/tracer.h"

namespace reprise::server {

/// Statistics of requests and their answers, per prompt. Each prompt counts once, when all of its
/// answers have ended without an abort.
struct GenerationCounts {
  explicit GenerationCounts(int64_t max_model_len)
      : max_num_generation_tokens(api::RequestHistograms(max_model_len).generation_tokens) {}

  Histogram params_n{api::buckets::kAnswers};
  Histogram max_num_generation_tokens;
};

struct GenerationServiceOptions {
  int32_t max_num_seqs = 256;           // the engine's limit on running requests
  int32_t max_waiting_requests = 4096;  // further requests are answered 429
  // The most requests that may run or wait; further ones are answered 503. Unset: no such limit.
  std::optional<int64_t> max_num_queued_reqs;
  // With so many prompt tokens whose answers have no token yet, requests are answered 503. Unset:
  // no such limit.
  std::optional<int64_t> max_num_queued_tokens;
  int64_t max_answer_bytes = int64_t{32} << 20;  // of log-probabilities; else 400
  // Seconds of silence after which a stream gets a comment, so that no proxy takes the connection
  // for dead; 0: no comments.
  int32_t sse_keep_alive_interval = 0;
  // The usage reports how many tokens of a prompt were cached.
  bool enable_prompt_tokens_details = false;
  RequestLogOptions request_log;
  Log log;  // messages about the engine and its requests; the access log is separate
  std::shared_ptr<Tracer> tracer;  // null: no spans are made
};

/// The requests that the engine works on. The service admits requests, passes their events to their
/// answers, and aborts requests whose client has disconnected. I/O thread only. States: admitting,
/// draining (admits no further requests).
class GenerationService {
 public:
  /// Runs a task on the I/O thread; may be called from any thread.
  using Post = std::function<void(std::function<void()>)>;

  /// Called once, with the reason, when requests fail because the engine is dead.
  using OnEngineDeath = std::function<void(const std::string& reason)>;

  /// Runs a task on another thread.
  using RunElsewhere = std::function<void(std::function<void()>)>;

  /// `engine` and `model` must outlive this. Without `run_elsewhere`, large answers are written on
  /// the I/O thread.
  GenerationService(const GenerationServiceOptions& options,
                    api::AsyncEngine& engine,
                    const ServedModel& model,
                    Post post,
                    OnEngineDeath on_engine_death = {},
                    RunElsewhere run_elsewhere = {});
  GenerationService(const GenerationService&) = delete;
  GenerationService& operator=(const GenerationService&) = delete;
  /// Aborts the requests that are not finished.
  ~GenerationService();

  /// \throws ApiError 503 when the server cannot serve requests
  void check_health() const;
  /// \throws ApiError 503; 429 when the server is full; 400 when the server can never run that many
  /// choices
  void check_room(int num_choices) const;
  /// Gives the request to the engine and answers through `exchange`. If another engine has computed
  /// the prompt, the request waits until its keys and values have arrived. `prompts` are the
  /// request's prompts as PromptEncoder returned them; an empty `request_id` means a new id.
  /// \throws the errors of the checks above and of AsyncEngine::submit
  void start(const GenerationRequest& request,
             const std::vector<EncodedPrompt>& prompts,
             const std::string& request_id,
             const ExchangeRef& exchange,
             api::TimePoint arrived);

  /// The same as start(), after `request.asked_output` was compiled; other requests do not wait for
  /// the compilation. `delimiters`: the tokens around reasoning, if the model reasons first.
  void start_constrained(GenerationRequest request,
                         std::vector<EncodedPrompt> prompts,
                         std::optional<structured_output::ReasoningDelimiters> delimiters,
                         std::string request_id,
                         const ExchangeRef& exchange,
                         api::TimePoint arrived);

  [[nodiscard]] size_t num_requests() const noexcept { return generations_.size(); }
  /// nullopt: the server makes no spans.
  [[nodiscard]] std::optional<SpanCounts> span_counts() const;
  [[nodiscard]] const GenerationCounts& counts() const noexcept { return counts_; }
  /// The number of unfinished answers: a request with n = 2 counts as two.
  [[nodiscard]] int64_t num_active() const noexcept { return num_active_; }
  [[nodiscard]] bool is_idle() const noexcept { return num_active_ + num_being_written_ == 0; }
  [[nodiscard]] bool is_draining() const noexcept { return is_draining_; }
  /// An id for a request without one: 32 random hexadecimal digits.
  [[nodiscard]] std::string new_id();
  /// Stops admitting requests, and refuses those whose specification is being compiled. `when_idle`
  /// is called when no request is active, perhaps during this call.
  void drain(std::function<void()> when_idle);
  /// Whether a specification is being compiled, including one whose request was already answered.
  [[nodiscard]] bool is_compiling() const;
  /// Called by an idle server: frees compiled specifications, except for those used last.
  void forget_rare_specs();
  /// Writes a comment on each stream that has been silent for options.sse_keep_alive_interval
  /// seconds; to be called each second.
  void keep_streams_alive();
  /// Answers all requests with `error`.
  void fail_all(const ApiError& error);

 private:
  struct Generation;
  using Key = uint64_t;

  void start_transferred(const GenerationRequest& request,
                         const std::vector<EncodedPrompt>& prompts,
                         const std::string& request_id,
                         const ExchangeRef& exchange,
                         api::TimePoint arrived);
  /// The tokens of the prompts that wait or are being computed. Like in vLLM, a prompt counts whole
  /// until its answer has a token, and once for each of its answers.
  [[nodiscard]] int64_t num_queued_tokens() const;
  void check_queued_tokens() const;
  void note_failed_transfer(const std::string& problem);
  void submit(Key key,
              Generation& generation,
              const GenerationRequest& request,
              const std::vector<EncodedPrompt>& prompts,
              api::TimePoint arrived);
  void take_events();
  void take_event(const EngineEvent& event);
  void note_error(const std::string& reason);
  void observe(const Generation& generation);
  [[nodiscard]] std::shared_ptr<void> reserve_answer(int64_t num_bytes);
  void finish(std::shared_ptr<Generation> generation);
  void fail(Key key, const ApiError& error);
  void forget(Key key);
  void note_idle();
  /// Posts callbacks of the grammar compiler to the I/O thread while the service exists.
  struct IoPoster;

  int64_t capacity_;  // the largest number of unfinished answers
  GenerationServiceOptions options_;
  api::AsyncEngine* engine_;
  const ServedModel* model_;
  std::shared_ptr<IoPoster> io_poster_;
  std::shared_ptr<EventQueue> events_;  // shared with the engine's callbacks
  std::unordered_map<Key, std::shared_ptr<Generation>> generations_;
  std::unordered_map<Key, ExchangeRef> preparing_;  // requests that wait for their specification
  std::mt19937_64 random_ids_{std::random_device{}()};
  GenerationCounts counts_;
  Key next_key_ = 1;
  int64_t num_active_ = 0;
  bool is_draining_ = false;
  bool has_compiled_ = false;  // a specification of an answer
  std::function<void()> when_idle_;
  OnEngineDeath on_engine_death_;  // empty after it was called
  RunElsewhere run_elsewhere_;     // may be empty
  std::shared_ptr<int64_t> large_answer_bytes_ = std::make_shared<int64_t>(0);
  int num_being_written_ = 0;  // answers on another thread
};

}  // namespace reprise::server
