#include "reprise/parallel/communicator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "reprise/parallel/mailbox.h"
#include "tests/support/parallel/local_transport.h"

namespace reprise::parallel {
namespace {

using std::chrono::milliseconds;

/// Short enough for a test that waits for the timeouts, and long enough for a thread on a busy
/// machine.
CommunicatorOptions quick_options() {
  return {.timeout = milliseconds(2000),
          .beat_interval = milliseconds(50),
          .silence = milliseconds(4000)};
}

template <typename Condition>
void wait_until(const Condition& is_met, milliseconds limit) {
  const auto end = std::chrono::steady_clock::now() + limit;
  while (!is_met() && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(milliseconds(5));
  }
}

std::unique_ptr<Communicator> join(const std::shared_ptr<LocalHub>& hub,
                                   int rank,
                                   const CommunicatorOptions& options = {}) {
  return std::make_unique<Communicator>(std::make_unique<LocalTransport>(hub, rank), options);
}

// The message of the RankError that `run` throws; empty: `run` throws none.
template <typename Run>
std::string failure_of(const Run& run) {
  try {
    run();
  } catch (const RankError& error) {
    return error.what();
  }
  return {};
}

/// Connections between devices that notice an error when the test says so.
class TestDevices final : public DeviceLink {
 public:
  [[nodiscard]] std::string find_failure() noexcept override {
    return is_broken ? "the cable is out" : "";
  }
  void abort() noexcept override { ++num_aborts; }

