#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "reprise/api/async_engine.h"
#include "reprise/server/http/http_exchange.h"
#include "reprise/server/server_options.h"

namespace reprise::server {

/// The routes of ApiServer without sockets, for a program that already holds the requests. All work
/// happens on the calling thread. Streaming requests are refused, because there is no connection.
class LocalApi {
 public:
  /// `engine` must outlive this. Only the model's names and the capacity are read from `options`.
  LocalApi(const ServerOptions& options, api::AsyncEngine& engine);
  LocalApi(const LocalApi&) = delete;
  LocalApi& operator=(const LocalApi&) = delete;
  /// Aborts the requests that are not answered yet.
  ~LocalApi();

  /// `post` answers exactly once: in this call when the request is refused, else in a later wait().
  void post(const std::string& path,
            std::string body,
            std::function<void(const HttpResponse&)> on_answer);
  /// Waits until the engine has produced an event and handles it.
  void wait();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace reprise::server
