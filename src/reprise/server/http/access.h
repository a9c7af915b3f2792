#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace reprise::server {

/// The keys that let clients in. How long check() takes says nothing about how close a guess was.
class ApiKeys {
 public:
  explicit ApiKeys(std::vector<std::string> keys) : keys_(std::move(keys)) {}

  /// `authorization` is the header's value. \throws ApiError 401 unless it holds a key, or no key
  /// was set
  void check(std::string_view authorization) const;

 private:
  std::vector<std::string> keys_;
};

}  // namespace reprise::server
