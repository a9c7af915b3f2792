#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "reprise/parallel/rank_link.h"
#include "reprise/parallel/transport.h"

namespace reprise::parallel {

/// The purpose of a collective operation. It is a part of the tag of its messages, so a message
/// never completes an operation of another purpose.
enum class Operation : uint8_t {
  start_up,   // comparing options and plans
  command,    // rank 0 tells the other ranks what to do next
  agreement,  // comparing the decision for a step
  data,       // a collective op of the model
  end,        // all ranks are about to leave
};
[[nodiscard]] std::string_view operation_name(Operation operation) noexcept;

/// How long an operation waits for the other ranks.
enum class Patience : uint8_t {
  step,       // CommunicatorOptions::timeout
  unlimited,  // as long as the other ranks send heartbeats
};

/// The purpose of a group. It is a part of the tag of the group's messages. Two ranks meet in at
/// most one group of each kind.
enum class GroupKind : uint8_t {
  world,   // all ranks
  engine,  // ranks that run one model together
  tensor,  // ranks that share each layer
  data,    // ranks that have the same part of the model, and different requests
  expert,  // ranks that share the experts
};

/// Collective operations among the ranks of a group. All ranks of the group call the same
/// operations in the same order; results are the same bits on each of them. An operation that
/// cannot complete in time names the rank that it waits for, and every later operation of every
/// group fails with the same sentence. Messages name ranks by their number among all ranks.
///
/// Operations of one group may come from any thread, one at a time.
class Communicator {
 public:
  static constexpr int kMaxRanks = RankLink::kMaxRanks;

  /// The communicator of all ranks. \throws InvalidArgument for more than kMaxRanks ranks
  Communicator(std::unique_ptr<Transport> transport, const CommunicatorOptions& options);
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  /// Makes a group of these ranks, in this order; the first of them is rank 0 of the group. All of
  /// them must call this function. \pre this is the communicator of all ranks, this rank is a
  /// member, and it is in no other group of the kind
  [[nodiscard]] std::unique_ptr<Communicator> group(GroupKind kind, std::vector<int> members) const;

  [[nodiscard]] int rank() const noexcept { return rank_; }
  [[nodiscard]] int size() const noexcept { return static_cast<int>(members_.size()); }
  /// The number of a rank of this group among all ranks.
  [[nodiscard]] int world_rank(int rank) const noexcept {
    return members_[static_cast<size_t>(rank)];
  }
  [[nodiscard]] std::string description() const { return link_->transport().description(); }
  [[nodiscard]] RankLink& link() const noexcept { return *link_; }

  /// Gathers `bytes` bytes at `mine` from each rank into `all` of every rank, in the order of the
  /// ranks. \throws RankError
  void all_gather(Operation operation,
                  const void* mine,
                  void* all,
                  size_t bytes,
                  Patience patience = Patience::step);
  /// `mine` has a part of `bytes` bytes for each rank. Gathers the parts that all ranks have for
  /// this rank into `all`, in the order of the ranks. \throws RankError
  void all_to_all(Operation operation,
                  const void* mine,
                  void* all,
                  size_t bytes,
                  Patience patience = Patience::step);
  /// Copies the bytes of rank `root` to `data` of all ranks. \throws RankError
  void broadcast(
      Operation operation, int root, void* data, size_t bytes, Patience patience = Patience::step);
  /// Returns when all ranks have called barrier(). \throws RankError
  void barrier(Operation operation, Patience patience = Patience::step);

  /// all_gather for kernels, which cannot throw. Returns false after a failure, which check()
  /// reports.
  [[nodiscard]] bool try_all_gather(const void* mine, void* all, size_t bytes) noexcept;
  /// The same for all_to_all.
  [[nodiscard]] bool try_all_to_all(const void* mine, void* all, size_t bytes) noexcept;

  /// \throws RankError if a rank was lost or late
  void check() const { link_->check(); }
  [[nodiscard]] bool has_failed() const noexcept { return link_->has_failed(); }
  /// Ends the connection in an orderly way. Every rank calls finish() after its last operation.
  /// Without this call, a launcher like mpirun ends the other ranks. \pre this is the communicator
  /// of all ranks \throws RankError
  void finish();

  /// Makes every later operation fail with this reason. Only the first reason counts.
  void fail(const std::string& reason) noexcept { link_->fail(reason); }

  /// Collective ops declare that they write this memory. So every rank runs them one after the
  /// other, in the order of the program.
  [[nodiscard]] std::span<std::byte> order_token() noexcept { return order_token_; }

 private:
  struct Message {
    int peer = 0;  // among all ranks
    bool is_send = false;
    Transport::Handle handle = 0;
    bool is_done = false;
  };

  Communicator(std::shared_ptr<RankLink> link, GroupKind kind, std::vector<int> members);
  [[nodiscard]] uint32_t next_tag(Operation operation) noexcept;
  /// Sends the part of `mine` that begins at stride * rank to each rank, and receives its part.
  void exchange(Operation operation,
                const std::byte* mine,
                size_t stride,
                std::byte* all,
                size_t bytes,
                Patience patience);
  void wait(std::span<Message> messages, Patience patience);
  [[nodiscard]] bool test_all(std::span<Message> messages);
  [[nodiscard]] std::string late_text(std::span<const Message> messages);

  std::shared_ptr<RankLink> link_;
  GroupKind kind_ = GroupKind::world;
  std::vector<int> members_;  // among all ranks
  int rank_ = 0;
  // Guarded by the link's mutex.
  uint32_t sequence_ = 0;
  Operation current_ = Operation::start_up;
  std::array<std::byte, 64> order_token_{};
};

}  // namespace reprise::parallel
