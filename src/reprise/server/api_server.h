#pragma once

#include <cstdint>
#include <memory>

#include "reprise/api/async_engine.h"
#include "reprise/server/server_options.h"

namespace reprise::server {

/// Why a server ended.
enum class ServerEnd : uint8_t { signal, engine_death };

/// The OpenAI API as vLLM serves it, over one engine. Lives on the I/O thread, which is the thread
/// that calls run(); the engine's thread only posts to it.
class ApiServer {
 public:
  /// `engine` must outlive this. \throws InvalidArgument when the address cannot be had
  ApiServer(const ServerOptions& options, api::AsyncEngine& engine);
  ApiServer(const ApiServer&) = delete;
  ApiServer& operator=(const ApiServer&) = delete;
  ~ApiServer();

  [[nodiscard]] uint16_t port() const noexcept;
  /// Serves until SIGINT or SIGTERM; then /health says 503, running requests finish, and it
  /// returns. A second signal ends it at once. Returns likewise when the engine is dead, unless the
  /// options keep it.
  ServerEnd run();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace reprise::server
