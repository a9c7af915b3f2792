#pragma once

#include <cstdint>
#include <memory>

#include "reprise/api/async_engine.h"
#include "reprise/server/server_options.h"

namespace reprise::server {

/// The OpenAI API in vLLM's form, over one engine. The server lives on the I/O thread, which is the
/// thread that calls run(); the engine's thread only posts tasks to it.
class ApiServer {
 public:
  /// `engine` must outlive this. \throws InvalidArgument when the server cannot listen on the
  /// address
  ApiServer(const ServerOptions& options, api::AsyncEngine& engine);
  ApiServer(const ApiServer&) = delete;
  ApiServer& operator=(const ApiServer&) = delete;
  ~ApiServer();

  [[nodiscard]] uint16_t port() const noexcept;
  /// Serves until SIGINT, SIGTERM or SIGHUP. After the signal /health answers 503, running requests
  /// finish, and run() returns. A second signal ends run() at once. run() also returns when the
  /// engine is dead, unless the options keep the server alive.
  ServerEnd run();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace reprise::server
