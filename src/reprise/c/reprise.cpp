#include "reprise/c/reprise.h"

#include <algorithm>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "reprise/api/async_engine.h"
#include "reprise/base/error.h"
#include "reprise/base/json.h"
#include "reprise/cli/engine_options.h"
#include "reprise/cli/option_table.h"
#include "reprise/cli/version.h"
#include "reprise/output_parsers/choose_parsers.h"
#include "reprise/server/local_api.h"
#include "reprise/server/openai/answer_reader.h"
#include "reprise/tokenizer/tokenizer.h"

namespace {

using reprise::Json;
using reprise::server::HttpResponse;
using reprise::server::LocalApi;

/// The answer to one request. The thread of the routes writes it, and the thread of the call reads
/// it.
struct Call {
  std::mutex mutex;
  std::condition_variable has_news;
  std::deque<std::string> events;
  std::optional<HttpResponse> response;
  std::function<void()> cancel;  // used by the thread of the routes

  void add(std::string_view event) {
    const std::lock_guard lock(mutex);
    events.emplace_back(event);
    has_news.notify_one();
  }
  void end(const HttpResponse& answer) {
    const std::lock_guard lock(mutex);
    response = answer;
    has_news.notify_one();
  }
};

std::string& last_error() {
  thread_local std::string text;
  return text;
}

reprise_status fail(reprise_status status, std::string why) {
  last_error() = std::move(why);
  return status;
}

/// Runs a function and turns its exceptions into a status.
template <typename Function>
reprise_status guarded(const Function& function) noexcept {
  try {
    last_error().clear();
    return function();
  } catch (const reprise::InvalidArgument& error) {
    return fail(REPRISE_INVALID_ARGUMENT, error.what());
  } catch (const reprise::OutOfMemory& error) {
    return fail(REPRISE_OUT_OF_MEMORY, error.what());
  } catch (const std::bad_alloc&) {
    return fail(REPRISE_OUT_OF_MEMORY, "out of memory");
  } catch (const std::exception& error) {
    return fail(REPRISE_FAILED, error.what());
  }
}

char* copy_of(const std::string& text) {
  auto* copy = static_cast<char*>(std::malloc(text.size() + 1));
  if (copy == nullptr) throw std::bad_alloc();
  std::memcpy(copy, text.c_str(), text.size() + 1);
  return copy;
}

template <typename Pointer>
void require(Pointer* pointer, const char* name) {
  if (pointer == nullptr) throw reprise::InvalidArgument(std::string(name) + " is NULL");
}

/// The status of a route's answer; sets last_error() unless it is REPRISE_OK.
reprise_status status_of(const HttpResponse& response) {
  if (response.status < 400) return REPRISE_OK;
  const Json body = Json::parse(response.body, nullptr, /*allow_exceptions=*/false);
  std::string why = body.is_object() && body.contains("error")
                        ? body["error"]["message"].get<std::string>()
                        : response.body;
  if (response.status == 429) return fail(REPRISE_BUSY, std::move(why));
  return fail(response.status < 500 ? REPRISE_INVALID_ARGUMENT : REPRISE_FAILED, std::move(why));
}

/// Copies as many numbers into the memory of the caller as it has room for.
template <typename Value>
void give(std::span<const Value> values, Value* to, size_t capacity, size_t* count) {
  std::ranges::copy(values.first(std::min(capacity, values.size())), to);
  *count = values.size();
}

}  // namespace

struct reprise_engine {
  reprise_engine(const reprise::server::ServerOptions& server_options,
                 std::unique_ptr<reprise::api::AsyncEngine> loaded)
      : engine(std::move(loaded)), routes(server_options, *engine), thread([this] { serve(); }) {}
  reprise_engine(const reprise_engine&) = delete;
  reprise_engine& operator=(const reprise_engine&) = delete;
  ~reprise_engine() {
    routes.run([this] { is_ending = true; });
    thread.join();
  }

  void serve() {
    while (!is_ending) routes.wait();
    for (const std::shared_ptr<Call>& call : calls) {
      call->end({.status = 503, .body = R"({"error": {"message": "the engine was unloaded"}})"});
      call->cancel = nullptr;  // owns the exchange, whose functions own the call
    }
  }

  std::unique_ptr<reprise::api::AsyncEngine> engine;
  LocalApi routes;
  std::vector<std::shared_ptr<Call>> calls;  // that are not answered; used by `thread`
  bool is_ending = false;                    // set and read by `thread`
  std::thread thread;
};

