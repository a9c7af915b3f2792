#include "reprise/server/api_server.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <ctime>
#include <exception>
#include <random>
#include <unordered_map>
#include <utility>

#include "reprise/base/assert.h"
#include "reprise/base/error.h"
#include "reprise/server/api_error.h"
#include "reprise/server/event_queue.h"
#include "reprise/server/generation_request.h"
#include "reprise/server/metrics.h"
#include "reprise/server/responses.h"
#include "reprise/tokenizer/tokenizer.h"

namespace reprise::server {
namespace {

using ExchangeRef = std::shared_ptr<HttpExchange>;

// After the last answer of a drain was written: for slow readers.
constexpr int kFlushSeconds = 5;
constexpr std::string_view kModelsPrefix = "/v1/models/";
constexpr std::string_view kEventStream = "text/event-stream; charset=utf-8";

bool is_loopback(std::string_view host) {
  return host == "localhost" || host == "::1" || host.starts_with("127.");
}

/// Takes as long whatever the first difference is.
bool equals_in_constant_time(std::string_view given, std::string_view key) {
  unsigned difference = given.size() == key.size() ? 0 : 1;
  for (size_t i = 0; i < given.size(); ++i) {
    const char expected = key.empty() ? '\0' : key[i % key.size()];
    difference |= static_cast<unsigned char>(given[i]) ^ static_cast<unsigned char>(expected);
  }
  return difference == 0;
}

/// "%2F" becomes "/". What is no escape stays as it is: no model will have that name.
std::string percent_decode(std::string_view text) {
  const auto digit = [](char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
  };
  std::string decoded;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%' && i + 2 < text.size() && digit(text[i + 1]) >= 0 &&
        digit(text[i + 2]) >= 0) {
      decoded += static_cast<char>(digit(text[i + 1]) * 16 + digit(text[i + 2]));
      i += 2;
    } else {
      decoded += text[i];
    }
  }
  return decoded;
}

bool is_json(std::string_view content_type) {
  std::string media_type(content_type.substr(0, content_type.find(';')));
  std::transform(media_type.begin(), media_type.end(), media_type.begin(), [](unsigned char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : static_cast<char>(c);
  });
  media_type.erase(media_type.find_last_not_of(' ') + 1);
  return media_type == "application/json";
}

size_t longest_token_bytes(const tokenizer::Tokenizer& tokenizer) {
  size_t longest = 1;
  for (int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
    if (const auto token = tokenizer.id_to_token(id)) longest = std::max(longest, token->size());
  }
  return longest;
}

/// One answer of a request: the one at `index` in "choices".
struct Choice {
  api::AsyncRequestId id{};
  std::string text;
  int64_t num_output_tokens = 0;
  bool finished = false;
  std::string finish_reason;
  engine::StopReason stop_reason;
};

/// A request that is being answered.
struct Generation {
  ExchangeRef exchange;
  AnswerHead head;
  std::string request_id;
  bool stream = false;
  bool include_usage = false;
  bool continuous_usage = false;
  bool has_begun = false;  // the head of the stream was sent
  bool is_gone = false;    // answered, or the client went
  std::vector<Choice> choices;
  int num_unfinished = 0;
  Usage usage;
};

}  // namespace

void check_exposure(const ServerOptions& options) {
  if (is_loopback(options.host) || !options.api_keys.empty() || options.allow_unauthenticated)
    return;
  throw InvalidArgument(fmt::format(
      "--host {} lets other machines in, and no --api-key protects the server; give one (or set "
      "VLLM_API_KEY), listen on 127.0.0.1, or say --allow-unauthenticated",
      options.host));
}

struct ApiServer::Impl {
  Impl(const ServerOptions& server_options, api::AsyncEngine& async_engine);
  ~Impl();

  struct Route {
    std::string_view method;
    std::string_view path;
    enum Access { open, guarded } access;
    void (Impl::*handle)(const HttpRequest&, const ExchangeRef&);
  };
  static const std::array<Route, 11> kRoutes;

