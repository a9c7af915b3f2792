#include "reprise/structured_output/client_shares.h"

#include <algorithm>

namespace reprise::structured_output {

int64_t ClientShares::rank(const std::string& client) const {
  const auto found = had_.find(client);
  return found == had_.end() ? least_ : std::max(found->second, least_);
}

void ClientShares::begin(const std::string& client, int64_t num_steps) {
  least_ = rank(client);
  had_[client] = least_ + num_steps;
  std::erase_if(had_, [this](const auto& entry) { return entry.second <= least_; });
  if (had_.size() > kMaxClients) forget_some();
}

void ClientShares::correct(const std::string& client, int64_t num_steps) {
  if (const auto found = had_.find(client); found != had_.end()) found->second += num_steps;
}

void ClientShares::forget_some() {
  const auto fewest = std::min_element(
      had_.begin(), had_.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  had_.erase(fewest);
}

}  // namespace reprise::structured_output
