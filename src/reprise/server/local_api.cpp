#include "reprise/server/local_api.h"

#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <utility>

#include "reprise/server/http/api_error.h"
#include "reprise/server/http/router.h"
#include "reprise/server/http/unused_fields.h"
#include "reprise/server/openai/generation_routes.h"
#include "reprise/server/openai/generation_service.h"
#include "reprise/server/openai/pooling_routes.h"
#include "reprise/server/openai/prompt_encoder.h"
#include "reprise/server/openai/served_model.h"

namespace reprise::server {
namespace {

/// A queue of tasks: any thread posts them, one thread runs them.
class TaskQueue {
 public:
  void post(std::function<void()> task) {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
    has_tasks_.notify_one();
  }
  void run_one() {
    std::unique_lock lock(mutex_);
    has_tasks_.wait(lock, [this] { return !tasks_.empty(); });
    const std::function<void()> task = std::move(tasks_.front());
    tasks_.pop_front();
    lock.unlock();
    task();
  }

 private:
  std::mutex mutex_;
  std::condition_variable has_tasks_;
  std::deque<std::function<void()>> tasks_;
};

class LocalExchange : public HttpExchange {
 public:
  LocalExchange(LocalApi::OnAnswer on_answer, LocalApi::OnEvent on_event)
      : on_answer_(std::move(on_answer)), on_event_(std::move(on_event)) {}

  void respond(HttpResponse response) override {
    const auto on_answer = std::exchange(on_answer_, nullptr);
    // The caller's functions may own an object that owns this exchange.
    on_event_ = nullptr;
    if (on_answer) on_answer(response);
  }
  void begin_stream(const HttpResponse&) override {
    if (on_event_) return;
    end(error_response(ApiError(400, "Request must not be sent in stream mode", "stream")));
  }
  void write(std::string_view bytes) override {
    if (on_answer_ && on_event_) on_event_(bytes);
  }
  void finish_stream() override { respond({}); }
  void on_disconnect(std::function<void()> callback) override {
    on_disconnect_ = std::move(callback);
  }
  [[nodiscard]] bool client_is_gone() const override { return !on_answer_; }
  void note(AnswerFacts) override {}  // a file of requests has no access log

  /// Answers in place of the generation, which is told that its client has disconnected.
  void end(HttpResponse response) {
    if (client_is_gone()) return;
    respond(std::move(response));
    const auto callback = std::exchange(on_disconnect_, nullptr);
    if (callback) callback();
  }

 private:
  LocalApi::OnAnswer on_answer_;
  LocalApi::OnEvent on_event_;
  std::function<void()> on_disconnect_;
};

}  // namespace

struct LocalApi::Impl {
  Impl(const ServerOptions& options, api::AsyncEngine& engine)
      : log(options.generations.log),
        unused_fields(log),
        model(options.model, engine.startup_report().max_model_len, engine.adapters()),
        prompts(engine),
        generations(options.generations, engine, model, [this](std::function<void()> task) {
          tasks.post(std::move(task));
        }) {
    add_generation_routes(
        router,
        std::make_shared<TextGeneration>(
            engine, generations, model, prompts, options.answers, options.requests));
    add_pooling_routes(router, std::make_shared<TextPooling>(engine, generations, model, prompts));
  }

  TaskQueue tasks;  // the engine's thread posts to the queue until `generations` is destroyed
  Log log;
  UnusedFields unused_fields;
  ServedModel model;
  PromptEncoder prompts;
  Router router;
  GenerationService generations;
};

LocalApi::LocalApi(const ServerOptions& options, api::AsyncEngine& engine)
    : impl_(std::make_unique<Impl>(options, engine)) {}
LocalApi::~LocalApi() = default;

std::function<void()> LocalApi::post(const std::string& path,
                                     std::string body,
                                     OnAnswer on_answer,
                                     OnEvent on_event) {
  const auto exchange = std::make_shared<LocalExchange>(std::move(on_answer), std::move(on_event));
  HttpRequest request{
      .method = "POST", .path = path, .content_type = "application/json", .body = std::move(body)};
  try {
    const Route& route = impl_->router.find(request);
    if (route.handle) route.handle(request, exchange);
    if (route.prepare) {
      const Answering answering = route.prepare(request);
      answering.answer(impl_->unused_fields.tell(answering.unused_fields, exchange));
    }
  } catch (const std::exception& error) {
    exchange->respond(error_response(to_api_error(error, impl_->model, impl_->log)));
  }
  return [exchange] { exchange->end({.status = 499, .body = "", .headers = {}}); };
}

void LocalApi::wait() { impl_->tasks.run_one(); }

void LocalApi::run(std::function<void()> task) { impl_->tasks.post(std::move(task)); }

}  // namespace reprise::server
