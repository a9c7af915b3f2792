#pragma once

#include <cstddef>
#include <list>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "reprise/base/json.h"

namespace reprise::server {

/// Keeps the answers of POST /v1/responses, which a later request can name, in memory. The oldest
/// are forgotten when all together take more than `max_bytes`. All are lost when the server ends.
/// Thread-safe.
class ResponseStore {
 public:
  static constexpr size_t kDefaultBytes = size_t{32} << 20;

  explicit ResponseStore(size_t max_bytes = kDefaultBytes) : max_bytes_(max_bytes) {}

  /// `response`: the object that clients get. `messages`: the chat including this answer, without
  /// instructions. A response that alone exceeds the limit is not kept.
  void put(const std::string& id, const Json& response, const Json& messages);
  /// The object of a response, or its messages. Nothing for an unknown id.
  [[nodiscard]] std::optional<std::string> response(const std::string& id) const;
  [[nodiscard]] std::optional<Json> messages(const std::string& id) const;
  /// Whether there was one.
  bool erase(const std::string& id);

 private:
  struct Entry {
    std::string id;
    std::string response;  // JSON as text takes a tenth of the memory
    std::string messages;
    [[nodiscard]] size_t bytes() const noexcept {
      return id.size() + response.size() + messages.size();
    }
  };
  [[nodiscard]] const Entry* find(const std::string& id) const;
  void remove(std::list<Entry>::iterator entry);

  size_t max_bytes_;
  mutable std::mutex mutex_;
  std::list<Entry> entries_;  // the oldest first
  std::unordered_map<std::string, std::list<Entry>::iterator> by_id_;
  size_t num_bytes_ = 0;
};

}  // namespace reprise::server