  std::optional<HttpResponse> check_head(const HttpRequest& request) const;
  void handle(const HttpRequest& request, const ExchangeRef& exchange);
  const Route& find_route(const HttpRequest& request) const;
  void check_key(const HttpRequest& request) const;
  [[nodiscard]] ApiError translate(const std::exception& error) const;
  [[nodiscard]] std::string without_paths(std::string text) const;

  // Routes.
  void health(const HttpRequest& request, const ExchangeRef& exchange);
  void version(const HttpRequest& request, const ExchangeRef& exchange);
  void models(const HttpRequest& request, const ExchangeRef& exchange);
  void model(const HttpRequest& request, const ExchangeRef& exchange);
  void metrics(const HttpRequest& request, const ExchangeRef& exchange);
  void tokenize(const HttpRequest& request, const ExchangeRef& exchange);
  void detokenize(const HttpRequest& request, const ExchangeRef& exchange);
  void completions(const HttpRequest& request, const ExchangeRef& exchange);
  void chat_completions(const HttpRequest& request, const ExchangeRef& exchange);

  // Requests.
  void generate(const GenerationRequest& request,
                const HttpRequest& http,
                const ExchangeRef& exchange);
  void admit(const GenerationRequest& request) const;
  void check_model(const std::optional<std::string>& name) const;
  [[nodiscard]] std::vector<std::vector<int32_t>> tokenize_prompts(
      const GenerationRequest& request) const;
  [[nodiscard]] std::vector<int32_t> encode(const std::string& text, bool add_special_tokens) const;
  void check_length(size_t num_prompt_tokens, const sampling::SamplingParams& params) const;
  void submit(uint64_t key,
              Generation& generation,
              const GenerationRequest& request,
              const std::vector<std::vector<int32_t>>& prompts);
  void take_events();
  void take_event(EngineEvent& event);
  void stream_event(Generation& generation, const EngineEvent& event);
  void write_chunk(Generation& generation, Json chunk) const;
  void finish(uint64_t key, Generation& generation);
  void fail(uint64_t key, Generation& generation, const ApiError& error);
  void forget(uint64_t key);
  void drain();
  void stop_now();

  std::string new_id();
  [[nodiscard]] HttpHeaders id_header(const Generation& generation) const {
    return {{"X-Request-Id", generation.request_id}};
  }

  ServerOptions options;
  api::AsyncEngine* engine;  // outlives the server
  sampling::SamplingParams defaults;
  size_t max_token_bytes;
  int64_t started = std::time(nullptr);
  std::mt19937_64 random_ids{std::random_device{}()};
  HttpServer http;
  uint16_t port = 0;
  std::shared_ptr<EventQueue> events;  // also the engine's callbacks hold it
  std::unordered_map<uint64_t, std::shared_ptr<Generation>> generations;
  uint64_t next_key = 1;
  int64_t num_active = 0;  // choices that the engine has and has not finished
  bool is_draining = false;
};

const std::array<ApiServer::Impl::Route, 11> ApiServer::Impl::kRoutes = {{
    {"GET", "/health", Route::open, &Impl::health},
    {"GET", "/ping", Route::open, &Impl::health},
    {"POST", "/ping", Route::open, &Impl::health},
    {"GET", "/version", Route::open, &Impl::version},
    {"GET", "/metrics", Route::open, &Impl::metrics},
    {"GET", "/v1/models", Route::guarded, &Impl::models},
    {"GET", kModelsPrefix, Route::guarded, &Impl::model},
    {"POST", "/v1/completions", Route::guarded, &Impl::completions},
    {"POST", "/v1/chat/completions", Route::guarded, &Impl::chat_completions},
    {"POST", "/tokenize", Route::guarded, &Impl::tokenize},
    {"POST", "/detokenize", Route::guarded, &Impl::detokenize},
}};

