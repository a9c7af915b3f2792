#pragma once

#include "reprise/api/async_engine.h"
#include "reprise/server/http/router.h"
#include "reprise/server/openai/generation_service.h"
#include "reprise/server/openai/prompt_encoder.h"
#include "reprise/server/openai/served_model.h"

namespace reprise::server {

/// Turns a checked request for text into a running generation. The routes of all APIs share this
/// code. Constant, so thread-safe; admit() and the answers of prepare() run on the I/O thread.
class TextGeneration {
 public:
  /// The borrowed arguments must outlive this object. The sampling parameters in `policy` are
  /// ignored: the engine's recommended ones replace them.
  TextGeneration(const api::AsyncEngine& engine,
                 GenerationService& generations,
                 const ServedModel& model,
                 const PromptEncoder& prompts,
                 AnswerReaderOptions answers,
                 RequestPolicy policy);

  /// The values of absent fields, for the functions that read requests.
  [[nodiscard]] const RequestPolicy& policy() const noexcept { return policy_; }
  [[nodiscard]] const AnswerReaderOptions& answers() const noexcept { return answers_; }
  [[nodiscard]] const api::AsyncEngine& engine() const noexcept { return *engine_; }
  [[nodiscard]] const ServedModel& model() const noexcept { return *model_; }

  /// Refuses a request before its body is processed. `api` is a name for people: "Completions".
  /// \throws ApiError 400 when the model generates no text; 429 and 503 when there is no room
  void admit(const char* api) const;
  /// Chooses the parsers of the answer and tokenizes the prompts. The result starts the generation.
  /// \throws ApiError, and the errors of PromptEncoder::encode
  [[nodiscard]] Answering prepare(GenerationRequest wanted,
                                  const HttpRequest& from,
                                  api::TimePoint arrived) const;

 private:
  const api::AsyncEngine* engine_;
  GenerationService* generations_;
  const ServedModel* model_;
  const PromptEncoder* prompts_;
  AnswerReaderOptions answers_;
  RequestPolicy policy_;
};

}  // namespace reprise::server
