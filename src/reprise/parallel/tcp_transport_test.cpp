#include "reprise/parallel/tcp_transport.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <exception>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "reprise/base/error.h"
#include "reprise/parallel/communicator.h"
#include "reprise/parallel/mailbox.h"

namespace reprise::parallel {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

// Runs each rank on a thread of its own, connected through TCP on this machine. `unknown_peer` gets
// the port while the ranks meet.
template <typename Run>
void run_tcp_ranks(int size,
                   const Run& run,
                   const std::function<void(uint16_t)>& unknown_peer = {},
                   std::vector<std::string>* reports = nullptr) {
  uint16_t port = 0;
  Socket listener = listen_on_free_port(port);
  std::mutex mutex;
  std::vector<std::thread> threads;
  if (unknown_peer) unknown_peer(port);
  for (int rank = 0; rank < size; ++rank) {
    TcpMeeting meeting{.rank = rank, .size = size, .port = port};
    if (rank == 0) meeting.listener = std::exchange(listener, Socket());
    meeting.on_unknown_peer = [&mutex, reports](const std::string& text) {
      const std::lock_guard lock(mutex);
      if (reports != nullptr) reports->push_back(text);
    };
    threads.emplace_back([&run, meeting = std::move(meeting), rank]() mutable {
      run(std::make_unique<TcpTransport>(rank, meet(std::move(meeting))));
    });
  }
  for (std::thread& thread : threads) thread.join();
}

int connect_to_port(uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  EXPECT_EQ(connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  return fd;
}

TEST(TcpTransport, carries_collective_operations_and_messages) {
  for (const int size : {1, 2, 4}) {
    run_tcp_ranks(size, [size](std::unique_ptr<Transport> transport) {
      Communicator ranks(std::move(transport), {});
      Mailbox mailbox(ranks);
      for (int round = 0; round < 100; ++round) {
        // Sizes up to 3 MB, more than a socket buffers.
        const size_t count = round % 10 == 0 ? 800'000 : static_cast<size_t>(round);
        std::vector<int> mine(count, ranks.rank() * 1000 + round);
        std::vector<int> all(count * static_cast<size_t>(size));
        ranks.all_gather(Operation::data, mine.data(), all.data(), count * sizeof(int));
        for (size_t i = 0; i < all.size(); i += 997) {
          ASSERT_EQ(all[i], static_cast<int>(i / count) * 1000 + round);
        }
        int value = ranks.rank() == size - 1 ? round : -1;
        ranks.broadcast(Operation::command, size - 1, &value, sizeof value);
        ASSERT_EQ(value, round);
      }
      for (int to = 0; to < size; ++to) {
        if (to != ranks.rank()) mailbox.post(to, std::vector<std::byte>(500'000, std::byte{7}));
      }
      int num_messages = 0;
      while (num_messages < size - 1 || !mailbox.is_sent()) {
        (void)mailbox.poll([&](int, std::span<const std::byte> message) {
          EXPECT_EQ(message.size(), 500'000U);
          ++num_messages;
        });
        std::this_thread::yield();
      }
      ranks.finish();
      EXPECT_FALSE(ranks.has_failed());
    });
  }
}

TEST(TcpTransport, names_a_rank_whose_connection_ends) {
  run_tcp_ranks(3, [](std::unique_ptr<Transport> transport) {
    const int rank = transport->rank();
    if (rank == 2) return;  // leaves without a farewell, as if the rank was killed
    Communicator ranks(std::move(transport), {});
    try {
      ranks.barrier(Operation::data, Patience::unlimited);
      ADD_FAILURE() << "the operation ended without rank 2";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("rank 2 has closed its connection"));
    }
  });
}

// Two ranks meet while unknown peers connect to their port. Returns what the ranks report about
// these peers.
template <typename Connect>
std::vector<std::string> unknown_peers_seen(const Connect& connect) {
  std::vector<int> fds;
  std::vector<std::string> reports;
  run_tcp_ranks(
      2,
      [](std::unique_ptr<Transport> transport) {
        Communicator ranks(std::move(transport), {});
        ranks.barrier(Operation::data);
        ranks.finish();
      },
      [&](uint16_t port) { connect(port, fds); },
      &reports);
  for (const int fd : fds) close(fd);
  return reports;
}

TEST(TcpTransport, unknown_peers_at_the_port_are_named_and_change_nothing) {
  const std::vector<std::string> reports = unknown_peers_seen([](uint16_t port, auto& fds) {
    const std::array<std::string, 3> first_bytes = {
        "GET / HTTP/1.1\r\nHost: localhost\r\nAccept: */*\r\n\r\n",
        std::string(100, '\xff'),
        "RPRSRANK\x01"};
    for (const std::string& bytes : first_bytes) {
      fds.push_back(connect_to_port(port));
      (void)::send(fds.back(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    }
    fds.push_back(connect_to_port(port));  // says nothing
    close(connect_to_port(port));          // and one that leaves
  });
  ASSERT_GE(reports.size(), 2U);
  for (const std::string& text : reports) {
    EXPECT_THAT(text, HasSubstr("a connection from 127.0.0.1 was closed"));
  }
}

// The first bytes of a rank, as tcp_rendezvous.cpp writes them.
struct FirstBytes {
  std::array<char, 8> magic = {'R', 'P', 'R', 'S', 'R', 'A', 'N', 'K'};
  uint32_t version = 1;
  uint32_t size = 2;
  uint32_t rank = 1;
  uint32_t port = 9;
  std::array<uint8_t, 16> token{};
};

TEST(TcpTransport, a_connection_without_the_token_of_the_meeting_is_refused) {
  const std::vector<std::string> reports = unknown_peers_seen([](uint16_t port, auto& fds) {
    FirstBytes bytes;
    bytes.token.fill(1);
    fds.push_back(connect_to_port(port));
    (void)::send(fds.back(), &bytes, sizeof bytes, MSG_NOSIGNAL);
  });
  ASSERT_EQ(reports.size(), 1U);
  EXPECT_THAT(reports[0], HasSubstr("it did not take part when the ranks connected"));
}

TEST(TcpTransport, names_the_ranks_that_did_not_come) {
  uint16_t port = 0;
  TcpMeeting meeting{.rank = 0, .size = 3, .timeout = std::chrono::seconds(1)};
  meeting.listener = listen_on_free_port(port);
  try {
    (void)meet(std::move(meeting));
    ADD_FAILURE() << "nobody came";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("in vain for rank 1, 2 of 3"));
  }
}

TEST(TcpTransport, wrong_bytes_are_an_error_and_no_allocation) {
  for (const bool is_too_long : {false, true}) {
    std::array<int, 2> pair{};
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, pair.data()), 0);
    std::vector<Socket> sockets(2);
    sockets[1] = Socket(pair[0]);
    TcpTransport transport(0, std::move(sockets));
    struct {
      uint32_t magic = 0x50524d53;
      uint32_t tag = 5;
      uint64_t num_bytes = uint64_t{1} << 62;
    } header;
    if (!is_too_long) header = {.magic = 0x20544547, .tag = 5, .num_bytes = 3};
    ASSERT_EQ(::send(pair[1], &header, sizeof header, 0), static_cast<ssize_t>(sizeof header));
    int value = 0;
    const Transport::Handle handle = transport.receive(1, 5, &value, sizeof value);
    try {
      (void)transport.test(handle);
      ADD_FAILURE() << "the bytes were taken";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("rank 1 sent bytes that are not a message of a rank"));
    }
    close(pair[1]);
  }
}

}  // namespace
}  // namespace reprise::parallel
