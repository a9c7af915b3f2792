#pragma once

#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reprise/base/json.h"
#include "reprise/base/log.h"
#include "reprise/server/http/api_error.h"

namespace reprise::server {

struct ServedModelOptions {
  std::vector<std::string> names;  // aliases of one model; answers report the first
  std::string root;                // where the model was loaded from, as /v1/models reports it
  std::string path;                // the model's folder on disk; removed from every message
};

/// The one model that is served, under its names. Constant, so thread-safe.
class ServedModel {
 public:
  /// \pre `options` contain at least one name
  ServedModel(const ServedModelOptions& options, int32_t max_model_len);

  /// The name that answers report when a request names no model.
  [[nodiscard]] const std::string& name() const noexcept { return names_.front(); }
  [[nodiscard]] const std::vector<std::string>& names() const noexcept { return names_; }
  [[nodiscard]] int32_t max_model_len() const noexcept { return max_model_len_; }

  /// \throws ApiError 404 for an unknown name; a request without a name is accepted
  void check(const std::optional<std::string>& name) const;
  /// The model object of GET /v1/models under one of its names.
  [[nodiscard]] Json to_json(std::string_view name) const;
  /// `text` with the model's name in place of its folder.
  [[nodiscard]] std::string without_path(std::string text) const;

 private:
  std::vector<std::string> names_;
  std::string root_;
  std::string path_;
  int32_t max_model_len_;
  int64_t created_;  // seconds since 1970
};

/// The answer for an exception: bad input gets the reason, without paths; abandoned work gets 503;
/// any other exception is logged and answered with 500.
[[nodiscard]] ApiError to_api_error(const std::exception& error,
                                    const ServedModel& model,
                                    const Log& log);

}  // namespace reprise::server