ApiServer::Impl::Impl(const ServerOptions& server_options, api::AsyncEngine& async_engine)
    : options(server_options),
      engine(&async_engine),
      defaults(async_engine.default_sampling_params()),
      max_token_bytes(longest_token_bytes(async_engine.tokenizer())),
      http(server_options.limits,
           {.check_head = [this](const HttpRequest& request) { return check_head(request); },
            .handle = [this](const HttpRequest& request,
                             const ExchangeRef& exchange) { handle(request, exchange); },
            .on_signal = [this] { is_draining ? stop_now() : drain(); }}),
      events(std::make_shared<EventQueue>([this] { http.post([this] { take_events(); }); })) {
  check_exposure(options);
  REPRISE_ASSERT(!options.served_model_names.empty(), "a server needs a name for its model");
  port = http.listen(options.host, options.port);
}

ApiServer::Impl::~Impl() {
  events->close();
  for (const auto& [key, generation] : generations) {
    for (const Choice& choice : generation->choices) {
      if (!choice.finished) engine->abort(choice.id);
    }
  }
}

// --- Before a body is read

const ApiServer::Impl::Route& ApiServer::Impl::find_route(const HttpRequest& request) const {
  std::string allowed;
  for (const Route& route : kRoutes) {
    const bool is_prefix = route.path == kModelsPrefix;
    const bool fits = is_prefix ? request.path.starts_with(kModelsPrefix) &&
                                      request.path.size() > kModelsPrefix.size()
                                : request.path == route.path;
    if (!fits) continue;
    if (route.method == request.method) return route;
    allowed += allowed.empty() ? "" : ", ";
    allowed += route.method;
  }
  if (allowed.empty()) throw ApiError(404, "Not Found");
  throw ApiError(405, fmt::format("Method Not Allowed; this path takes {}.", allowed), allowed);
}

void ApiServer::Impl::check_key(const HttpRequest& request) const {
  if (options.api_keys.empty()) return;
  constexpr std::string_view kBearer = "Bearer ";
  bool is_known = false;
  if (request.authorization.starts_with(kBearer)) {
    const std::string_view given = std::string_view(request.authorization).substr(kBearer.size());
    for (const std::string& key : options.api_keys) is_known |= equals_in_constant_time(given, key);
  }
  if (!is_known) throw ApiError(401, "Unauthorized");
}

std::optional<HttpResponse> ApiServer::Impl::check_head(const HttpRequest& request) const {
  try {
    const Route& route = find_route(request);
    if (route.access == Route::guarded) check_key(request);
    if (route.method == "POST" && route.access == Route::guarded &&
        !is_json(request.content_type)) {
      throw ApiError(415, "Unsupported Media Type: Only 'application/json' is allowed");
    }
    return {};
  } catch (const ApiError& error) {
    if (error.status() != 405) return error_response(error);
    HttpResponse response = error_response(ApiError(405, error.what()));
    response.headers.emplace_back("Allow", error.param().value_or(""));
    return response;
  }
}

// --- Routes

void ApiServer::Impl::handle(const HttpRequest& request, const ExchangeRef& exchange) {
  try {
    (this->*find_route(request).handle)(request, exchange);
  } catch (const std::exception& error) {
    exchange->respond(error_response(translate(error)));
  }
}

ApiError ApiServer::Impl::translate(const std::exception& error) const {
  if (const auto* known = dynamic_cast<const ApiError*>(&error)) return *known;
  if (dynamic_cast<const InvalidArgument*>(&error) != nullptr) {
    return ApiError(400, without_paths(error.what()));
  }
  fmt::print(stderr, "ERROR:    a request failed: {}\n", error.what());
  return ApiError(500, "The server could not answer this request; its log says why.");
}

std::string ApiServer::Impl::without_paths(std::string text) const {
  if (options.model_path.empty()) return text;
  for (size_t at = 0; (at = text.find(options.model_path, at)) != std::string::npos;) {
    text.replace(at, options.model_path.size(), options.served_model_names[0]);
    at += options.served_model_names[0].size();
  }
  return text;
}

