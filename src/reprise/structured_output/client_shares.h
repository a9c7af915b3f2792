#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

namespace reprise::structured_output {

/// Divides work among clients: the client that has had the least work is next. A client that had no
/// work for a while gets no credit for that time, and a new client begins with the same count as
/// the client that was served last (start-time fair queueing). Not thread-safe.
class ClientShares {
 public:
  /// The number of clients that are remembered. When there are more, those that had the least work
  /// are forgotten. A forgotten client that returns counts as a new client.
  static constexpr size_t kMaxClients = 4096;

  /// The client with the lowest rank is next.
  [[nodiscard]] int64_t rank(const std::string& client) const;
  /// Counts work that begins now; its amount may be an estimate.
  void begin(const std::string& client, int64_t num_steps);
  /// Corrects the estimate of begin(); negative: the work was less.
  void correct(const std::string& client, int64_t num_steps);
  [[nodiscard]] size_t num_remembered() const noexcept { return had_.size(); }

 private:
  void forget_some();

  std::map<std::string, int64_t> had_;  // steps of the clients that have had more than `least_`
  int64_t least_ = 0;                   // the rank of the client that was served last
};

}  // namespace reprise::structured_output