namespace {

/// Starts a request on the thread of the routes.
std::shared_ptr<Call> start(reprise_engine& engine, const char* path, const char* body) {
  auto call = std::make_shared<Call>();
  engine.routes.run([&engine, call, path = std::string(path), body = std::string(body)] {
    engine.calls.push_back(call);
    call->cancel = engine.routes.post(
        path,
        body,
        [&engine, call](const HttpResponse& response) {
          std::erase(engine.calls, call);
          call->end(response);
        },
        [call](std::string_view event) { call->add(event); });
  });
  return call;
}

/// The JSON of an event; empty for the event that ends the stream.
std::string json_of(std::string_view event) {
  constexpr std::string_view kData = "data: ";
  event.remove_prefix(std::min(kData.size(), event.size()));
  while (event.ends_with('\n')) event.remove_suffix(1);
  return event == "[DONE]" ? "" : std::string(event);
}

/// Waits for the answer. Each event goes to `on_event`, which returns false to stop.
reprise_status finish(reprise_engine& engine,
                      const std::shared_ptr<Call>& call,
                      const std::function<bool(const std::string&)>& on_event,
                      HttpResponse& response) {
  std::unique_lock lock(call->mutex);
  bool is_cancelled = false;
  while (true) {
    call->has_news.wait(lock, [&] { return !call->events.empty() || call->response; });
    if (call->events.empty()) break;
    const std::string json = json_of(call->events.front());
    call->events.pop_front();
    if (json.empty() || is_cancelled) continue;
    lock.unlock();
    if (!on_event(json)) {
      is_cancelled = true;
      engine.routes.run([call] { call->cancel(); });
    }
    lock.lock();
  }
  if (is_cancelled) return fail(REPRISE_CANCELLED, "the callback ended the request");
  response = *call->response;
  return status_of(response);
}

/// The error in an event, if there is one: a stream reports its failure in an event.
std::optional<std::string> error_in(const Json& event) {
  const auto error = event.find("error");
  if (error == event.end()) return std::nullopt;
  return error->at("message").get<std::string>();
}

Json body_of(const char* prompt, const reprise_sampling& sampling) {
  Json body = {{"prompt", prompt}, {"stream", true}};
  const auto add = [&body](const char* name, auto value) {
    if (value >= 0) body[name] = value;
  };
  add("max_tokens", sampling.max_tokens);
  add("temperature", sampling.temperature);
  add("top_p", sampling.top_p);
  add("top_k", sampling.top_k);
  add("seed", sampling.seed);
  return body;
}

std::unique_ptr<reprise_engine> load(std::span<const char* const> texts,
                                     reprise_log_fn log,
                                     void* user) {
  std::vector<std::string> arguments;
  for (const char* text : texts) {
    require(text, "an argument");
    arguments.emplace_back(text);
  }
  reprise::api::EngineArgs args;
  reprise::cli::OptionTable table("reprise_load(MODEL, ...)", "Loads a model.");
  reprise::cli::add_engine_options(table, args);
  if (!reprise::cli::parse_model_command(table, arguments, "reprise_load", args.model)) {
    throw reprise::InvalidArgument("reprise_load: the options ask for help, not for a model");
  }
  args.program_version = reprise::cli::kVersion;
  auto engine = std::make_unique<reprise::api::AsyncEngine>(args);
  std::vector<std::string> notes = engine->startup_report().warnings;
  reprise::server::ServerOptions options;
  options.model.path = args.model.string();
  options.model.root = options.model.path;
  options.model.names = {options.model.path};
  options.generations.max_num_seqs = args.max_num_seqs;
  options.answers = reprise::server::resolve_parsers(
      options.answers,
      reprise::output_parsers::choose_parsers(engine->chat_template_samples()),
      notes);
  if (log != nullptr) {
    for (const std::string& note : notes) log(note.c_str(), user);
  }
  return std::make_unique<reprise_engine>(options, std::move(engine));
}

}  // namespace