void ApiServer::Impl::health(const HttpRequest&, const ExchangeRef& exchange) {
  if (is_draining) throw ApiError(503, "The server is shutting down.");
  if (engine->stats().is_dead) throw ApiError(503, "The engine is dead.");
  exchange->respond({.content_type = ""});
}

void ApiServer::Impl::version(const HttpRequest&, const ExchangeRef& exchange) {
  exchange->respond({.body = dump({{"version", options.version}})});
}

void ApiServer::Impl::models(const HttpRequest&, const ExchangeRef& exchange) {
  Json list = {{"object", "list"}, {"data", Json::array()}};
  for (const std::string& name : options.served_model_names) {
    list["data"].push_back(
        model_json(name, options.model_root, started, engine->startup_report().max_model_len));
  }
  exchange->respond({.body = dump(list)});
}

void ApiServer::Impl::model(const HttpRequest& request, const ExchangeRef& exchange) {
  const std::string name =
      percent_decode(std::string_view(request.path).substr(kModelsPrefix.size()));
  check_model(name);
  exchange->respond(
      {.body = dump(
           model_json(name, options.model_root, started, engine->startup_report().max_model_len))});
}

void ApiServer::Impl::metrics(const HttpRequest&, const ExchangeRef& exchange) {
  exchange->respond({.body = metrics_text(engine->stats(), options.served_model_names[0]),
                     .content_type = std::string(kMetricsContentType)});
}

void ApiServer::Impl::tokenize(const HttpRequest& request, const ExchangeRef& exchange) {
  const TokenizeRequest wanted = parse_tokenize_request(request.body);
  check_model(wanted.model);
  const std::string text =
      wanted.prompt ? *wanted.prompt : engine->apply_chat_template(wanted.messages);
  const std::vector<int32_t> ids =
      engine->tokenizer().encode(text, {.add_special_tokens = wanted.add_special_tokens});
  Json answer = {{"count", ids.size()},
                 {"max_model_len", engine->startup_report().max_model_len},
                 {"tokens", ids},
                 {"token_strs", nullptr}};
  if (wanted.return_token_strs) {
    answer["token_strs"] = Json::array();
    for (int32_t id : ids)
      answer["token_strs"].push_back(engine->tokenizer().id_to_token(id).value_or(""));
  }
  exchange->respond({.body = dump(answer)});
}

void ApiServer::Impl::detokenize(const HttpRequest& request, const ExchangeRef& exchange) {
  const DetokenizeRequest wanted = parse_detokenize_request(request.body);
  check_model(wanted.model);
  const int32_t vocab_size = engine->tokenizer().vocab_size();
  for (int32_t id : wanted.tokens) {
    if (id >= vocab_size)
      throw ApiError(400, fmt::format("Token id {} is out of vocabulary.", id), "tokens");
  }
  constexpr bool kSkipSpecialTokens = false;
  exchange->respond(
      {.body = dump({{"prompt", engine->tokenizer().decode(wanted.tokens, kSkipSpecialTokens)}})});
}

void ApiServer::Impl::completions(const HttpRequest& request, const ExchangeRef& exchange) {
  generate(parse_completion_request(request.body, defaults), request, exchange);
}

void ApiServer::Impl::chat_completions(const HttpRequest& request, const ExchangeRef& exchange) {
  generate(parse_chat_request(request.body, defaults), request, exchange);
}

// --- From a request to the engine

void ApiServer::Impl::check_model(const std::optional<std::string>& name) const {
  const std::vector<std::string>& names = options.served_model_names;
  if (!name || std::find(names.begin(), names.end(), *name) != names.end()) return;
  throw ApiError(404, fmt::format("The model `{}` does not exist.", name->substr(0, 256)), "model");
}

