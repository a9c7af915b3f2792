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
  explicit LocalExchange(std::function<void(const HttpResponse&)> on_answer)
      : on_answer_(std::move(on_answer)) {}

  void respond(HttpResponse response) override {
    const auto on_answer = std::exchange(on_answer_, nullptr);
    if (on_answer) on_answer(response);
  }
  void begin_stream(const HttpResponse&) override {
    respond(error_response(ApiError(400, "Request must not be sent in stream mode", "stream")));
    // The stream was refused, so the generation is told that its client is gone.
    const auto callback = std::exchange(on_disconnect_, nullptr);
    if (callback) callback();
  }
  void write(std::string_view) override {}
  void finish_stream() override {}
  void on_disconnect(std::function<void()> callback) override {
    on_disconnect_ = std::move(callback);
  }
  [[nodiscard]] bool client_is_gone() const override { return !on_answer_; }

 private:
  std::function<void(const HttpResponse&)> on_answer_;
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
    add_pooling_routes(router, engine, generations, model, prompts);
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

void LocalApi::post(const std::string& path,
                    std::string body,
                    std::function<void(const HttpResponse&)> on_answer) {
  const auto exchange = std::make_shared<LocalExchange>(std::move(on_answer));
  HttpRequest request{
      .method = "POST", .path = path, .content_type = "application/json", .body = std::move(body)};
  try {
    const Route& route = impl_->router.find(request);
    if (route.handle) route.handle(request, exchange);
    if (!route.prepare) return;
    const Answering answering = route.prepare(request);
    answering.answer(impl_->unused_fields.tell(answering.unused_fields, exchange));
  } catch (const std::exception& error) {
    exchange->respond(error_response(to_api_error(error, impl_->model, impl_->log)));
  }
}

void LocalApi::wait() { impl_->tasks.run_one(); }

}  // namespace reprise::server
