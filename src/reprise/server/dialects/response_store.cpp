#include "reprise/server/dialects/response_store.h"

#include <iterator>
#include <utility>

#include "reprise/server/http/api_error.h"

namespace reprise::server {

void ResponseStore::put(const std::string& id, const Json& response, const Json& messages) {
  Entry entry{.id = id, .response = dump(response), .messages = dump(messages)};
  if (entry.bytes() > max_bytes_) return;
  const std::lock_guard lock(mutex_);
  if (const auto found = by_id_.find(id); found != by_id_.end()) remove(found->second);
  while (num_bytes_ + entry.bytes() > max_bytes_) remove(entries_.begin());
  num_bytes_ += entry.bytes();
  entries_.push_back(std::move(entry));
  by_id_.emplace(id, std::prev(entries_.end()));
}

const ResponseStore::Entry* ResponseStore::find(const std::string& id) const {
  const auto found = by_id_.find(id);
  return found == by_id_.end() ? nullptr : &*found->second;
}

std::optional<std::string> ResponseStore::response(const std::string& id) const {
  const std::lock_guard lock(mutex_);
  const Entry* entry = find(id);
  return entry == nullptr ? std::nullopt : std::optional(entry->response);
}

std::optional<Json> ResponseStore::messages(const std::string& id) const {
  std::string text;
  {
    const std::lock_guard lock(mutex_);
    const Entry* entry = find(id);
    if (entry == nullptr) return std::nullopt;
    text = entry->messages;
  }
  return Json::parse(text);
}

bool ResponseStore::erase(const std::string& id) {
  const std::lock_guard lock(mutex_);
  const auto found = by_id_.find(id);
  if (found == by_id_.end()) return false;
  remove(found->second);
  return true;
}

void ResponseStore::remove(std::list<Entry>::iterator entry) {
  num_bytes_ -= entry->bytes();
  by_id_.erase(entry->id);
  entries_.erase(entry);
}

}  // namespace reprise::server
