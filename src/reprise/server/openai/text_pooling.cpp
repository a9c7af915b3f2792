#include "reprise/server/openai/text_pooling.h"

#include <fmt/format.h>

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "reprise/server/http/api_error.h"

namespace reprise::server {
namespace {

PooledModel pooled_model(const api::StartupReport& report) {
  const auto& classifier = report.classifier;
  return {.normalizes = classifier || (report.pooling && report.pooling->normalizes),
          .classifier = classifier ? &*classifier : nullptr,
          .matryoshka = report.matryoshka ? &*report.matryoshka : nullptr};
}

/// Errors name the field that has the texts, as far as it is one.
std::vector<EncodedPrompt> encode(const PromptEncoder& prompts,
                                  const GenerationRequest& wanted,
                                  PoolingApi api,
                                  const HttpRequest& from) {
  static constexpr FieldName kTextNames[] = {{"prompt", "input"}};
  const bool is_input = api != PoolingApi::score && api != PoolingApi::rerank;
  try {
    return prompts.encode(wanted, from.work);
  } catch (const ApiError& error) {
    throw in_words_of_client(error,
                             is_input ? std::span(kTextNames) : std::span<const FieldName>());
  }
}

}  // namespace

TextPooling::TextPooling(const api::AsyncEngine& engine,
                         GenerationService& generations,
                         const ServedModel& model,
                         const PromptEncoder& prompts)
    : generations_(&generations),
      model_(&model),
      prompts_(&prompts),
      pools_(engine.startup_report().pooling.has_value()),
      pooled_(pooled_model(engine.startup_report())) {}

// A classifier gives probabilities of labels, and a score if it has only one label. Source: vLLM
// 0.32.
bool TextPooling::serves(PoolingApi api) const {
  const weights::ClassifierConfig* classifier = pooled_.classifier;
  if (!pools_) return false;
  if (api == PoolingApi::pooling) return true;
  if (api == PoolingApi::classify) return classifier != nullptr;
  if (classifier == nullptr) return true;
  return api != PoolingApi::embeddings && classifier->num_labels == 1;
}

void TextPooling::admit(PoolingApi api, const char* name) const {
  if (!serves(api)) {
    throw ApiError(400, fmt::format("The model does not support {} API", name));
  }
  generations_->check_room(1);
}

Answering TextPooling::prepare(std::string_view body,
                               PoolingApi api,
                               const HttpRequest& from) const {
  const api::TimePoint arrived = std::chrono::steady_clock::now();
  GenerationRequest wanted = parse_pooling_request(body, api, pooled_);
  wanted.client = from.client;
  wanted.trace_parent = from.trace_parent;
  model_->check(wanted.model);
  std::vector<EncodedPrompt> encoded = encode(*prompts_, wanted, api, from);
  std::vector<std::string> unused_fields = std::move(wanted.unused_fields);
  return {[generations = generations_,
           encoded = std::move(encoded),
           wanted = std::move(wanted),
           request_id = from.request_id,
           arrived](const ExchangeRef& exchange) {
            generations->start(wanted, encoded, request_id, exchange, arrived);
          },
          std::move(unused_fields)};
}

}  // namespace reprise::server
