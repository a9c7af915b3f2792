#include "reprise/server/dialects/ollama_routes.h"

#include <fmt/format.h>

#include <ctime>
#include <string>
#include <utility>

#include "reprise/server/dialects/ollama_answer.h"
#include "reprise/server/dialects/ollama_embed.h"
#include "reprise/server/dialects/ollama_request.h"
#include "reprise/server/dialects/translated_chat.h"
#include "reprise/server/openai/request_fields.h"

namespace reprise::server {
namespace {

/// The architecture and family that are reported for every model, because ollama's names for kinds
/// of models do not apply.
constexpr const char* kArchitecture = "reprise";

/// "270M", "1.2B"
std::string parameter_size(int64_t count) {
  const auto number = static_cast<double>(count);
  if (count >= 1'000'000'000) return fmt::format("{:.1f}B", number / 1e9);
  if (count >= 1'000'000) return fmt::format("{:.0f}M", number / 1e6);
  return fmt::format("{}K", count / 1000);
}

Json details_of(const TextGeneration& generation) {
  const api::StartupReport& report = generation.engine().startup_report();
  return {{"parent_model", ""},
          {"format", kArchitecture},
          {"family", kArchitecture},
          {"families", Json::array({kArchitecture})},
          {"parameter_size", parameter_size(report.num_parameters)},
          {"quantization_level", report.dtype}};
}

Json capabilities_of(const TextGeneration& generation) {
  if (generation.engine().startup_report().pooling) return Json::array({"embedding"});
  Json capabilities = Json::array({"completion"});
  const AnswerReaderOptions& answers = generation.answers();
  if (answers.enable_auto_tool_choice.value_or(false)) capabilities.push_back("tools");
  if (!answers.reasoning_parser.empty()) capabilities.push_back("thinking");
  return capabilities;
}

/// Every model name that a request may use, including adapters.
Json models_json(const TextGeneration& generation, bool are_running) {
  Json models = Json::array();
  for (const Json& model : generation.model().list()) {
    Json one = {{"name", model["id"]},
                {"model", model["id"]},
                {"size", generation.engine().startup_report().weight_bytes},
                {"digest", ""},
                {"details", details_of(generation)}};
    if (are_running) {
      one["context_length"] = generation.model().max_model_len();
      one["expires_at"] = "9999-12-31T23:59:59Z";  // never: there is one model
      one["size_vram"] = 0;
    } else {
      one["modified_at"] = rfc3339(model["created"].get<int64_t>());
    }
    models.push_back(std::move(one));
  }
  return {{"models", std::move(models)}};
}

Answering show(const TextGeneration& generation, const HttpRequest& request) {
  const Json body = parse_body(request.body);
  const RequestFields fields(body);
  generation.model().check(ollama_model(fields));
  Json answer = {
      {"modelfile", ""},
      {"parameters", ""},
      {"template", std::string(generation.engine().chat_template())},
      {"details", details_of(generation)},
      {"model_info",
       {{"general.architecture", kArchitecture},
        {"general.parameter_count", generation.engine().startup_report().num_parameters},
        {fmt::format("{}.context_length", kArchitecture), generation.model().max_model_len()}}},
      {"capabilities", capabilities_of(generation)}};
  return {
      [answer = dump(answer)](const ExchangeRef& exchange) { exchange->respond({.body = answer}); },
      fields.unused()};
}

/// The model of this server is always loaded, and stays so.
Answering answer_loaded(const TextGeneration& generation,
                        const RequestFields& fields,
                        OllamaForm form) {
  const std::string model = ollama_model(fields);
  generation.model().check(model);
  Json answer = {{"model", model},
                 {"created_at", rfc3339(std::time(nullptr))},
                 {"done", true},
                 {"done_reason", "load"}};
  if (form == OllamaForm::chat) {
    answer["message"] = {{"role", "assistant"}, {"content", ""}};
  } else {
    answer["response"] = "";
  }
  return {
      [answer = dump(answer)](const ExchangeRef& exchange) { exchange->respond({.body = answer}); },
      fields.unused()};
}

Answering prepare_answer(const TextGeneration& generation,
                         const HttpRequest& request,
                         OllamaForm form) {
  const auto arrived = std::chrono::steady_clock::now();
  const Json body = parse_body(request.body);
  const RequestFields fields(body);
  if (asks_ollama_to_load(fields, form)) return answer_loaded(generation, fields, form);
  TranslatedChat chat =
      form == OllamaForm::chat ? read_ollama_chat(body) : read_ollama_generate(body);
  return prepare_translated(generation, std::move(chat), request, arrived);
}

void add_answers(Router& router, const std::shared_ptr<const TextGeneration>& generation) {
  const auto add = [&](const char* path, const char* schema, const char* summary, OllamaForm form) {
    router.add({.method = "POST",
                .path = path,
                .body_schema = schema,
                .answer_types = {"application/json", "application/x-ndjson"},
                .summary = summary,
                .handle = [generation](const HttpRequest&,
                                       const ExchangeRef&) { generation->admit("Chat"); },
                .prepare =
                    [generation, form](const HttpRequest& request) {
                      return prepare_answer(*generation, request, form);
                    },
                .reshape_error = ollama_error});
  };
  add("/api/chat", "OllamaChatRequest", "Answers a chat of ollama's API.", OllamaForm::chat);
  add("/api/generate",
      "OllamaGenerateRequest",
      "Answers a prompt of ollama's API.",
      OllamaForm::generate);
}

void add_vectors(Router& router, const std::shared_ptr<const TextPooling>& pooling) {
  const auto add =
      [&](const char* path, const char* schema, const char* summary, OllamaVectors form) {
        router.add({.method = "POST",
                    .path = path,
                    .body_schema = schema,
                    .summary = summary,
                    .handle =
                        [pooling](const HttpRequest&, const ExchangeRef&) {
                          pooling->admit(PoolingApi::embeddings, "Embeddings");
                        },
                    .prepare =
                        [pooling, form](const HttpRequest& request) {
                          return prepare_ollama_vectors(*pooling, form, request);
                        },
                    .reshape_error = ollama_error,
                    .is_described = pooling->serves(PoolingApi::embeddings)});
      };
  add("/api/embed",
      "OllamaEmbedRequest",
      "A vector of each text, for clients of ollama's API.",
      OllamaVectors::embed);
  add("/api/embeddings",
      "OllamaEmbeddingsRequest",
      "The vector of a text, for older clients of ollama's API.",
      OllamaVectors::embeddings);
}

}  // namespace

void add_ollama_routes(Router& router,
                       const std::shared_ptr<const TextGeneration>& generation,
                       const std::shared_ptr<const TextPooling>& pooling,
                       const std::string& version) {
  add_vectors(router, pooling);
  add_answers(router, generation);
  const auto add_json = [&router](const char* path, const char* summary, const auto& make) {
    router.add({.method = "GET",
                .path = path,
                .summary = summary,
                .handle =
                    [make](const HttpRequest&, const ExchangeRef& exchange) {
                      exchange->respond({.body = dump(make())});
                    },
                .reshape_error = ollama_error});
  };
  add_json("/api/tags", "The models, for clients of ollama's API.", [generation] {
    return models_json(*generation, /*are_running=*/false);
  });
  add_json("/api/ps", "The models that are loaded, for clients of ollama's API.", [generation] {
    return models_json(*generation, /*are_running=*/true);
  });
  add_json("/api/version", "The version, for clients of ollama's API.", [version] {
    return Json{{"version", version}};
  });
  router.add(
      {.method = "POST",
       .path = "/api/show",
       .body_schema = "OllamaShowRequest",
       .summary = "One model, for clients of ollama's API.",
       .prepare = [generation](const HttpRequest& request) { return show(*generation, request); },
       .reshape_error = ollama_error});
}

}  // namespace reprise::server
