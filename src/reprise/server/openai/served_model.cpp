#include "reprise/server/openai/served_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <ctime>

#include "reprise/base/assert.h"
#include "reprise/base/error.h"
#include "reprise/server/openai/responses.h"

namespace reprise::server {

ServedModel::ServedModel(const ServedModelOptions& options, int32_t max_model_len)
    : names_(options.names),
      root_(options.root),
      path_(options.path),
      max_model_len_(max_model_len),
      created_(std::time(nullptr)) {
  REPRISE_ASSERT(!names_.empty(), "a server needs a name for its model");
}

void ServedModel::check(const std::optional<std::string>& name) const {
  if (!name || std::find(names_.begin(), names_.end(), *name) != names_.end()) return;
  throw ApiError(404, fmt::format("The model `{}` does not exist.", name->substr(0, 256)), "model");
}

Json ServedModel::to_json(std::string_view name) const {
  return model_json(name, root_, created_, max_model_len_);
}

std::string ServedModel::without_path(std::string text) const {
  if (path_.empty()) return text;
  for (size_t at = 0; (at = text.find(path_, at)) != std::string::npos;) {
    text.replace(at, path_.size(), name());
    at += name().size();
  }
  return text;
}

ApiError to_api_error(const std::exception& error, const ServedModel& model, const Log& log) {
  if (const auto* known = dynamic_cast<const ApiError*>(&error)) return *known;
  if (dynamic_cast<const InvalidArgument*>(&error) != nullptr) {
    return ApiError(400, model.without_path(error.what()));
  }
  if (dynamic_cast<const Abandoned*>(&error) != nullptr) return ApiError(503, error.what());
  log.error(fmt::format("a request failed: {}", error.what()));
  return ApiError(500, "The server could not answer this request; its log says why.");
}

}  // namespace reprise::server
