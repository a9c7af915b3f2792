#pragma once

#include <string_view>

#include "reprise/api/async_engine.h"
#include "reprise/server/http/router.h"
#include "reprise/server/openai/generation_service.h"
#include "reprise/server/openai/pooling_request.h"
#include "reprise/server/openai/prompt_encoder.h"
#include "reprise/server/openai/served_model.h"

namespace reprise::server {

/// Turns a request for vectors into a running one. The routes of all APIs share this code.
/// Constant, so thread-safe; admit() and the answers of prepare() run on the I/O thread.
class TextPooling {
 public:
  /// The arguments must outlive this object.
  TextPooling(const api::AsyncEngine& engine,
              GenerationService& generations,
              const ServedModel& model,
              const PromptEncoder& prompts);

  /// Whether the model can compute the answers of this route.
  [[nodiscard]] bool serves(PoolingApi api) const;
  /// Refuses a request before its body is processed. `name` is the API's name for people: "Score".
  /// \throws ApiError 400 when the model does not serve it; 429 and 503 when there is no room
  void admit(PoolingApi api, const char* name) const;
  /// Reads a body as parse_pooling_request() does and tokenizes its texts. The result starts the
  /// work. \throws ApiError, and the errors of PromptEncoder::encode
  [[nodiscard]] Answering prepare(std::string_view body,
                                  PoolingApi api,
                                  const HttpRequest& from) const;

 private:
  GenerationService* generations_;
  const ServedModel* model_;
  const PromptEncoder* prompts_;
  bool pools_;  // false: the model generates text
  PooledModel pooled_;
};

}  // namespace reprise::server
