#include "reprise/server/openai/pooling_answer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <span>
#include <utility>

#include "reprise/api/pooled_values.h"

namespace reprise::server {
namespace {

// The number of vector elements that the I/O thread writes in about a millisecond.
constexpr size_t kMaxInlineNumbers = 20'000;

std::string base64(std::span<const float> values) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::vector<unsigned char> bytes(values.size_bytes());
  std::memcpy(bytes.data(), values.data(), bytes.size());
  std::string text;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const size_t count = std::min<size_t>(3, bytes.size() - i);
    uint32_t group = 0;
    for (size_t k = 0; k < 3; ++k) group = group << 8 | (k < count ? bytes[i + k] : 0U);
    for (size_t k = 0; k < 4; ++k) {
      text += k <= count ? kDigits[group >> (18 - 6 * k) & 63] : '=';
    }
  }
  return text;
}

}  // namespace

std::string_view pooling_id_prefix(PoolingApi api) noexcept {
  switch (api) {
    case PoolingApi::embeddings:
      return "embd-";
    case PoolingApi::pooling:
      return "pool-";
    case PoolingApi::score:
      return "score-";
    case PoolingApi::classify:
      return "classify-";
    case PoolingApi::rerank:
      break;
  }
  return "rerank-";
}

PoolingAnswer::PoolingAnswer(PoolingParameters parameters,
                             AnswerHead head,
                             std::string request_id,
                             Usage usage,
                             ExchangeRef exchange)
    : parameters_(std::move(parameters)),
      head_(std::move(head)),
      request_id_(std::move(request_id)),
      usage_(usage),
      exchange_(std::move(exchange)) {}

void PoolingAnswer::take(int index, const engine::OutputDelta& delta) {
  if (!delta.finished) return;
  const auto i = static_cast<size_t>(index);
  vectors_.resize(std::max(vectors_.size(), i + 1));
  vectors_[i] = api::pooled_values(
      delta.pooled, parameters_.classifier, parameters_.dimensions, parameters_.normalizes);
  if (usage_.cached_tokens) *usage_.cached_tokens += delta.num_cached_tokens;
}

bool PoolingAnswer::is_large() const {
  size_t num_numbers = 0;
  for (const std::vector<float>& vector : vectors_) num_numbers += vector.size();
  return num_numbers > kMaxInlineNumbers;
}

HttpResponse PoolingAnswer::whole() {
  std::string body;
  switch (parameters_.api) {
    case PoolingApi::embeddings:
    case PoolingApi::pooling:
      body = vectors_json();
      break;
    case PoolingApi::score:
      body = scores_json();
      break;
    case PoolingApi::classify:
      body = labels_json();
      break;
    case PoolingApi::rerank:
      body = ranking_json();
      break;
  }
  return {.body = std::move(body), .headers = {{kRequestIdHeader, request_id_}}};
}

// Written directly as text, because a list of numbers in Json takes 16 bytes for each.
std::string PoolingAnswer::vectors_json() const {
  const bool is_embedding = parameters_.api == PoolingApi::embeddings;
  const char* const name = is_embedding ? "embedding" : "data";
  std::string data;
  for (size_t i = 0; i < vectors_.size(); ++i) {
    data += fmt::format(R"({}{{"index":{},"object":"{}","{}":)",
                        i == 0 ? "" : ",",
                        i,
                        is_embedding ? "embedding" : "pooling",
                        name);
    data += parameters_.is_base64 ? fmt::format(R"("{}"}})", base64(vectors_[i]))
                                  : fmt::format("[{}]}}", fmt::join(vectors_[i], ","));
  }
  return fmt::format(
      R"({{"id":{},"object":"list","created":{},"model":{},"data":[{}],"usage":{}}})",
      dump(Json(head_.id)),
      head_.created,
      dump(Json(head_.model)),
      data,
      dump(to_json(usage_)));
}

std::vector<double> PoolingAnswer::scores() const {
  if (parameters_.compares_pairs()) {
    std::vector<double> scores;
    for (const std::vector<float>& vector : vectors_) scores.push_back(vector[0]);
    return scores;
  }
  const std::span<const std::vector<float>> all(vectors_);
  const auto queries = all.first(parameters_.num_queries);
  const auto others = all.subspan(parameters_.num_queries);
  std::vector<double> scores;
  for (size_t i = 0; i < std::max(queries.size(), others.size()); ++i) {
    scores.push_back(api::cosine(queries[queries.size() == 1 ? 0 : i], others[i]));
  }
  return scores;
}

std::string PoolingAnswer::list_json(Json data) const {
  return dump({{"id", head_.id},
               {"object", "list"},
               {"created", head_.created},
               {"model", head_.model},
               {"data", std::move(data)},
               {"usage", to_json(usage_)}});
}

std::string PoolingAnswer::scores_json() const {
  Json data = Json::array();
  const std::vector<double> all = scores();
  for (size_t i = 0; i < all.size(); ++i) {
    data.push_back({{"index", i}, {"object", "score"}, {"score", all[i]}});
  }
  return list_json(std::move(data));
}

std::string PoolingAnswer::labels_json() const {
  Json data = Json::array();
  for (size_t i = 0; i < vectors_.size(); ++i) {
    const auto best = std::ranges::max_element(vectors_[i]) - vectors_[i].begin();
    data.push_back({{"index", i},
                    {"label", parameters_.classifier->labels.at(static_cast<size_t>(best))},
                    {"probs", vectors_[i]},
                    {"num_classes", vectors_[i].size()}});
  }
  return list_json(std::move(data));
}

std::string PoolingAnswer::ranking_json() const {
  const std::vector<double> all = scores();
  std::vector<size_t> order(all.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return all[a] > all[b]; });
  order.resize(std::min(order.size(), parameters_.top_n.value_or(order.size())));
  Json results = Json::array();
  for (const size_t i : order) {
    results.push_back({{"index", i},
                       {"document", {{"text", parameters_.documents[i]}}},
                       {"relevance_score", all[i]}});
  }
  return dump(
      {{"id", head_.id},
       {"model", head_.model},
       {"usage", {{"prompt_tokens", usage_.prompt_tokens}, {"total_tokens", usage_.prompt_tokens}}},
       {"results", std::move(results)}});
}

void PoolingAnswer::fail(const ApiError& error) {
  HttpResponse response = error_response(error);
  response.headers.emplace_back(kRequestIdHeader, request_id_);
  exchange_->respond(std::move(response));
}

}  // namespace reprise::server
