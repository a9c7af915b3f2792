#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "reprise/api/async_engine.h"
#include "reprise/server/http/http_exchange.h"
#include "reprise/server/server_options.h"

namespace reprise::server {

/// The routes of ApiServer that answer requests, without sockets, for a program that already holds
/// the requests. All work happens on the thread that calls wait(); only run() is thread-safe.
class LocalApi {
 public:
  /// `engine` must outlive this object. Of `options`, only the model's names, the capacity and the
  /// options about requests and answers are read.
  LocalApi(const ServerOptions& options, api::AsyncEngine& engine);
  LocalApi(const LocalApi&) = delete;
  LocalApi& operator=(const LocalApi&) = delete;
  /// Aborts all requests that are not answered yet.
  ~LocalApi();

  using OnAnswer = std::function<void(const HttpResponse&)>;
  /// Gets an event of a stream in the form that a connection would send: "data: {...}
  ///
  /// ".
  using OnEvent = std::function<void(std::string_view)>;

  /// `on_answer` is called exactly once: during this call if the request is refused, else in a
  /// later wait(). Without `on_event` streams are refused; with it they end with an answer of
  /// status 200 without a body. Calling the returned function ends the request, and then
  /// `on_answer` gets status 499.
  std::function<void()> post(const std::string& path,
                             std::string body,
                             OnAnswer on_answer,
                             OnEvent on_event = {});
  /// Waits for an event of the engine or a task of run(), and handles it.
  void wait();
  /// Lets wait() run a task. Thread-safe.
  void run(std::function<void()> task);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace reprise::server
