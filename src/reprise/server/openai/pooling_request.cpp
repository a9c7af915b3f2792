#include "reprise/server/openai/pooling_request.h"

#include <fmt/format.h>

#include <array>
#include <iterator>
#include <utility>

#include "reprise/server/http/api_error.h"
#include "reprise/server/openai/request_fields.h"

namespace reprise::server {
namespace {

// These fields belong to OpenAI's or vLLM's API and would change the answer.
constexpr std::array kUnsupported = {
    "dimensions", "messages", "mm_processor_kwargs", "task", "embed_dtype", "endianness"};

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

void read_encoding(const RequestFields& fields, PoolingWish& wish) {
  const std::string format = fields.text("encoding_format").value_or("float");
  if (format != "float" && format != "base64") {
    throw ApiError(400, "encoding_format must be \"float\" or \"base64\".", "encoding_format");
  }
  wish.is_base64 = format == "base64";
}

// The texts that are compared: queries, then the others.
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

void read_top_n(const RequestFields& fields, PoolingWish& wish) {
  const std::optional<int64_t> top_n = fields.integer("top_n");
  if (!top_n) return;
  if (*top_n < 0) {
    throw ApiError(400, fmt::format("top_n is {}, expected at least 0.", *top_n), "top_n");
  }
  if (*top_n > 0) wish.top_n = static_cast<size_t>(*top_n);  // 0: all, as in vLLM
}

}  // namespace

GenerationRequest parse_pooling_request(std::string_view body,
                                        PoolingApi api,
                                        const PooledModel& model) {
  const Json json = parse_body(body);
  const RequestFields fields(json);
  for (const char* name : kUnsupported) {
    if (fields.find(name) != nullptr) refuse_unsupported(name);
  }
  GenerationRequest request;
  request.model = fields.text("model");
  request.pooling =
      PoolingWish{.api = api, .normalizes = model.normalizes, .classifier = model.classifier};
  switch (api) {
    case PoolingApi::embeddings:
    case PoolingApi::pooling:
      request.prompts = read_prompts(fields, "input", kMaxTexts);
      read_encoding(fields, *request.pooling);
      break;
    case PoolingApi::classify:
      request.prompts = read_prompts(fields, "input", kMaxTexts);
      break;
    case PoolingApi::score:
      read_pairs(fields, "text_1", "text_2", request);
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
  return request;
}

}  // namespace reprise::server
