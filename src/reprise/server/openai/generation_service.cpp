#include "reprise/server/openai/generation_service.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <exception>
#include <mutex>
#include <span>
#include <utility>

#include "reprise/base/text/visible_text.h"
#include "reprise/kv_cache/transfer/kv_transfer.h"
#include "reprise/server/openai/answer_size.h"
#include "reprise/server/openai/pooling_answer.h"
#include "reprise/structured_output/constraint_source.h"
#include "reprise/structured_output/grammar_compiler.h"

namespace reprise::server {
namespace {

// Answers above this size share a limit on memory that is several times the largest answer.
constexpr int64_t kLargeAnswerBytes = int64_t{1} << 20;
constexpr int64_t kMaxLargestAnswers = 4;
/// The size of compiled specifications that an idle server keeps: enough for a usual application.
constexpr size_t kIdleSpecBytes = size_t{32} << 20;

std::string id_prefix(const GenerationRequest& request) {
  if (request.pooling) return std::string(pooling_id_prefix(request.pooling->api));
  return request.is_chat ? "chatcmpl-" : "cmpl-";
}

/// The id of one answer's request to the engine.
std::string choice_id(const std::string& id, int index, size_t num_choices) {
  return num_choices > 1 ? fmt::format("{}-{}", id, index) : id;
}

}  // namespace

/// A request that is being answered.
struct GenerationService::Generation {
  struct Choice {
    scheduler::RequestId id{};
    bool is_finished = false;
    int64_t num_prompt_tokens = 0;
    int32_t num_output_tokens = 0;
    int32_t num_cached_tokens = 0;
    std::string finish_reason;
    LoggedOutput logged;  // empty unless outputs are logged
  };

  std::string id;  // the id that clients see
  std::unique_ptr<RequestAnswer> answer;
  ExchangeRef exchange;
  std::vector<Choice> choices;
  int64_t num_prompt_tokens = 0;
  bool shows_output = true;  // what is generated is the answer
  std::optional<TracedRequest> traced;
  int num_unfinished = 0;
  int n = 1;  // answers to each prompt
  // This answer's share of the memory for large answers; null: the answer is small.
  std::shared_ptr<void> answer_share;

  [[nodiscard]] AnswerFacts facts() const;
};

AnswerFacts GenerationService::Generation::facts() const {
  AnswerFacts facts{.request_id = id, .prompt_tokens = num_prompt_tokens, .cached_tokens = 0};
  if (shows_output) facts.completion_tokens = 0;
  for (size_t i = 0; i < choices.size(); ++i) {
    const Choice& choice = choices[i];
    // A prompt is counted once, with its first answer.
    if (i % static_cast<size_t>(n) == 0) *facts.cached_tokens += choice.num_cached_tokens;
    if (shows_output) *facts.completion_tokens += choice.num_output_tokens;
    const std::string reason = choice.is_finished ? choice.finish_reason : "abort";
    if (facts.finish_reason.find(reason) != std::string::npos) continue;
    if (!facts.finish_reason.empty()) facts.finish_reason += ',';
    facts.finish_reason += reason;
  }
  return facts;
}

struct GenerationService::IoPoster {
  explicit IoPoster(Post to_io_thread) : to_io_thread_(std::move(to_io_thread)) {}

  void post(std::function<void()> task) {
    const std::lock_guard lock(mutex_);
    if (to_io_thread_) to_io_thread_(std::move(task));
  }
  void close() {
    const std::lock_guard lock(mutex_);
    to_io_thread_ = nullptr;
  }