  std::atomic<bool> is_broken = false;
  std::atomic<int> num_aborts = 0;
};

TEST(Communicator, ends_the_connections_of_devices_when_a_rank_is_lost) {
  run_ranks(2, [](int rank, const std::shared_ptr<LocalHub>& hub) {
    CommunicatorOptions options = quick_options();
    options.silence = milliseconds(500);
    const auto ranks = join(hub, rank, options);
    TestDevices devices;
    TestDevices removed;
    ranks->link().add(devices);
    ranks->link().add(removed);
    ranks->link().remove(removed);
    ranks->barrier(Operation::start_up);
    EXPECT_EQ(devices.num_aborts, 0);
    hub->silence(rank);
    wait_until([&] { return devices.num_aborts > 0; }, milliseconds(10'000));
    EXPECT_EQ(devices.num_aborts, 1);
    EXPECT_EQ(removed.num_aborts, 0);
    EXPECT_NE(failure_of([&] { ranks->check(); }).find("has sent no heartbeat"), std::string::npos);
    // Connections that are made after the failure end at once.
    TestDevices late;
    ranks->link().add(late);
    EXPECT_EQ(late.num_aborts, 1);
    ranks->link().remove(late);
    ranks->link().remove(devices);
  });
}

TEST(Communicator, takes_errors_of_connected_devices_for_failures) {
  run_ranks(2, [](int rank, const std::shared_ptr<LocalHub>& hub) {
    const auto ranks = join(hub, rank, quick_options());
    TestDevices devices;
    ranks->link().add(devices);
    devices.is_broken = true;
    wait_until([&] { return ranks->has_failed(); }, milliseconds(10'000));
    EXPECT_EQ(failure_of([&] { ranks->check(); }), "the cable is out");
    EXPECT_EQ(devices.num_aborts, 1);
    ranks->link().remove(devices);
  });
}

TEST(Communicator, ends_a_wait_for_a_device_that_is_longer_than_the_timeout) {
  run_ranks(2, [](int rank, const std::shared_ptr<LocalHub>& hub) {
    CommunicatorOptions options = quick_options();
    options.timeout = milliseconds(400);
    const auto ranks = join(hub, rank, options);
    TestDevices devices;
    ranks->barrier(Operation::start_up);
    {
      // Without connected devices, a step may take as long as it likes.
      const RankLink::DeviceWait waits(ranks->link());
      std::this_thread::sleep_for(milliseconds(800));
    }
    ranks->check();
    ranks->link().add(devices);
    std::this_thread::sleep_for(milliseconds(800));  // nothing waits
    ranks->check();
    {
      const RankLink::DeviceWait waits(ranks->link());
      wait_until([&] { return devices.num_aborts > 0; }, milliseconds(10'000));
    }
    EXPECT_NE(failure_of([&] { ranks->check(); }).find(std::to_string(rank) + " waited"),
              std::string::npos);
    ranks->link().remove(devices);
  });
}

TEST(Communicator, gathers_the_bytes_of_every_rank_in_the_order_of_ranks) {
  for (const int size : {1, 2, 4}) {
    run_ranks(size, [&](int rank, const std::shared_ptr<LocalHub>& hub) {
      const auto ranks = join(hub, rank);
      for (int round = 0; round < 50; ++round) {
        const std::array mine = {rank * 1000 + round, -rank};
        std::vector<int> all(static_cast<size_t>(2 * size));
        ranks->all_gather(Operation::data, mine.data(), all.data(), sizeof mine);
        for (int peer = 0; peer < size; ++peer) {
          EXPECT_EQ(all[static_cast<size_t>(2 * peer)], peer * 1000 + round);
          EXPECT_EQ(all[static_cast<size_t>(2 * peer + 1)], -peer);
        }
      }
      ranks->finish();
    });
  }
}

TEST(Communicator, broadcasts_from_any_rank) {
  run_ranks(3, [](int rank, const std::shared_ptr<LocalHub>& hub) {
    const auto ranks = join(hub, rank);
    for (int root = 0; root < 3; ++root) {
      int value = rank == root ? 7 + root : -1;
      ranks->broadcast(Operation::command, root, &value, sizeof value, Patience::unlimited);
      EXPECT_EQ(value, 7 + root);
    }
  });
}

TEST(Communicator, a_barrier_ends_after_every_rank_has_come) {
  std::atomic<int> num_came = 0;
  run_ranks(4, [&](int rank, const std::shared_ptr<LocalHub>& hub) {
    const auto ranks = join(hub, rank);
    std::this_thread::sleep_for(milliseconds(10 * rank));
    ++num_came;
    ranks->barrier(Operation::start_up);
    EXPECT_EQ(num_came, 4);
  });
}

TEST(Communicator, names_the_rank_that_is_late) {
  std::atomic<int> num_told = 0;
  run_ranks(3, [&num_told](int rank, const std::shared_ptr<LocalHub>& hub) {
    const auto ranks = join(hub, rank, quick_options());
    if (rank == 2) return wait_until([&] { return num_told == 2; }, 4 * quick_options().timeout);
    const std::string text = failure_of([&] { ranks->barrier(Operation::data); });
    EXPECT_NE(text.find("rank 2 did not take part"), std::string::npos) << text;
    // Every later operation fails at once with the same sentence.
    EXPECT_EQ(failure_of([&] { ranks->barrier(Operation::data); }), text);
    int mine = 0;
    std::array<int, 3> all{};
    EXPECT_FALSE(ranks->try_all_gather(&mine, all.data(), sizeof mine));
    ++num_told;
  });
}

TEST(Communicator, says_at_which_operation_another_rank_is) {
  run_ranks(2, [](int rank, const std::shared_ptr<LocalHub>& hub) {
    const auto ranks = join(hub, rank, quick_options());
    const std::string text =
        failure_of([&] { ranks->barrier(rank == 0 ? Operation::agreement : Operation::data); });
    EXPECT_NE(text.find(rank == 0 ? "rank 1 is at operation 1 (data)"
                                  : "rank 0 is at operation 1 (agreement)"),
              std::string::npos)
        << text;
  });
}

TEST(Communicator, notices_a_silent_rank_while_no_operation_runs) {
  std::atomic<bool> is_over = false;
  run_ranks(2, [&is_over](int rank, const std::shared_ptr<LocalHub>& hub) {
    std::atomic<int> num_calls = 0;
    std::string noticed;
    CommunicatorOptions options = quick_options();
    options.on_failure = [&](const std::string& text) {
      noticed = text;
      ++num_calls;
    };
    const auto ranks = join(hub, rank, options);
    if (rank == 1) {
      hub->silence(1);
      return wait_until([&] { return is_over.load(); }, milliseconds(30'000));
    }
    wait_until([&] { return num_calls > 0; }, milliseconds(25'000));
    is_over = true;
    EXPECT_EQ(num_calls, 1);
    EXPECT_NE(noticed.find("rank 1 has sent no heartbeat"), std::string::npos) << noticed;
    EXPECT_THROW(ranks->check(), RankError);
  });
}

TEST(Communicator, waits_without_a_limit_for_a_rank_that_gives_signs_of_life) {
  run_ranks(2, [](int rank, const std::shared_ptr<LocalHub>& hub) {
    const auto ranks = join(hub, rank, quick_options());
    // This sleep is longer than the timeout of other operations.
    if (rank == 0) std::this_thread::sleep_for(quick_options().timeout + milliseconds(500));
    int value = rank == 0 ? 5 : 0;
    ranks->broadcast(Operation::command, 0, &value, sizeof value, Patience::unlimited);
    EXPECT_EQ(value, 5);
    ranks->barrier(Operation::end);
  });
}

TEST(Communicator, groups_of_different_kinds_never_take_each_others_messages) {
  run_ranks(4, [](int rank, const std::shared_ptr<LocalHub>& hub) {
    const auto ranks = join(hub, rank);
    const int first = rank / 2 * 2;
    const auto pair = ranks->group(GroupKind::tensor, {first, first + 1});
    const auto same = ranks->group(GroupKind::data, {rank % 2, rank % 2 + 2});
    for (int round = 0; round < 50; ++round) {
      std::array<int, 2> of_pair{};
      std::array<int, 2> of_same{};
      // Two threads, so that operations of both groups are under way at the same time.
      std::thread other(
          [&] { same->all_gather(Operation::data, &rank, of_same.data(), sizeof rank); });
      pair->all_gather(Operation::data, &rank, of_pair.data(), sizeof rank);
      other.join();
      EXPECT_EQ(of_pair, (std::array{first, first + 1}));
      EXPECT_EQ(of_same, (std::array{rank % 2, rank % 2 + 2}));
    }
    ranks->finish();
  });
}

TEST(Mailbox, brings_messages_of_any_length_in_the_order_in_which_they_were_sent) {
  constexpr int kNumMessages = 40;
  run_ranks(3, [](int rank, const std::shared_ptr<LocalHub>& hub) {
    const auto ranks = join(hub, rank);
    Mailbox mailbox(*ranks);
    const auto message = [](int from, int number) {
      return std::vector<std::byte>(static_cast<size_t>(number * number * 7),
                                    static_cast<std::byte>(from * 64 + number));
    };
    for (int number = 0; number < kNumMessages; ++number) {
      for (int to = 0; to < 3; ++to) {
        if (to != rank) mailbox.post(to, message(rank, number));
      }
    }
    std::array<int, 3> next{};
    next[static_cast<size_t>(rank)] = kNumMessages;
    while (next != std::array{kNumMessages, kNumMessages, kNumMessages} || !mailbox.is_sent()) {
      const bool has_moved = mailbox.poll([&](int from, std::span<const std::byte> bytes) {
        const std::vector<std::byte> expected = message(from, next[static_cast<size_t>(from)]++);
        EXPECT_TRUE(std::ranges::equal(bytes, expected));
      });
      if (!has_moved) std::this_thread::sleep_for(milliseconds(1));
    }
    ranks->finish();
  });
}

TEST(Mailbox, refuses_a_message_whose_announced_length_is_absurd) {
  run_ranks(2, [](int rank, const std::shared_ptr<LocalHub>& hub) {
    const auto ranks = join(hub, rank);
    if (rank == 1) {
      const uint64_t length = uint64_t{1} << 60;
      const std::lock_guard lock(ranks->link().mutex());
      (void)ranks->link().transport().send(0, RankLink::kMailTag, &length, sizeof length);
      return;
    }
    Mailbox mailbox(*ranks);
    const std::string failure = failure_of([&] {
      for (;;) {
        if (!mailbox.poll({})) std::this_thread::sleep_for(milliseconds(1));
      }
    });
    EXPECT_NE(failure.find("rank 1 announced a message of"), std::string::npos) << failure;
  });
}

}  // namespace
}  // namespace reprise::parallel
