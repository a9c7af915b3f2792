#include "reprise/parallel/tcp_transport.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

#include "reprise/base/error.h"

namespace reprise::parallel {
namespace {

constexpr uint32_t kMessageMagic = 0x50524d53;
// The last message of a rank; above all tags.
constexpr uint32_t kFarewell = 0xffffffff;
// How long finish() waits for a farewell to leave.
constexpr std::chrono::milliseconds kFarewellTime{2'000};

}  // namespace

TcpTransport::TcpTransport(int rank, std::vector<Socket> sockets)
    : rank_(rank), peers_(sockets.size()) {
  for (size_t i = 0; i < sockets.size(); ++i) peers_[i].socket = std::move(sockets[i]);
}

Transport::Handle TcpTransport::new_handle(int peer) {
  auto handle = static_cast<Handle>(operations_.size());
  if (free_.empty()) {
    operations_.emplace_back();
  } else {
    handle = free_.back();
    free_.pop_back();
  }
  operations_[static_cast<size_t>(handle)] = {.peer = peer};
  return handle;
}

Transport::Handle TcpTransport::send(int to, uint32_t tag, const void* data, size_t bytes) {
  if (bytes > kMaxMessageBytes) {
    throw Error(fmt::format(
        "a message of {} bytes to rank {}: at most {} fit", bytes, to, kMaxMessageBytes));
  }
  const Handle handle = new_handle(to);
  Peer& peer = peers_[static_cast<size_t>(to)];
  peer.outgoing.push_back({.header = {.magic = kMessageMagic, .tag = tag, .num_bytes = bytes},
                           .data = static_cast<const std::byte*>(data),
                           .handle = handle});
  move_outgoing(peer);
  return handle;
}

Transport::Handle TcpTransport::receive(int from, uint32_t tag, void* data, size_t bytes) {
  const Handle handle = new_handle(from);
  Peer& peer = peers_[static_cast<size_t>(from)];
  const Posted posted{
      .tag = tag, .data = static_cast<std::byte*>(data), .num_bytes = bytes, .handle = handle};
  const auto arrived = std::ranges::find(
      peer.unexpected, tag, [](const Unexpected& message) { return message.tag; });
  if (arrived == peer.unexpected.end()) {
    peer.posted.push_back(posted);
    return handle;
  }
  fill(posted, arrived->data, from);
  operations_[static_cast<size_t>(handle)].is_done = true;
  peer.num_unexpected_bytes -= arrived->data.size();
  peer.unexpected.erase(arrived);
  return handle;
}

void TcpTransport::require_length(const Posted& posted, uint64_t num_bytes, int rank) {
  if (num_bytes == posted.num_bytes) return;
  throw Error(fmt::format(
      "rank {} sent a message of {} bytes, and {} were expected: the ranks do different work",
      rank,
      num_bytes,
      posted.num_bytes));
}

void TcpTransport::fill(const Posted& posted, std::span<const std::byte> data, int rank) {
  require_length(posted, data.size(), rank);
  if (!data.empty()) std::memcpy(posted.data, data.data(), data.size());
}

bool TcpTransport::test(Handle handle) {
  const int rank = operations_[static_cast<size_t>(handle)].peer;
  if (!operations_[static_cast<size_t>(handle)].is_done) move(rank);
  if (operations_[static_cast<size_t>(handle)].is_done) {
    free_.push_back(handle);
    return true;
  }
  const Peer& peer = peers_[static_cast<size_t>(rank)];
  if (peer.has_ended && !peer.said_farewell) {
    throw Error(fmt::format(
        "rank {} has closed its connection to rank {}: it has ended or was killed", rank, rank_));
  }
  return false;
}

std::optional<uint32_t> TcpTransport::waiting_tag(int from, uint32_t ignored) {
  move(from);
  for (const Unexpected& message : peers_[static_cast<size_t>(from)].unexpected) {
    if (message.tag != ignored) return message.tag;
  }
  return std::nullopt;
}

void TcpTransport::move(int rank) {
  Peer& peer = peers_[static_cast<size_t>(rank)];
  move_outgoing(peer);
  move_incoming(peer, rank);
}

void TcpTransport::move_outgoing(Peer& peer) {
  while (!peer.outgoing.empty() && !peer.has_ended) {
    Outgoing& message = peer.outgoing.front();
    std::array<iovec, 2> parts{};
    size_t num_parts = 0;
    if (message.num_sent < sizeof(Header)) {
      parts[num_parts++] = {
          .iov_base = reinterpret_cast<std::byte*>(&message.header) + message.num_sent,
          .iov_len = sizeof(Header) - message.num_sent};
    }
    const size_t num_data_sent = message.num_sent - std::min(message.num_sent, sizeof(Header));
    if (num_data_sent < message.header.num_bytes) {
      parts[num_parts++] = {
          .iov_base = const_cast<std::byte*>(message.data) + num_data_sent,
          .iov_len = static_cast<size_t>(message.header.num_bytes) - num_data_sent};
    }
    msghdr header{};
    header.msg_iov = parts.data();
    header.msg_iovlen = num_parts;
    const ssize_t sent = sendmsg(peer.socket.fd(), &header, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0) {
      if (errno == EINTR) continue;
      // Bytes that arrived before the end are still read: they may contain a farewell.
      if (errno != EAGAIN) peer.outgoing.clear();
      return;
    }
    message.num_sent += static_cast<size_t>(sent);
    if (message.num_sent < sizeof(Header) + message.header.num_bytes) return;
    if (message.handle >= 0) operations_[static_cast<size_t>(message.handle)].is_done = true;
    peer.outgoing.pop_front();
  }
}

void TcpTransport::move_incoming(Peer& peer, int rank) {
  while (!peer.has_ended && !peer.said_farewell) {
    const bool is_in_header = peer.num_header_bytes < sizeof(Header);
    std::byte* const to = is_in_header
                              ? reinterpret_cast<std::byte*>(&peer.header) + peer.num_header_bytes
                              : peer.body + peer.num_body_bytes;
    const size_t wanted = is_in_header
                              ? sizeof(Header) - peer.num_header_bytes
                              : static_cast<size_t>(peer.header.num_bytes) - peer.num_body_bytes;
    if (wanted > 0) {
      const ssize_t got = recv(peer.socket.fd(), to, wanted, MSG_DONTWAIT);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0 && errno == EAGAIN) return;
      if (got <= 0) {
        peer.has_ended = true;
        return;
      }
      (is_in_header ? peer.num_header_bytes : peer.num_body_bytes) += static_cast<size_t>(got);
    }
    if (is_in_header) {
      if (peer.num_header_bytes == sizeof(Header)) begin_body(peer, rank);
    } else if (peer.num_body_bytes == peer.header.num_bytes) {
      end_body(peer, rank);
    }
  }
}

void TcpTransport::begin_body(Peer& peer, int rank) {
  const Header& header = peer.header;
  if (header.magic == kMessageMagic && header.tag == kFarewell) {
    peer.said_farewell = true;
    return;
  }
  const size_t room = kMaxUnexpectedBytes - peer.num_unexpected_bytes;
  if (header.magic != kMessageMagic || header.tag > kMaxTag ||
      header.num_bytes > kMaxMessageBytes || header.num_bytes > room) {
    peer.has_ended = true;
    throw Error(
        fmt::format("rank {} sent bytes that are not a message of a rank (magic {:08x}, tag "
                    "{:08x}, {} bytes)",
                    rank,
                    header.magic,
                    header.tag,
                    header.num_bytes));
  }
  peer.num_body_bytes = 0;
  peer.awaited.reset();
  const auto posted =
      std::ranges::find(peer.posted, header.tag, [](const Posted& entry) { return entry.tag; });
  if (posted != peer.posted.end()) {
    peer.awaited = *posted;
    peer.posted.erase(posted);
    require_length(*peer.awaited, header.num_bytes, rank);
    peer.body = peer.awaited->data;
    return;
  }
  peer.into = {.tag = header.tag,
               .data = std::vector<std::byte>(static_cast<size_t>(header.num_bytes))};
  peer.body = peer.into.data.data();
}

void TcpTransport::end_body(Peer& peer, int rank) {
  peer.num_header_bytes = 0;
  if (peer.awaited) {
    operations_[static_cast<size_t>(peer.awaited->handle)].is_done = true;
    return;
  }
  // Something may have begun to wait for the message while it was arriving.
  const auto posted =
      std::ranges::find(peer.posted, peer.into.tag, [](const Posted& entry) { return entry.tag; });
  if (posted != peer.posted.end()) {
    const Posted awaited = *posted;
    peer.posted.erase(posted);
    fill(awaited, peer.into.data, rank);
    operations_[static_cast<size_t>(awaited.handle)].is_done = true;
    return;
  }
  peer.num_unexpected_bytes += peer.into.data.size();
  peer.unexpected.push_back(std::move(peer.into));
}

void TcpTransport::finish() noexcept {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point deadline = Clock::now() + kFarewellTime;
  for (Peer& peer : peers_) {
    if (!peer.socket.is_open()) continue;
    try {
      // Only heartbeats are still to be sent. One of which a part was sent must be completed.
      while (peer.outgoing.size() > 1) peer.outgoing.pop_back();
      peer.outgoing.push_back({.header = {.magic = kMessageMagic, .tag = kFarewell}, .handle = -1});
      for (move_outgoing(peer); !peer.outgoing.empty() && Clock::now() < deadline;
           move_outgoing(peer)) {
        pollfd entry{.fd = peer.socket.fd(), .events = POLLOUT, .revents = 0};
        (void)poll(&entry, 1, 50);
      }
    } catch (...) {
      // Without a farewell the other side reports this rank as lost.
      peer.outgoing.clear();
    }
    (void)shutdown(peer.socket.fd(), SHUT_WR);
  }
  // Bytes of the other side that are not read would make the kernel reset the connection, and the
  // other side might lose this farewell.
  for (Peer& peer : peers_) {
    std::array<std::byte, 4096> rest;
    while (peer.socket.is_open() && Clock::now() < deadline) {
      pollfd entry{.fd = peer.socket.fd(), .events = POLLIN, .revents = 0};
      (void)poll(&entry, 1, 50);
      const ssize_t got = recv(peer.socket.fd(), rest.data(), rest.size(), MSG_DONTWAIT);
      if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) break;
    }
    peer.socket = Socket();
  }
}

}  // namespace reprise::parallel
