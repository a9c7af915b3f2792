#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <optional>
#include <span>
#include <vector>

#include "reprise/parallel/tcp_rendezvous.h"
#include "reprise/parallel/transport.h"

namespace reprise::parallel {

/// Messages over TCP: for ranks that were not started through MPI, on one machine or on several.
/// Each message has a header that is checked, so wrong bytes end in an error that names the rank,
/// and never in a large allocation.
///
/// A rank whose connection ends without a farewell is lost: test() then throws, so the other ranks
/// notice it at once.
class TcpTransport final : public Transport {
 public:
  static constexpr size_t kMaxMessageBytes = size_t{1} << 30;
  /// Bytes that a rank may send before anything receives them.
  static constexpr size_t kMaxUnexpectedBytes = size_t{512} << 20;

  /// `sockets`: by rank, as meet() returns them.
  TcpTransport(int rank, std::vector<Socket> sockets);

  [[nodiscard]] int rank() const noexcept override { return rank_; }
  [[nodiscard]] int size() const noexcept override { return static_cast<int>(peers_.size()); }
  [[nodiscard]] std::string description() const override { return "TCP"; }
  [[nodiscard]] Handle send(int to, uint32_t tag, const void* data, size_t bytes) override;
  [[nodiscard]] Handle receive(int from, uint32_t tag, void* data, size_t bytes) override;
  [[nodiscard]] bool test(Handle handle) override;
  [[nodiscard]] std::optional<uint32_t> waiting_tag(int from, uint32_t ignored) override;
  void finish() noexcept override;

 private:
  struct Header {
    uint32_t magic = 0;
    uint32_t tag = 0;
    uint64_t num_bytes = 0;
  };
  struct Outgoing {
    Header header;
    const std::byte* data = nullptr;
    size_t num_sent = 0;  // of header and data
    Handle handle = 0;
  };
  struct Posted {
    uint32_t tag = 0;
    std::byte* data = nullptr;
    size_t num_bytes = 0;
    Handle handle = 0;
  };
  struct Unexpected {
    uint32_t tag = 0;
    std::vector<std::byte> data;
  };
  struct Peer {
    Socket socket;
    std::deque<Outgoing> outgoing;
    std::list<Posted> posted;
    std::list<Unexpected> unexpected;
    size_t num_unexpected_bytes = 0;
    // The header of the message that is being received.
    Header header;
    size_t num_header_bytes = 0;
    std::byte* body = nullptr;
    size_t num_body_bytes = 0;
    Unexpected into;                // destination of the message if nothing awaits it
    std::optional<Posted> awaited;  // or what awaits it
    bool has_ended = false;         // the connection is over
    bool said_farewell = false;
  };
  struct Operation {
    int peer = 0;
    bool is_done = false;
  };

  [[nodiscard]] Handle new_handle(int peer);
  void move(int rank);
  void move_outgoing(Peer& peer);
  void move_incoming(Peer& peer, int rank);
  void begin_body(Peer& peer, int rank);
  void end_body(Peer& peer, int rank);
  static void require_length(const Posted& posted, uint64_t num_bytes, int rank);
  static void fill(const Posted& posted, std::span<const std::byte> data, int rank);

  int rank_;
  std::vector<Peer> peers_;            // by rank; the own entry is unused
  std::vector<Operation> operations_;  // by handle
  std::vector<Handle> free_;
};

}  // namespace reprise::parallel