 private:
  std::mutex mutex_;
  Post to_io_thread_;
};

GenerationService::GenerationService(const GenerationServiceOptions& options,
                                     api::AsyncEngine& engine,
                                     const ServedModel& model,
                                     Post post,
                                     OnEngineDeath on_engine_death,
                                     RunElsewhere run_elsewhere)
    : capacity_(int64_t{options.max_num_seqs} + options.max_waiting_requests),
      options_(options),
      engine_(&engine),
      model_(&model),
      io_poster_(std::make_shared<IoPoster>(post)),
      events_(std::make_shared<EventQueue>(
          [this, post = std::move(post)] { post([this] { take_events(); }); })),
      counts_(model.max_model_len()),
      on_engine_death_(std::move(on_engine_death)),
      run_elsewhere_(std::move(run_elsewhere)) {}

GenerationService::~GenerationService() {
  events_->close();
  io_poster_->close();
  for (const auto& [key, generation] : generations_) {
    for (const Generation::Choice& choice : generation->choices) {
      if (!choice.is_finished) engine_->abort(choice.id);
    }
  }
}

void GenerationService::check_health() const {
  if (is_draining_) throw ApiError(503, "The server is shutting down.");
  if (engine_->stats().is_dead) throw ApiError(503, "The engine is dead.");
}

void GenerationService::check_room(int num_choices) const {
  check_health();
  const std::optional<int64_t> most = options_.max_num_queued_reqs;
  if (most && num_active_ + num_choices > *most) {
    throw ApiError(503,
                   fmt::format("The server is full: {} requests run or wait, and "
                               "--max-num-queued-reqs is {}. Try again later or elsewhere.",
                               num_active_,
                               *most));
  }
  check_queued_tokens();
  if (num_choices > capacity_) {
    throw ApiError(400,
                   fmt::format("The request asks for {} answers; this server takes {} at a time.",
                               num_choices,
                               capacity_),
                   "n");
  }
  if (num_active_ + num_choices > capacity_) {
    throw ApiError(
        429,
        fmt::format("The server is full: {} requests run or wait. Try again later.", num_active_));
  }
}

int64_t GenerationService::num_queued_tokens() const {
  int64_t sum = 0;
  for (const auto& [key, generation] : generations_) {
    for (const Generation::Choice& choice : generation->choices) {
      if (!choice.is_finished && choice.num_output_tokens == 0) sum += choice.num_prompt_tokens;
    }
  }
  return sum;
}

void GenerationService::check_queued_tokens() const {
  const std::optional<int64_t> most = options_.max_num_queued_tokens;
  if (!most) return;
  const int64_t num_queued = num_queued_tokens();
  if (num_queued < *most) return;
  throw ApiError(503,
                 fmt::format("The server is full: {} tokens of prompts wait or are being computed, "
                             "and --max-num-queued-tokens is {}. Try again later or elsewhere.",
                             num_queued,
                             *most));
}

void GenerationService::start(const GenerationRequest& request,
                              const std::vector<EncodedPrompt>& prompts,
                              const std::string& request_id,
                              const ExchangeRef& exchange,
                              api::TimePoint arrived) {
  if (exchange->client_is_gone()) return;
  check_room(request.num_choices());
  if (request.kv_transfer.from) {
    return start_transferred(request, prompts, request_id, exchange, arrived);
  }
  check_answer_size(request, prompts, model_->max_model_len(), options_.max_answer_bytes);
  std::shared_ptr<void> answer_share =
      reserve_answer(answer_bytes(request, prompts, model_->max_model_len()));
  Usage usage;
  if (options_.enable_prompt_tokens_details || request.cached_usage) usage.cached_tokens = 0;
  for (const EncodedPrompt& prompt : prompts) {
    usage.prompt_tokens += static_cast<int64_t>(prompt.token_ids.size());
  }
  std::string id = request_id;
  if (id.empty()) id = request.request_id.value_or("");
  if (id.empty()) id = new_id();
  AnswerHead head{.is_chat = request.is_chat,
                  .id = id_prefix(request) + id,
                  .created = std::time(nullptr),
                  .model = request.model.value_or(model_->name()),
                  .role = request.role()};
  if (options_.request_log.is_enabled) {
    options_.log.write(LogLevel::info,
                       "request_log",
                       request_log_line(options_.request_log, head.id, request),
                       {{"request_id", head.id}});
  }
  auto generation = std::make_shared<Generation>();
  generation->id = head.id;
  generation->answer_share = std::move(answer_share);
  generation->exchange = exchange;
  generation->num_prompt_tokens = usage.prompt_tokens;
  generation->shows_output = !request.pooling && !request.echo_only;
  if (options_.tracer) {
    generation->traced = TracedRequest{.parent = request.trace_parent,
                                       .model = head.model,
                                       .temperature = request.params.temperature,
                                       .top_p = request.params.top_p,
                                       .max_tokens = request.params.max_tokens,
                                       .n = request.n,
                                       .arrived = arrived};
  }
  if (request.pooling) {
    generation->answer =
        std::make_unique<PoolingAnswer>(*request.pooling, std::move(head), id, usage, exchange);
  } else {
    generation->answer = std::make_unique<Answer>(
        request, prompts, std::move(head), id, usage, engine_->tokenizer(), exchange);
  }
  const Key key = next_key_++;
  submit(key, *generation, request, prompts, arrived);
  generations_.emplace(key, std::move(generation));
  exchange->on_disconnect([this, key] { forget(key); });
}

std::shared_ptr<void> GenerationService::reserve_answer(int64_t num_bytes) {
  if (num_bytes <= kLargeAnswerBytes) return nullptr;
  if (*large_answer_bytes_ + num_bytes > kMaxLargestAnswers * options_.max_answer_bytes) {
    throw ApiError(429,
                   "The server prepares as many answers with many log-probabilities as it has "
                   "memory for. Try again later.");
  }
  *large_answer_bytes_ += num_bytes;
  const auto give_back = [all = large_answer_bytes_, num_bytes](void*) { *all -= num_bytes; };
  return {large_answer_bytes_.get(), give_back};
}

void GenerationService::start_constrained(
    GenerationRequest request,
    std::vector<EncodedPrompt> prompts,
    std::optional<structured_output::ReasoningDelimiters> delimiters,
    std::string request_id,
    const ExchangeRef& exchange,
    api::TimePoint arrived) {
  check_room(request.num_choices());
  const structured_output::OutputSpec spec = request.asked_output->spec;
  const std::string client = request.client;
  const Key key = next_key_++;
  preparing_.emplace(key, exchange);
  auto go_on = [this,
                key,
                request = std::move(request),
                prompts = std::move(prompts),
                delimiters,
                request_id = std::move(request_id),
                exchange,
                arrived](const structured_output::CompileResult& result) mutable {
    if (preparing_.erase(key) == 0) return;  // refused meanwhile
    try {
      if (result.is_busy) throw ApiError(503, result.error);
      if (!result.compiled) throw ApiError(400, result.error, request.asked_output->field);
      const auto source = std::make_shared<const structured_output::ConstraintSource>(
          structured_output::ConstraintSource{.spec = request.asked_output->spec,
                                              .reasoning = delimiters});
      request.options.constraint_source = source;
      request.make_constraint = [compiled = result.compiled, source] {
        return structured_output::start_constraint(*source, *compiled);
      };
      start(request, prompts, request_id, exchange, arrived);
    } catch (const std::exception& error) {
      exchange->respond(error_response(to_api_error(error, *model_, options_.log)));
    }
  };
  has_compiled_ = true;
  engine_->grammar_compiler().submit(
      spec,
      [io_poster = io_poster_,
       go_on = std::move(go_on)](const structured_output::CompileResult& result) {
        io_poster->post([go_on, result]() mutable { go_on(result); });
      },
      client);
}

void GenerationService::start_transferred(const GenerationRequest& request,
                                          const std::vector<EncodedPrompt>& prompts,
                                          const std::string& request_id,
                                          const ExchangeRef& exchange,
                                          api::TimePoint arrived) {
  const Key key = next_key_++;
  preparing_.emplace(key, exchange);
  auto go_on = [this, key, request = request, prompts, request_id, exchange, arrived](
                   const kv_cache::KvFetch::Result& fetched) mutable {
    if (preparing_.erase(key) == 0) return;  // refused meanwhile
    request.kv_transfer.from.reset();
    request.options.kv_image = fetched.image;
    if (fetched.image) {
      request.options.kv_image_tokens = fetched.image->num_tokens;
      request.options.shares_prefixes = fetched.image->is_trusted;
    }
    try {
      if (!fetched.image) note_failed_transfer(fetched.error);
      start(request, prompts, request_id, exchange, arrived);
    } catch (const std::exception& error) {
      exchange->respond(error_response(to_api_error(error, *model_, options_.log)));
    }
  };
  engine_->kv_transfer()->fetch(
      {.source = *request.kv_transfer.from,
       .token_ids = prompts.front().token_ids,
       .adapter = request.options.lora_name,
       .cache_salt = request.options.cache_salt,
       .on_fetched = [io_poster = io_poster_,
                      go_on = std::move(go_on)](kv_cache::KvFetch::Result fetched) {
         io_poster->post([go_on, fetched = std::move(fetched)]() mutable { go_on(fetched); });
       }});
}

void GenerationService::note_failed_transfer(const std::string& problem) {
  const bool fails =
      engine_->kv_transfer()->config().load_failure_policy == kv_cache::KvLoadFailurePolicy::fail;
  options_.log.warning(fmt::format(
      "{}; {}", visible_text(problem), fails ? "the request fails" : "computing it here"));
  if (!fails) return;
  // The same text for all reasons: it must reveal nothing about other machines, whose addresses
  // came with the request.
  throw ApiError(503,
                 "The keys and values of the prompt could not be fetched; the log of this server "
                 "says why. Send the request without kv_transfer_params, and this server "
                 "computes the whole answer.");
}

void GenerationService::submit(Key key,
                               Generation& generation,
                               const GenerationRequest& request,
                               const std::vector<EncodedPrompt>& prompts,
                               api::TimePoint arrived) {
  generation.n = request.n;
  try {
    for (const EncodedPrompt& prompt : prompts) {
      for (int i = 0; i < request.n; ++i) {
        sampling::SamplingParams params = request.params;
        // The i-th answer gets the seed plus i, the same as in vLLM; otherwise all answers would be
        // equal.
        if (params.seed) {
          params.seed =
              static_cast<int64_t>(static_cast<uint64_t>(*params.seed) + static_cast<uint64_t>(i));
        }
        const auto index = static_cast<int>(generation.choices.size());
        scheduler::RequestOptions options = request.options;
        options.second_text_begin = prompt.second_text_begin;
        options.client_id =
            choice_id(generation.id, index, static_cast<size_t>(request.num_choices()));
        if (request.make_constraint) options.constraint = request.make_constraint();
        const scheduler::RequestId id = engine_->submit(
            prompt.token_ids,
            params,
            [queue = events_, key, index](engine::OutputDelta&& delta) {
              queue->push({.generation = key, .choice = index, .delta = std::move(delta)});
            },
            std::move(options),
            arrived);
        generation.choices.push_back(
            {.id = id, .num_prompt_tokens = static_cast<int64_t>(prompt.token_ids.size())});
      }
    }
  } catch (...) {
    for (const Generation::Choice& choice : generation.choices) engine_->abort(choice.id);
    throw;
  }
  generation.num_unfinished = static_cast<int>(generation.choices.size());
  num_active_ += generation.num_unfinished;
}

void GenerationService::take_events() {
  for (const EngineEvent& event : events_->take()) take_event(event);
  note_idle();
}

void GenerationService::take_event(const EngineEvent& event) {
  const auto found = generations_.find(event.generation);
  if (found == generations_.end()) return;  // the client disconnected
  const engine::OutputDelta& delta = event.delta;
  // A write may disconnect the client, which removes the generation from the map; this copy keeps
  // the generation alive.
  const std::shared_ptr<Generation> generation = found->second;
  Generation::Choice& choice = generation->choices[static_cast<size_t>(event.choice)];
  if (choice.is_finished) return;
  if (options_.request_log.with_outputs) {
    choice.logged.add(options_.request_log, delta.text, delta.token_ids);
    if (delta.finished) {
      options_.log.write(LogLevel::info,
                         "request_log",
                         choice.logged.line(generation->id, event.choice, delta.finish_reason),
                         {{"request_id", generation->id}});
    }
  }
  choice.num_output_tokens = delta.num_output_tokens;
  choice.num_cached_tokens = delta.num_cached_tokens;
  if (delta.finished) {
    if (generation->traced) {
      options_.tracer->end_request(
          *generation->traced,
          choice_id(generation->id, event.choice, generation->choices.size()),
          delta);
    }
    choice.is_finished = true;
    choice.finish_reason = delta.finish_reason;
    --generation->num_unfinished;
    --num_active_;
    if (delta.finish_reason == "error") {
      note_error(delta.error);
      const int status = delta.error_kind == scheduler::ErrorKind::request ? 400 : 500;
      return fail(event.generation, ApiError(status, model_->without_path(delta.error)));
    }
    if (delta.finish_reason == "abort") {
      return fail(event.generation, ApiError(503, "The request was aborted by the server."));
    }
  }
  generation->answer->take(event.choice, delta);
  if (generation->num_unfinished > 0 || generations_.erase(event.generation) == 0) return;
  observe(*generation);
  generation->exchange->note(generation->facts());
  finish(generation);
}

void GenerationService::finish(std::shared_ptr<Generation> generation) {
  if (!run_elsewhere_ || !generation->answer->is_large()) return generation->answer->finish();
  ++num_being_written_;
  // The generation belongs to the I/O thread, so the other thread passes it back to be destroyed
  // there.
  run_elsewhere_([this, io_poster = io_poster_, generation = std::move(generation)]() mutable {
    HttpResponse response;
    try {
      response = generation->answer->whole();
    } catch (const std::exception&) {  // memory is what may be missing here
      response = error_response(ApiError(500, "The server could not write this answer."));
    }
    io_poster->post(
        [this, generation = std::move(generation), response = std::move(response)]() mutable {
          generation->answer->respond(std::move(response));
          --num_being_written_;
          note_idle();
        });
  });
}

void GenerationService::note_error(const std::string& reason) {
  if (!on_engine_death_ || !engine_->stats().is_dead) return;
  std::exchange(on_engine_death_, nullptr)(reason);
}

void GenerationService::observe(const Generation& generation) {
  const auto n = static_cast<size_t>(generation.n);
  for (size_t first = 0; first + n <= generation.choices.size(); first += n) {
    int32_t longest = 0;
    for (const Generation::Choice& choice : std::span(generation.choices).subspan(first, n)) {
      longest = std::max(longest, choice.num_output_tokens);
    }
    counts_.params_n.observe(generation.n);
    counts_.max_num_generation_tokens.observe(longest);
  }
}

void GenerationService::fail(Key key, const ApiError& error) {
  const auto found = generations_.find(key);
  if (found == generations_.end()) return;
  const std::shared_ptr<Generation> generation = found->second;
  forget(key);
  generation->answer->fail(error);
}

void GenerationService::forget(Key key) {
  const auto found = generations_.find(key);
  if (found == generations_.end()) return;
  const std::shared_ptr<Generation> generation = std::move(found->second);
  generations_.erase(found);
  for (const Generation::Choice& choice : generation->choices) {
    if (!choice.is_finished) engine_->abort(choice.id);
  }
  num_active_ -= generation->num_unfinished;
  generation->exchange->note(generation->facts());
  note_idle();
}

std::optional<SpanCounts> GenerationService::span_counts() const {
  if (!options_.tracer) return std::nullopt;
  return options_.tracer->counts();
}

bool GenerationService::is_compiling() const {
  return has_compiled_ && !engine_->grammar_compiler().is_idle();
}

void GenerationService::forget_rare_specs() {
  if (has_compiled_) engine_->grammar_compiler().shrink_cache(kIdleSpecBytes);
}

void GenerationService::drain(std::function<void()> when_idle) {
  is_draining_ = true;
  when_idle_ = std::move(when_idle);
  for (const auto& [key, exchange] : std::exchange(preparing_, {})) {
    exchange->respond(error_response(ApiError(503, "The server is shutting down.")));
  }
  note_idle();
}

void GenerationService::note_idle() {
  if (!is_idle()) return;
  if (const auto callback = std::exchange(when_idle_, nullptr)) callback();
}

void GenerationService::keep_streams_alive() {
  const api::TimePoint since =
      std::chrono::steady_clock::now() - std::chrono::seconds(options_.sse_keep_alive_interval);
  // A write may disconnect a client, which removes its generation from the map.
  std::vector<std::shared_ptr<Generation>> all;
  for (const auto& [key, generation] : generations_) all.push_back(generation);
  for (const std::shared_ptr<Generation>& generation : all) generation->answer->keep_alive(since);
}

void GenerationService::fail_all(const ApiError& error) {
  std::vector<Key> keys;
  for (const auto& [key, generation] : generations_) keys.push_back(key);
  for (const Key key : keys) fail(key, error);
}

std::string GenerationService::new_id() {
  return fmt::format("{:016x}{:016x}", random_ids_(), random_ids_());
}

}  // namespace reprise::server