extern "C" {

const char* reprise_version(void) { return reprise::cli::kVersion; }

const char* reprise_last_error(void) { return last_error().c_str(); }

void reprise_free(char* text) { std::free(text); }

reprise_status reprise_load(const char* const* arguments,
                            size_t num_arguments,
                            reprise_log_fn log,
                            void* user,
                            reprise_engine** engine) {
  return guarded([&] {
    require(engine, "engine");
    if (num_arguments > 0) require(arguments, "arguments");
    *engine = load({arguments, num_arguments}, log, user).release();
    return REPRISE_OK;
  });
}

void reprise_unload(reprise_engine* engine) { delete engine; }

reprise_sampling reprise_default_sampling(void) {
  return {.max_tokens = -1, .temperature = -1, .top_p = -1, .top_k = -1, .seed = -1};
}

reprise_status reprise_generate(reprise_engine* engine,
                                const char* prompt,
                                const reprise_sampling* sampling,
                                reprise_text_fn on_text,
                                void* user,
                                char** text) {
  return guarded([&] {
    require(engine, "engine");
    require(prompt, "prompt");
    const Json body = body_of(prompt, sampling == nullptr ? reprise_default_sampling() : *sampling);
    const std::shared_ptr<Call> call =
        start(*engine, "/v1/completions", reprise::server::dump(body).c_str());
    std::string whole;
    std::optional<std::string> problem;
    HttpResponse response;
    const reprise_status status = finish(
        *engine,
        call,
        [&](const std::string& json) {
          const Json event = Json::parse(json);
          if (auto error = error_in(event)) problem = std::move(error);
          if (problem || event["choices"].empty()) return true;
          const auto& piece = event["choices"][0]["text"].get_ref<const std::string&>();
          if (piece.empty()) return true;
          whole += piece;
          return on_text == nullptr || on_text(piece.c_str(), user) == 0;
        },
        response);
    if (status != REPRISE_OK) return status;
    if (problem) return fail(REPRISE_FAILED, std::move(*problem));
    if (text != nullptr) *text = copy_of(whole);
    return REPRISE_OK;
  });
}

reprise_status reprise_post(reprise_engine* engine,
                            const char* path,
                            const char* body,
                            reprise_event_fn on_event,
                            void* user,
                            char** answer) {
  return guarded([&] {
    require(engine, "engine");
    require(path, "path");
    require(body, "body");
    const Json parsed = Json::parse(body, nullptr, /*allow_exceptions=*/false);
    const bool is_stream = parsed.is_object() && parsed.value("stream", Json()) == true;
    if (is_stream) require(reinterpret_cast<const void*>(on_event), "on_event");
    std::optional<std::string> problem;
    HttpResponse response;
    const reprise_status status = finish(
        *engine,
        start(*engine, path, body),
        [&](const std::string& json) {
          if (auto error = error_in(Json::parse(json))) problem = std::move(error);
          return problem || on_event == nullptr || on_event(json.c_str(), user) == 0;
        },
        response);
    if (status != REPRISE_OK) return status;
    if (problem) return fail(REPRISE_FAILED, std::move(*problem));
    if (answer != nullptr && !is_stream) *answer = copy_of(response.body);
    return REPRISE_OK;
  });
}

reprise_status reprise_tokenize(reprise_engine* engine,
                                const char* text,
                                size_t num_bytes,
                                int add_special_tokens,
                                int32_t* ids,
                                size_t capacity,
                                size_t* count) {
  return guarded([&] {
    require(engine, "engine");
    require(text, "text");
    require(count, "count");
    if (capacity > 0) require(ids, "ids");
    const std::vector<int32_t> found = engine->engine->tokenizer().encode(
        {text, num_bytes}, {.add_special_tokens = add_special_tokens != 0});
    give<int32_t>(found, ids, capacity, count);
    return REPRISE_OK;
  });
}

reprise_status reprise_detokenize(reprise_engine* engine,
                                  const int32_t* ids,
                                  size_t count,
                                  char** text) {
  return guarded([&] {
    require(engine, "engine");
    require(text, "text");
    if (count > 0) require(ids, "ids");
    const reprise::tokenizer::Tokenizer& tokenizer = engine->engine->tokenizer();
    const std::vector<int32_t> tokens(ids, ids + count);
    for (const int32_t id : tokens) {
      if (id < 0 || id >= tokenizer.vocab_size()) {
        throw reprise::InvalidArgument("token id " + std::to_string(id) + " is out of vocabulary");
      }
    }
    *text = copy_of(tokenizer.decode(tokens, /*skip_special_tokens=*/false));
    return REPRISE_OK;
  });
}

reprise_status reprise_embed(
    reprise_engine* engine, const char* text, float* vector, size_t capacity, size_t* count) {
  return guarded([&] {
    require(engine, "engine");
    require(text, "text");
    require(count, "count");
    if (capacity > 0) require(vector, "vector");
    const std::string body = reprise::server::dump(Json{{"input", text}});
    HttpResponse response;
    const reprise_status status = finish(
        *engine,
        start(*engine, "/v1/embeddings", body.c_str()),
        [](const std::string&) { return true; },
        response);
    if (status != REPRISE_OK) return status;
    const auto numbers =
        Json::parse(response.body)["data"][0]["embedding"].get<std::vector<float>>();
    give<float>(numbers, vector, capacity, count);
    return REPRISE_OK;
  });
}

}  // extern "C"