void ApiServer::Impl::admit(const GenerationRequest& request) const {
  if (is_draining) throw ApiError(503, "The server is shutting down.");
  if (engine->stats().is_dead) throw ApiError(503, "The engine is dead.");
  const int64_t capacity = int64_t{options.max_num_seqs} + options.max_waiting_requests;
  if (request.num_choices() > capacity) {
    throw ApiError(400,
                   fmt::format("The request asks for {} answers; this server takes {} at a time.",
                               request.num_choices(),
                               capacity),
                   "n");
  }
  if (num_active + request.num_choices() > capacity) {
    throw ApiError(
        429,
        fmt::format("The server is full: {} requests run or wait. Try again later.", num_active));
  }
}

std::vector<int32_t> ApiServer::Impl::encode(const std::string& text,
                                             bool add_special_tokens) const {
  const int64_t max_model_len = engine->startup_report().max_model_len;
  // Tokenizing megabytes to find out that they are too many would stop every other request.
  if (text.size() / max_token_bytes > static_cast<size_t>(max_model_len)) {
    throw ApiError(
        400,
        fmt::format("This model's maximum context length is {} tokens. However, your prompt of "
                    "{} bytes has more.",
                    max_model_len,
                    text.size()),
        "input_tokens");
  }
  return engine->tokenizer().encode(text, {.add_special_tokens = add_special_tokens});
}

std::vector<std::vector<int32_t>> ApiServer::Impl::tokenize_prompts(
    const GenerationRequest& request) const {
  if (request.is_chat) {
    return {encode(engine->apply_chat_template(request.messages), request.add_special_tokens)};
  }
  const int32_t vocab_size = engine->tokenizer().vocab_size();
  std::vector<std::vector<int32_t>> prompts;
  for (const Prompt& prompt : request.prompts) {
    if (const auto* text = std::get_if<std::string>(&prompt)) {
      prompts.push_back(encode(*text, request.add_special_tokens));
      continue;
    }
    prompts.push_back(std::get<std::vector<int32_t>>(prompt));
    for (int32_t id : prompts.back()) {
      if (id >= vocab_size)
        throw ApiError(400, fmt::format("Token id {} is out of vocabulary.", id), "prompt");
    }
  }
  return prompts;
}

void ApiServer::Impl::check_length(size_t num_prompt_tokens,
                                   const sampling::SamplingParams& params) const {
  if (num_prompt_tokens == 0) throw ApiError(400, "The prompt must not be empty.", "prompt");
  const int64_t max_model_len = engine->startup_report().max_model_len;
  const auto num_input = static_cast<int64_t>(num_prompt_tokens);
  const int64_t num_output = params.max_tokens.value_or(1);
  if (num_input + num_output <= max_model_len) return;
  throw ApiError(
      400,
      fmt::format("This model's maximum context length is {} tokens. However, you requested {} "
                  "output tokens and your prompt contains {} input tokens, for a total of {} "
                  "tokens. Please reduce the length of the input prompt or the number of "
                  "requested output tokens.",
                  max_model_len,
                  num_output,
                  num_input,
                  num_input + num_output),
      "input_tokens");
}

void ApiServer::Impl::generate(const GenerationRequest& request,
                               const HttpRequest& http_request,
                               const ExchangeRef& exchange) {
  check_model(request.model);
  admit(request);
  check_sampling(request, engine->tokenizer().vocab_size());
  const std::vector<std::vector<int32_t>> prompts = tokenize_prompts(request);
  for (const std::vector<int32_t>& prompt : prompts) check_length(prompt.size(), request.params);

  auto generation = std::make_shared<Generation>();
  generation->exchange = exchange;
  generation->request_id = http_request.request_id.empty() ? new_id() : http_request.request_id;
  generation->head = {.is_chat = request.is_chat,
                      .id = (request.is_chat ? "chatcmpl-" : "cmpl-") + generation->request_id,
                      .created = std::time(nullptr),
                      .model = request.model.value_or(options.served_model_names[0])};
  generation->stream = request.stream;
  generation->include_usage = request.include_usage;
  generation->continuous_usage = request.continuous_usage;
  const uint64_t key = next_key++;
  submit(key, *generation, request, prompts);
  generations.emplace(key, generation);
  exchange->on_disconnect([this, key] { forget(key); });
}

