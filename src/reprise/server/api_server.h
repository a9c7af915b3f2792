#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "reprise/api/async_engine.h"
#include "reprise/server/http_server.h"

namespace reprise::server {

struct ServerOptions {
  std::string host = "127.0.0.1";
  uint16_t port = 8000;                         // 0: the system chooses
  std::vector<std::string> served_model_names;  // aliases of one model; the first is reported
  std::string model_root;                       // what /v1/models says the model was loaded from
  std::string model_path;                       // never shown: cut out of messages
  std::string version;
  std::vector<std::string> api_keys;  // empty: everyone may ask
  bool allow_unauthenticated = false;
  int32_t max_num_seqs = 256;          // of the engine
  int32_t max_waiting_requests = 256;  // beyond those: 429
  int shutdown_timeout_seconds = 30;   // for running requests after SIGTERM
  HttpLimits limits;
};

/// \throws InvalidArgument when the options would open the server to others without a key
void check_exposure(const ServerOptions& options);

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
  /// returns. A second signal ends it at once.
  void run();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace reprise::server
