#include "reprise/server/openai/pooling_request.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <initializer_list>
#include <iterator>
#include <string_view>
#include <utility>

#include "reprise/server/http/api_error.h"
#include "reprise/server/openai/request_fields.h"

namespace reprise::server {
namespace {

/// Fields of OpenAI's or vLLM's API that would change the answer. A request with such a field is
/// refused, unless its value asks for what this server does anyway.
struct UnsupportedForVectors {
  const char* name;
  std::array<std::string_view, 3> harmless;  // values as JSON; so are null, 0, "", [] and {}
  const char* instead;
};

constexpr UnsupportedForVectors kUnsupportedForVectors[] = {
    {"chat_template_kwargs", {}, "Texts are read without a chat template."},
    {"embed_dtype", {R"("float32")"}, "Numbers are float32."},
    {"endianness", {R"("native")", R"("little")"}, "The bytes of a number are little-endian."},
    {"instruction", {}, "Write it into the texts."},
    {"max_tokens_per_doc", {}, "Use `truncate_prompt_tokens`."},
    {"max_tokens_per_query", {}, "Use `truncate_prompt_tokens`."},
    {"media_io_kwargs", {}, "Inputs are texts or token ids."},
    {"messages", {}, "Inputs are texts or token ids."},
    {"mm_processor_kwargs", {}, "Inputs are texts or token ids."},
    {"padding", {R"("do_not_pad")"}, "Texts are never padded."},
};

/// /pooling answers with what the model makes, so the task must be that.
void check_task(const RequestFields& fields, const PooledModel& model) {
  const std::string_view only = model.classifier != nullptr ? "classify" : "embed";
  const std::optional<std::string> task = fields.text("task");
  if (!task || *task == only) return;
  refuse_unsupported("task",
                     fmt::format("The task `{}`", task->substr(0, 64)),
                     fmt::format("This model has the task `{}`.", only));
}

void refuse_unsupported_vectors(const RequestFields& fields) {
  for (const UnsupportedForVectors& field : kUnsupportedForVectors) {
    const Json* value = fields.find(field.name);
    if (value == nullptr || *value == 0 || asks_for_nothing(*value)) continue;
    const std::string text = dump(*value);
    if (std::ranges::find(field.harmless, text) != field.harmless.end()) continue;
    refuse_unsupported(field.name, {}, field.instead);
  }
}

/// Reads the length of vectors, which must be one that the model allows. Source: vLLM's
/// PoolingParams.
void read_dimensions(const RequestFields& fields,
                     const PooledModel& model,
                     PoolingParameters& parameters) {
  const std::optional<int64_t> length = fields.integer("dimensions");
  if (!length) return;
  const auto refuse = [](const std::string& message) {
    throw ApiError(400, message, "dimensions");
  };
  if (model.matryoshka == nullptr) {
    refuse(
        "The model does not support `dimensions`: its vectors may not be cut. A model's "
        "config.json "
        "allows it with is_matryoshka, and so does --hf-overrides '{\"is_matryoshka\": true}'.");
  }
  const weights::MatryoshkaConfig& allowed = *model.matryoshka;
  if (*length < 1 || *length > allowed.longest) {
    refuse(fmt::format("dimensions is {}, expected 1..{}.", *length, allowed.longest));
  }
  const bool is_known = allowed.lengths.empty() ||
                        std::ranges::find(allowed.lengths, *length) != allowed.lengths.end();
  if (!is_known) {
    refuse(fmt::format(
        "dimensions is {}, expected one of {}.", *length, fmt::join(allowed.lengths, ", ")));
  }
  parameters.dimensions = static_cast<size_t>(*length);
}

/// The name that the body uses for this member: vLLM has several names for the texts of a score.
std::string_view present_name(const RequestFields& fields,
                              std::initializer_list<std::string_view> names) {
  for (const std::string_view name : names) {
    if (fields.find(name) != nullptr) return name;
  }
  return *names.begin();
}

std::vector<std::string> read_texts(const RequestFields& fields, std::string_view name) {
  if (fields.find(name) == nullptr) {
    throw ApiError(400, fmt::format("Field required: {}.", name), std::string(name));
  }
  std::vector<std::string> texts = fields.texts(name);
  if (texts.empty() || texts.size() > kMaxTexts) {
    throw ApiError(400,
                   fmt::format("{} has {} texts, expected 1..{}.", name, texts.size(), kMaxTexts),
                   std::string(name));
  }
  return texts;
}

void read_encoding(const RequestFields& fields, PoolingParameters& parameters) {
  const std::string format = fields.text("encoding_format").value_or("float");
  if (format != "float" && format != "base64") {
    throw ApiError(400, "encoding_format must be \"float\" or \"base64\".", "encoding_format");
  }
  parameters.is_base64 = format == "base64";
}

// Reads the texts that are compared: first the queries, then the others.
void read_pairs(const RequestFields& fields,
                std::string_view queries_name,
                std::string_view others_name,
                GenerationRequest& request) {
  std::vector<std::string> queries = read_texts(fields, queries_name);
  std::vector<std::string> others = read_texts(fields, others_name);
  if (queries.size() != 1 && queries.size() != others.size()) {
    throw ApiError(400,
                   fmt::format("{} has {} texts and {} has {}; expected one, or equally many.",
                               queries_name,
                               queries.size(),
                               others_name,
                               others.size()),
                   std::string(queries_name));
  }
  request.pooling->num_queries = queries.size();
  if (request.pooling->api == PoolingApi::rerank) request.pooling->documents = others;
  for (std::vector<std::string>* texts : {&queries, &others}) {
    std::move(texts->begin(), texts->end(), std::back_inserter(request.prompts));
  }
}

void read_top_n(const RequestFields& fields, PoolingParameters& parameters) {
  const std::optional<int64_t> top_n = fields.integer("top_n");
  if (!top_n) return;
  if (*top_n < 0) {
    throw ApiError(400, fmt::format("top_n is {}, expected at least 0.", *top_n), "top_n");
  }
  if (*top_n > 0) parameters.top_n = static_cast<size_t>(*top_n);  // 0: all, as in vLLM
}

}  // namespace

GenerationRequest parse_pooling_request(std::string_view body,
                                        PoolingApi api,
                                        const PooledModel& model) {
  const Json json = parse_body(body);
  const RequestFields fields(json);
  refuse_unsupported_vectors(fields);
  if (api == PoolingApi::pooling) check_task(fields, model);
  GenerationRequest request;
  request.model = read_model_name(fields);
  request.pooling =
      PoolingParameters{.api = api, .normalizes = model.normalizes, .classifier = model.classifier};
  switch (api) {
    case PoolingApi::embeddings:
    case PoolingApi::pooling:
      request.prompts = read_prompts(fields, "input", kMaxTexts);
      read_encoding(fields, *request.pooling);
      read_dimensions(fields, model, *request.pooling);
      break;
    case PoolingApi::classify:
      request.prompts = read_prompts(fields, "input", kMaxTexts);
      break;
    case PoolingApi::score:
      read_pairs(fields,
                 present_name(fields, {"text_1", "queries", "data_1"}),
                 present_name(fields, {"text_2", "documents", "items", "data_2"}),
                 request);
      break;
    case PoolingApi::rerank:
      read_pairs(fields, "query", "documents", request);
      read_top_n(fields, *request.pooling);
      break;
  }
  // vLLM has renamed this field twice.
  for (const char* name : {"normalize", "activation", "use_activation"}) {
    if (const auto wanted = fields.boolean(name)) request.pooling->normalizes = *wanted;
  }
  // The vector counts as one token that is never computed.
  request.params.temperature = 0;
  request.params.max_tokens = 1;
  request.params.ignore_eos = true;
  read_request_options(fields, request.options);
  read_truncation(fields, request.truncation);
  request.truncation.keeps_end = fields.text("truncation_side").value_or("right") == "left";
  request.request_id = read_request_id(fields);
  request.add_special_tokens = fields.boolean("add_special_tokens").value_or(true);
  request.unused_fields = fields.unused();
  return request;
}

}  // namespace reprise::server