void ApiServer::Impl::submit(uint64_t key,
                             Generation& generation,
                             const GenerationRequest& request,
                             const std::vector<std::vector<int32_t>>& prompts) {
  try {
    for (const std::vector<int32_t>& prompt : prompts) {
      generation.usage.prompt_tokens += static_cast<int64_t>(prompt.size());
      for (int i = 0; i < request.n; ++i) {
        sampling::SamplingParams params = request.params;
        // As vLLM: the i-th answer has the i-th seed, or all would be the same.
        if (params.seed) {
          params.seed =
              static_cast<int64_t>(static_cast<uint64_t>(*params.seed) + static_cast<uint64_t>(i));
        }
        const auto index = static_cast<int>(generation.choices.size());
        const api::AsyncRequestId id = engine->submit(
            prompt, params, [queue = events, key, index](const api::AsyncOutput& output) {
              queue->push({.generation = key,
                           .choice = index,
                           .text = std::string(output.text),
                           .num_tokens = static_cast<int32_t>(output.token_ids.size()),
                           .finished = output.finished,
                           .finish_reason = output.finish_reason,
                           .stop_reason = output.stop_reason,
                           .error = output.error,
                           .num_prompt_tokens = output.num_prompt_tokens,
                           .num_output_tokens = output.num_output_tokens});
            });
        generation.choices.push_back({.id = id});
      }
    }
  } catch (...) {
    for (const Choice& choice : generation.choices) engine->abort(choice.id);
    throw;
  }
  generation.num_unfinished = static_cast<int>(generation.choices.size());
  num_active += generation.num_unfinished;
}

// --- From the engine to the answers

void ApiServer::Impl::take_events() {
  std::vector<EngineEvent> taken = events->take();
  for (EngineEvent& event : taken) take_event(event);
  if (is_draining && num_active == 0) http.shut_down(kFlushSeconds);
}

void ApiServer::Impl::take_event(EngineEvent& event) {
  const auto found = generations.find(event.generation);
  if (found == generations.end()) return;  // its client went
  const std::shared_ptr<Generation> generation = found->second;
  Choice& choice = generation->choices[static_cast<size_t>(event.choice)];
  if (choice.finished) return;
  choice.num_output_tokens += event.num_tokens;
  generation->usage.completion_tokens += event.num_tokens;
  if (event.finished) {
    choice.finished = true;
    choice.finish_reason = event.finish_reason;
    choice.stop_reason = event.stop_reason;
    // What the engine counted is what it sampled.
    generation->usage.completion_tokens += event.num_output_tokens - choice.num_output_tokens;
    choice.num_output_tokens = event.num_output_tokens;
    --generation->num_unfinished;
    --num_active;
    if (event.finish_reason == "error") {
      return fail(event.generation, *generation, ApiError(500, without_paths(event.error)));
    }
    if (event.finish_reason == "abort") {
      return fail(
          event.generation, *generation, ApiError(503, "The request was aborted by the server."));
    }
  }
  if (generation->stream) {
    stream_event(*generation, event);
  } else {
    choice.text += event.text;
  }
  if (generation->num_unfinished == 0 && !generation->is_gone)
    finish(event.generation, *generation);
}

void ApiServer::Impl::write_chunk(Generation& generation, Json chunk) const {
  if (generation.continuous_usage) chunk["usage"] = to_json(generation.usage);
  generation.exchange->write(sse_event(chunk));
}

