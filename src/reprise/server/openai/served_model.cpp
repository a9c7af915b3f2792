#include "reprise/server/openai/served_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <ctime>

#include "reprise/base/assert.h"
#include "reprise/base/error.h"
#include "reprise/server/openai/responses.h"

namespace reprise::server {
namespace {

[[noreturn]] void refuse_unknown(std::string_view name) {
  throw ApiError(404, fmt::format("The model `{}` does not exist.", name.substr(0, 256)), "model");
}

}  // namespace

ServedModel::ServedModel(const ServedModelOptions& options,
                         int32_t max_model_len,
                         lora::AdapterRegistry* adapters)
    : names_(options.names),
      root_(options.root),
      path_(options.path),
      max_model_len_(max_model_len),
      created_(std::time(nullptr)),
      adapters_(adapters) {
  REPRISE_ASSERT(!names_.empty(), "a server needs a name for its model");
  if (adapters_ == nullptr) return;
  for (const lora::AdapterEntry& adapter : adapters_->entries()) {
    if (!is_model(adapter.name)) continue;
    throw InvalidArgument(fmt::format(
        "--lora-modules: '{}' is the name of the model; choose another name", adapter.name));
  }
}

bool ServedModel::is_model(std::string_view name) const {
  return std::find(names_.begin(), names_.end(), name) != names_.end();
}

void ServedModel::check(const std::optional<std::string>& name) const {
  if (!name || is_model(*name) || (adapters_ != nullptr && adapters_->contains(*name))) return;
  refuse_unknown(*name);
}

void ServedModel::check_adapter_name(const std::string& name) const {
  if (!is_model(name)) return;
  throw ApiError(
      400,
      fmt::format("The model itself is called '{}'; choose another name for the adapter.", name),
      "lora_name");
}

void ServedModel::choose(const std::optional<std::string>& name,
                         scheduler::RequestOptions& options) const {
  if (!name || is_model(*name)) return;
  if (adapters_ != nullptr) {
    try {
      options.adapter = adapters_->find(*name);
    } catch (const InvalidArgument& error) {
      // The file changed after it was loaded, which is not an error of the client.
      throw Error(error.what());
    }
  }
  // Either the name is unknown, or the adapter was unloaded while the request was being read.
  if (options.adapter == nullptr) refuse_unknown(*name);
  options.lora_id = options.adapter->id();
  options.lora_name = options.adapter->name();
}

Json ServedModel::to_json(std::string_view name) const {
  if (is_model(name)) return model_json(name, root_, "", created_, max_model_len_);
  if (adapters_ != nullptr) {
    for (const lora::AdapterEntry& adapter : adapters_->entries()) {
      if (adapter.name == name) return to_json(adapter);
    }
  }
  refuse_unknown(name);
}

Json ServedModel::to_json(const lora::AdapterEntry& adapter) const {
  const std::string& parent =
      adapter.base_model_name.empty() ? names_.front() : adapter.base_model_name;
  return model_json(adapter.name, adapter.path.string(), parent, adapter.created, max_model_len_);
}

Json ServedModel::list() const {
  Json list = Json::array();
  for (const std::string& name : names_) list.push_back(to_json(name));
  if (adapters_ == nullptr) return list;
  for (const lora::AdapterEntry& adapter : adapters_->entries()) list.push_back(to_json(adapter));
  return list;
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
