#pragma once

#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reprise/api/async_engine.h"
#include "reprise/base/json.h"
#include "reprise/base/log.h"
#include "reprise/lora/adapter_registry.h"
#include "reprise/server/http/api_error.h"

namespace reprise::server {

struct ServedModelOptions {
  std::vector<std::string> names;  // aliases of one model; answers report the first
  std::string root;                // where the model was loaded from, as /v1/models reports it
  std::string path;                // the model's folder on disk; removed from every message
};

/// The served model, under its names, and its adapters, which look like separate models to clients.
/// Constant except for the adapters; thread-safe.
class ServedModel {
 public:
  /// `adapters` must outlive this object; nullptr: none. \pre `options` contain at least one name
  /// \throws InvalidArgument for an adapter that has one of the model's names
  ServedModel(const ServedModelOptions& options,
              int32_t max_model_len,
              lora::AdapterRegistry* adapters = nullptr);

  /// The name that answers report when a request names no model.
  [[nodiscard]] const std::string& name() const noexcept { return names_.front(); }
  [[nodiscard]] const std::vector<std::string>& names() const noexcept { return names_; }
  [[nodiscard]] int32_t max_model_len() const noexcept { return max_model_len_; }

  /// \throws ApiError 404 for an unknown name; a request without a name is accepted
  void check(const std::optional<std::string>& name) const;
  /// \throws ApiError 400 if the model itself has this name
  void check_adapter_name(const std::string& name) const;
  /// If `name` is the name of an adapter, sets the adapter in the options. May read the adapter's
  /// folder again. \throws ApiError 404 for an unknown name; Error if the folder cannot be read
  void choose(const std::optional<std::string>& name, scheduler::RequestOptions& options) const;
  /// The model object of GET /v1/models. \throws ApiError 404 for an unknown name
  [[nodiscard]] Json to_json(std::string_view name) const;
  /// The objects of all names: those of the model, then its adapters.
  [[nodiscard]] Json list() const;
  /// `text` with each occurrence of the model's folder replaced by the model's name.
  [[nodiscard]] std::string without_path(std::string text) const;

 private:
  std::vector<std::string> names_;
  std::string root_;
  std::string path_;
  int32_t max_model_len_;
  int64_t created_;  // seconds since 1970
  lora::AdapterRegistry* adapters_;

  [[nodiscard]] bool is_model(std::string_view name) const;
  [[nodiscard]] Json to_json(const lora::AdapterEntry& adapter) const;
};

/// The answer for an exception: for bad input, the reason without paths; for abandoned work, 503;
/// any other exception is logged and answered with 500.
[[nodiscard]] ApiError to_api_error(const std::exception& error,
                                    const ServedModel& model,
                                    const Log& log);

}  // namespace reprise::server