void ApiServer::Impl::stream_event(Generation& generation, const EngineEvent& event) {
  if (!std::exchange(generation.has_begun, true)) {
    HttpResponse head{.content_type = std::string(kEventStream), .headers = id_header(generation)};
    head.headers.emplace_back("Cache-Control", "no-cache");
    generation.exchange->begin_stream(head);
    if (generation.head.is_chat) {
      for (size_t i = 0; i < generation.choices.size(); ++i) {
        write_chunk(generation, role_chunk(generation.head, static_cast<int>(i)));
      }
    }
  }
  if (event.num_tokens == 0 && event.text.empty() && !event.finished) return;
  write_chunk(
      generation,
      text_chunk(generation.head,
                 {.index = event.choice,
                  .text = event.text,
                  .finish_reason = event.finished ? event.finish_reason : std::string_view(),
                  .stop_reason = event.finished ? &event.stop_reason : nullptr}));
}

void ApiServer::Impl::finish(uint64_t key, Generation& generation) {
  generation.is_gone = true;
  if (generation.stream) {
    if (generation.include_usage) {
      generation.exchange->write(sse_event(usage_chunk(generation.head, generation.usage)));
    }
    generation.exchange->write(kSseDone);
    generation.exchange->finish_stream();
  } else {
    std::vector<ChoiceText> choices;
    for (size_t i = 0; i < generation.choices.size(); ++i) {
      const Choice& choice = generation.choices[i];
      choices.push_back({.index = static_cast<int>(i),
                         .text = choice.text,
                         .finish_reason = choice.finish_reason,
                         .stop_reason = &choice.stop_reason});
    }
    generation.exchange->respond(
        {.body = dump(answer_json(generation.head, choices, generation.usage)),
         .headers = id_header(generation)});
  }
  generations.erase(key);
}

void ApiServer::Impl::fail(uint64_t key, Generation& generation, const ApiError& error) {
  generation.is_gone = true;
  if (generation.has_begun) {
    generation.exchange->write(sse_event(error_body(error)));
    generation.exchange->write(kSseDone);
    generation.exchange->finish_stream();
  } else {
    HttpResponse response = error_response(error);
    response.headers.emplace_back("X-Request-Id", generation.request_id);
    generation.exchange->respond(std::move(response));
  }
  forget(key);
}

void ApiServer::Impl::forget(uint64_t key) {
  const auto found = generations.find(key);
  if (found == generations.end()) return;
  const std::shared_ptr<Generation> generation = std::move(found->second);
  generations.erase(found);
  generation->is_gone = true;
  for (const Choice& choice : generation->choices) {
    if (!choice.finished) engine->abort(choice.id);
  }
  num_active -= generation->num_unfinished;
  if (is_draining && num_active == 0) http.shut_down(kFlushSeconds);
}

// --- The end

void ApiServer::Impl::drain() {
  is_draining = true;
  fmt::print(stderr, "INFO:     Shutting down; {} requests are running.\n", num_active);
  if (num_active == 0) return http.shut_down(kFlushSeconds);
  http.post_after(options.shutdown_timeout_seconds, [this] {
    fmt::print(stderr, "WARNING:  {} requests did not finish in time.\n", num_active);
    stop_now();
  });
}

void ApiServer::Impl::stop_now() {
  std::vector<uint64_t> keys;
  for (const auto& [key, generation] : generations) keys.push_back(key);
  for (uint64_t key : keys) {
    if (const auto found = generations.find(key); found != generations.end()) {
      const std::shared_ptr<Generation> generation = found->second;
      fail(key, *generation, ApiError(503, "The server is shutting down."));
    }
  }
  if (keys.empty()) http.stop();
}

std::string ApiServer::Impl::new_id() {
  return fmt::format("{:016x}{:016x}", random_ids(), random_ids());
}

ApiServer::ApiServer(const ServerOptions& options, api::AsyncEngine& engine)
    : impl_(std::make_unique<Impl>(options, engine)) {}
ApiServer::~ApiServer() = default;

uint16_t ApiServer::port() const noexcept { return impl_->port; }
void ApiServer::run() { impl_->http.run(); }

}  // namespace reprise::server
