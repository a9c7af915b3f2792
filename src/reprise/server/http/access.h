#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace reprise::server {

/// The accepted API keys. The running time of find() does not reveal how close a guess was.
class ApiKeys {
 public:
  explicit ApiKeys(std::vector<std::string> keys) : keys_(std::move(keys)) {}

  /// `authorization` is the value of the header. Returns the number of the key in it, or nothing.
  [[nodiscard]] std::optional<size_t> find(std::string_view authorization) const;
  /// \throws ApiError 401 when keys are set and the header holds none of them
  void check(std::string_view authorization) const;

 private:
  std::vector<std::string> keys_;
};

}  // namespace reprise::server
