#include "reprise/parallel/communicator.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "reprise/base/assert.h"

namespace reprise::parallel {
namespace {

// A tag holds the kind of the group, the purpose of an operation and its number, so that ranks that
// do different things never take each other's messages.
constexpr uint32_t kSequenceBits = 24;
constexpr uint32_t kSequenceMask = (1U << kSequenceBits) - 1;
constexpr uint32_t kOperationMask = 15;
constexpr uint32_t kGroupBits = 28;

double seconds_of(std::chrono::steady_clock::duration duration) {
  return std::chrono::duration<double>(duration).count();
}

}  // namespace

std::string_view operation_name(Operation operation) noexcept {
  switch (operation) {
    case Operation::start_up:
      return "start-up";
    case Operation::command:
      return "command";
    case Operation::agreement:
      return "agreement";
    case Operation::data:
      return "data";
    case Operation::end:
      return "end";
  }
  return "unknown";
}

Communicator::Communicator(std::unique_ptr<Transport> transport, const CommunicatorOptions& options)
    : link_(std::make_shared<RankLink>(std::move(transport), options)),
      members_(static_cast<size_t>(link_->size())),
      rank_(link_->rank()) {
  std::iota(members_.begin(), members_.end(), 0);
}

Communicator::Communicator(std::shared_ptr<RankLink> link, GroupKind kind, std::vector<int> members)
    : link_(std::move(link)), kind_(kind), members_(std::move(members)) {
  const auto mine = std::ranges::find(members_, link_->rank());
  REPRISE_ASSERT(mine != members_.end(), "rank {} is in no group", link_->rank());
  rank_ = static_cast<int>(mine - members_.begin());
}

std::unique_ptr<Communicator> Communicator::group(GroupKind kind, std::vector<int> members) const {
  REPRISE_ASSERT(kind_ == GroupKind::world && kind != GroupKind::world, "a group of a group");
  return std::unique_ptr<Communicator>(new Communicator(link_, kind, std::move(members)));
}

void Communicator::finish() {
  barrier(Operation::end);
  link_->finish();
}

uint32_t Communicator::next_tag(Operation operation) noexcept {
  current_ = operation;
  sequence_ = (sequence_ + 1) & kSequenceMask;
  return (static_cast<uint32_t>(kind_) << kGroupBits) |
         (static_cast<uint32_t>(operation) << kSequenceBits) | sequence_;
}

void Communicator::all_gather(
    Operation operation, const void* mine, void* all, size_t bytes, Patience patience) {
  exchange(operation,
           static_cast<const std::byte*>(mine),
           0,
           static_cast<std::byte*>(all),
           bytes,
           patience);
}

void Communicator::all_to_all(
    Operation operation, const void* mine, void* all, size_t bytes, Patience patience) {
  exchange(operation,
           static_cast<const std::byte*>(mine),
           bytes,
           static_cast<std::byte*>(all),
           bytes,
           patience);
}

void Communicator::exchange(Operation operation,
                            const std::byte* mine,
                            size_t stride,
                            std::byte* all,
                            size_t bytes,
                            Patience patience) {
  check();
  std::array<Message, 2 * static_cast<size_t>(kMaxRanks)> messages;
  size_t count = 0;
  const auto self = static_cast<size_t>(rank_);
  if (bytes > 0) std::memcpy(all + self * bytes, mine + self * stride, bytes);
  {
    const std::lock_guard lock(link_->mutex());
    const uint32_t tag = next_tag(operation);
    for (int member = 0; member < size(); ++member) {
      if (member == rank_) continue;
      const int peer = world_rank(member);
      std::byte* const from_peer = all + static_cast<size_t>(member) * bytes;
      const std::byte* const to_peer = mine + static_cast<size_t>(member) * stride;
      messages[count++] = {.peer = peer,
                           .handle = link_->transport().receive(peer, tag, from_peer, bytes)};
      messages[count++] = {.peer = peer,
                           .is_send = true,
                           .handle = link_->transport().send(peer, tag, to_peer, bytes)};
    }
  }
  wait(std::span(messages).first(count), patience);
}

void Communicator::broadcast(
    Operation operation, int root, void* data, size_t bytes, Patience patience) {
  check();
  std::array<Message, kMaxRanks> messages;
  size_t count = 0;
  {
    const std::lock_guard lock(link_->mutex());
    const uint32_t tag = next_tag(operation);
    if (rank_ != root) {
      const int peer = world_rank(root);
      messages[count++] = {.peer = peer,
                           .handle = link_->transport().receive(peer, tag, data, bytes)};
    } else {
      for (int member = 0; member < size(); ++member) {
        if (member == rank_) continue;
        const int peer = world_rank(member);
        messages[count++] = {.peer = peer,
                             .is_send = true,
                             .handle = link_->transport().send(peer, tag, data, bytes)};
      }
    }
  }
  wait(std::span(messages).first(count), patience);
}

void Communicator::barrier(Operation operation, Patience patience) {
  const std::byte nothing{};
  std::array<std::byte, kMaxRanks> all;
  all_gather(operation, &nothing, all.data(), 1, patience);
}

bool Communicator::try_all_gather(const void* mine, void* all, size_t bytes) noexcept {
  if (has_failed()) return false;
  try {
    all_gather(Operation::data, mine, all, bytes);
    return true;
  } catch (const std::exception& error) {
    fail(error.what());
    return false;
  }
}

bool Communicator::try_all_to_all(const void* mine, void* all, size_t bytes) noexcept {
  if (has_failed()) return false;
  try {
    all_to_all(Operation::data, mine, all, bytes);
    return true;
  } catch (const std::exception& error) {
    fail(error.what());
    return false;
  }
}

bool Communicator::test_all(std::span<Message> messages) {
  const std::lock_guard lock(link_->mutex());
  bool are_done = true;
  for (Message& message : messages) {
    if (!message.is_done) message.is_done = link_->transport().test(message.handle);
    are_done = are_done && message.is_done;
  }
  return are_done;
}

void Communicator::wait(std::span<Message> messages, Patience patience) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point start = Clock::now();
  while (!test_all(messages)) {
    // Another thread has noticed the loss of a rank.
    check();
    const Clock::duration waited = Clock::now() - start;
    if (patience == Patience::step && waited > link_->options().timeout) {
      link_->fail_and_throw(late_text(messages));
    }
    pause_between_looks(waited);
  }
}

std::string Communicator::late_text(std::span<const Message> messages) {
  std::string text;
  const std::lock_guard lock(link_->mutex());
  for (const Message& message : messages) {
    if (message.is_done) continue;
    const std::string name = fmt::format("rank {}", message.peer);
    if (text.find(name + " ") != std::string::npos) continue;
    const auto tag = link_->transport().waiting_tag(message.peer, RankLink::kBeatTag);
    // A message in a mailbox does not say which operation its sender is in.
    const bool is_elsewhere = tag && *tag != RankLink::kMailTag;
    text += fmt::format("{}{} {}",
                        text.empty() ? "" : "; ",
                        name,
                        is_elsewhere ? fmt::format("is at operation {} ({}) instead",
                                                   *tag & kSequenceMask,
                                                   operation_name(static_cast<Operation>(
                                                       (*tag >> kSequenceBits) & kOperationMask)))
                                     : std::string("did not take part"));
  }
  return fmt::format(
      "rank {} waited {:.1f} s in operation {} ({}): {}; a rank is slow, stopped or "
      "does other work than the others",
      world_rank(rank_),
      seconds_of(link_->options().timeout),
      sequence_,
      operation_name(current_),
      text);
}

}  // namespace reprise::parallel
