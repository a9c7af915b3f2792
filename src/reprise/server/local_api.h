#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "reprise/api/async_engine.h"
#include "reprise/server/http/http_exchange.h"
#include "reprise/server/server_options.h"

namespace reprise::server {

/// The routes of ApiServer without sockets, for a program that has the requests itself. Everything
/// happens on the thread that calls it. Streams are refused: there is nobody to stream to.
class LocalApi {
 public:
  /// `engine` must outlive this. Of `options` only the model's names and the capacity count.
  LocalApi(const ServerOptions& options, api::AsyncEngine& engine);
  LocalApi(const LocalApi&) = delete;
  LocalApi& operator=(const LocalApi&) = delete;
  /// Aborts what is not answered.
  ~LocalApi();

  /// Answers once: in this call (what is refused) or in a later wait().
  void post(const std::string& path,
            std::string body,
            std::function<void(const HttpResponse&)> on_answer);
  /// Waits until the engine has brought something and handles it.
  void wait();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace reprise::server
