#include "reprise/parallel/mailbox.h"

#include <fmt/format.h>

#include <utility>

namespace reprise::parallel {

Mailbox::Mailbox(const Communicator& ranks)
    : ranks_(&ranks), link_(&ranks.link()), incoming_(static_cast<size_t>(ranks.size())) {
  const std::lock_guard lock(link_->mutex());
  for (int from = 0; from < ranks_->size(); ++from) expect_header(from);
}

void Mailbox::expect_header(int from) {
  if (from == ranks_->rank()) return;
  Incoming& incoming = incoming_[static_cast<size_t>(from)];
  incoming.is_in_body = false;
  incoming.handle = link_->transport().receive(
      ranks_->world_rank(from), RankLink::kMailTag, &incoming.num_bytes, sizeof incoming.num_bytes);
}

void Mailbox::post(int to, std::vector<std::byte> message) {
  link_->check();
  if (message.size() > kMaxMessageBytes) {
    throw RankError(fmt::format("a message of {} bytes to rank {}: at most {} can be sent",
                                message.size(),
                                ranks_->world_rank(to),
                                kMaxMessageBytes));
  }
  auto outgoing = std::make_unique<Outgoing>();
  outgoing->to = ranks_->world_rank(to);
  outgoing->num_bytes = message.size();
  outgoing->message = std::move(message);
  const std::lock_guard lock(link_->mutex());
  Transport& transport = link_->transport();
  Outgoing& kept = *outgoing_.emplace_back(std::move(outgoing));
  kept.header = transport.send(kept.to, RankLink::kMailTag, &kept.num_bytes, sizeof kept.num_bytes);
  kept.body = transport.send(kept.to, RankLink::kMailTag, kept.message.data(), kept.message.size());
}

bool Mailbox::move_outgoing() {
  const std::lock_guard lock(link_->mutex());
  Transport& transport = link_->transport();
  bool has_moved = false;
  for (const std::unique_ptr<Outgoing>& outgoing : outgoing_) {
    if (!outgoing->is_header_sent) outgoing->is_header_sent = transport.test(outgoing->header);
    if (!outgoing->is_body_sent) outgoing->is_body_sent = transport.test(outgoing->body);
  }
  while (!outgoing_.empty() && outgoing_.front()->is_header_sent &&
         outgoing_.front()->is_body_sent) {
    outgoing_.pop_front();
    has_moved = true;
  }
  return has_moved;
}

bool Mailbox::move_incoming(int from, bool& has_moved) {
  const std::lock_guard lock(link_->mutex());
  Incoming& incoming = incoming_[static_cast<size_t>(from)];
  if (!link_->transport().test(incoming.handle)) return false;
  has_moved = true;
  if (incoming.is_in_body) return true;
  if (incoming.num_bytes > kMaxMessageBytes) {
    throw RankError(fmt::format("rank {} announced a message of {} bytes: at most {} are allowed",
                                ranks_->world_rank(from),
                                incoming.num_bytes,
                                kMaxMessageBytes));
  }
  incoming.message.resize(incoming.num_bytes);
  incoming.is_in_body = true;
  incoming.handle = link_->transport().receive(ranks_->world_rank(from),
                                               RankLink::kMailTag,
                                               incoming.message.data(),
                                               incoming.message.size());
  return false;
}

bool Mailbox::poll(const Take& take) {
  link_->check();
  bool has_moved = move_outgoing();
  for (int from = 0; from < ranks_->size(); ++from) {
    if (from == ranks_->rank()) continue;
    while (move_incoming(from, has_moved)) {
      const std::vector<std::byte> message =
          std::exchange(incoming_[static_cast<size_t>(from)].message, {});
      {
        const std::lock_guard lock(link_->mutex());
        expect_header(from);
      }
      take(from, message);
    }
  }
  return has_moved;
}

bool Mailbox::is_sent() {
  const std::lock_guard lock(link_->mutex());
  return outgoing_.empty();
}

}  // namespace reprise::parallel
