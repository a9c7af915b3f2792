#pragma once

#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reprise/base/json.h"
#include "reprise/server/http/api_error.h"

namespace reprise::server {

struct ServedModelOptions {
  std::vector<std::string> names;  // aliases of one model; answers report the first
  std::string root;                // where the model was loaded from, as /v1/models reports it
  std::string path;                // the folder on disk; cut out of every message
};

/// The one model that is served, under its names. Constant, so thread-safe.
class ServedModel {
 public:
  /// \pre `options` give the model at least one name
  ServedModel(const ServedModelOptions& options, int32_t max_model_len);

  /// The name that is reported where a request gives none.
  [[nodiscard]] const std::string& name() const noexcept { return names_.front(); }
  [[nodiscard]] const std::vector<std::string>& names() const noexcept { return names_; }
  [[nodiscard]] int32_t max_model_len() const noexcept { return max_model_len_; }

  /// \throws ApiError 404 for another name; absent: this one
  void check(const std::optional<std::string>& name) const;
  /// The model object of GET /v1/models under one of its names.
  [[nodiscard]] Json to_json(std::string_view name) const;
  /// `text` with the model's name where its folder was.
  [[nodiscard]] std::string without_path(std::string text) const;

 private:
  std::vector<std::string> names_;
  std::string root_;
  std::string path_;
  int32_t max_model_len_;
  int64_t created_;  // seconds since 1970
};

/// How an exception is answered: bad input says why, without paths; anything else is logged and
/// answered 500.
[[nodiscard]] ApiError to_api_error(const std::exception& error, const ServedModel& model);

}  // namespace reprise::server
