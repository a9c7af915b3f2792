#include "reprise/kv_cache/events/kv_event_publisher.h"

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace reprise::kv_cache {
namespace {

using Sent = std::pair<uint64_t, std::string>;

/// The messages that the fake sockets have seen, and their next results; shared with the test,
/// because the publisher owns the sockets.
struct FakeNetwork {
  std::mutex mutex;
  std::condition_variable changed;
  bool is_stuck = false;
  EventDelivery delivery = EventDelivery::sent;  // sending takes for ever
  std::vector<Sent> sent;
  std::optional<uint64_t> replay_from;  // a request that waits
  std::vector<Sent> replayed;
  bool is_replayed = false;
  size_t most_replayed = 1000;  // then the peer reads no more

  void set_stuck(bool value) {
    const std::lock_guard lock(mutex);
    is_stuck = value;
    changed.notify_all();
  }
  void wait_for_sent(size_t count) {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return sent.size() >= count; });
  }
  std::vector<Sent> replay(uint64_t from) {
    std::unique_lock lock(mutex);
    replay_from = from;
    is_replayed = false;
    changed.wait(lock, [&] { return is_replayed; });
    return std::exchange(replayed, {});
  }
};

class FakeSockets final : public EventSockets {
 public:
  explicit FakeSockets(FakeNetwork& network) : network_(&network) {}

  EventDelivery send(const NumberedPayload& payload) override {
    std::unique_lock lock(network_->mutex);
    network_->changed.wait(lock, [&] { return !network_->is_stuck; });
    network_->sent.emplace_back(payload.number, payload.payload);
    network_->changed.notify_all();
    return network_->delivery;
  }

  void answer_replays(const ForEachFrom& payloads_from) override {
    const std::lock_guard lock(network_->mutex);
    if (!network_->replay_from) return;
    payloads_from(*std::exchange(network_->replay_from, {}), [&](const NumberedPayload& payload) {
      network_->replayed.emplace_back(payload.number, payload.payload);
      return network_->replayed.size() < network_->most_replayed;
    });
    network_->is_replayed = true;
    network_->changed.notify_all();
  }

 private:
  FakeNetwork* network_;  // of the test
};

TEST(KvEventPublisher, sends_payloads_in_their_order_and_numbers_them_from_0) {
  FakeNetwork network;
  {
    KvEventPublisher publisher({}, std::make_unique<FakeSockets>(network));
    for (const char* payload : {"a", "b", "c"}) publisher.publish(payload);
  }  // the end sends what is queued
  EXPECT_EQ(network.sent, (std::vector<Sent>{{0, "a"}, {1, "b"}, {2, "c"}}));
}

TEST(KvEventPublisher, never_waits_for_the_network_and_counts_what_it_drops) {
  FakeNetwork network;
  network.is_stuck = true;
  KvEventPublisher publisher({.max_queue_size = 3}, std::make_unique<FakeSockets>(network));
  // publish() runs in a thread of its own, so that a publisher that waits fails this test instead
  // of blocking it.
  auto published = std::async(std::launch::async, [&] {
    for (int i = 0; i < 100; ++i) publisher.publish(std::to_string(i));
  });
  ASSERT_EQ(published.wait_for(std::chrono::seconds(300)), std::future_status::ready);
  const uint64_t num_dropped = publisher.num_dropped();
  EXPECT_GE(num_dropped, 96U);  // three payloads wait, and one may be on its way
  EXPECT_LE(num_dropped, 97U);
  network.set_stuck(false);
  network.wait_for_sent(100 - num_dropped);
  publisher.publish("after");
  network.wait_for_sent(101 - num_dropped);
  // Dropped payloads have numbers too, so a subscriber notices the gap.
  EXPECT_EQ(network.sent.front(), (Sent{0, "0"}));
  EXPECT_EQ(network.sent.back(), (Sent{100, "after"}));
}

TEST(KvEventPublisher, counts_what_slow_subscribers_miss) {
  FakeNetwork network;
  network.delivery = EventDelivery::missed_by_some;
  KvEventPublisher publisher({}, std::make_unique<FakeSockets>(network));
  publisher.publish("a");
  while (publisher.num_missed() == 0) std::this_thread::yield();
  EXPECT_EQ(publisher.num_sent(), 1U);
  EXPECT_EQ(publisher.num_dropped(), 0U);
}

TEST(KvEventPublisher, replays_the_last_payloads_from_a_number_on) {
  FakeNetwork network;
  KvEventPublisher publisher({.buffer_steps = 4}, std::make_unique<FakeSockets>(network));
  for (int i = 0; i < 10; ++i) publisher.publish(std::to_string(i));
  network.wait_for_sent(10);
  EXPECT_EQ(network.replay(0), (std::vector<Sent>{{6, "6"}, {7, "7"}, {8, "8"}, {9, "9"}}));
  EXPECT_EQ(network.replay(8), (std::vector<Sent>{{8, "8"}, {9, "9"}}));
  EXPECT_EQ(network.replay(10), std::vector<Sent>{});
  network.most_replayed = 1;
  EXPECT_EQ(network.replay(7), (std::vector<Sent>{{7, "7"}}));
}

TEST(KvEventPublisher, keeps_nothing_for_replays_if_it_is_told_so) {
  FakeNetwork network;
  KvEventPublisher publisher({.buffer_steps = 0}, std::make_unique<FakeSockets>(network));
  publisher.publish("a");
  network.wait_for_sent(1);
  EXPECT_EQ(network.replay(0), std::vector<Sent>{});
}

TEST(KvEventPublisher, bounds_the_memory_for_replays) {
  FakeNetwork network;
  KvEventPublisher publisher({}, std::make_unique<FakeSockets>(network), 100);
  const std::string third(33, 'x');
  for (int i = 0; i < 5; ++i) publisher.publish(third);
  network.wait_for_sent(5);
  EXPECT_EQ(network.replay(0).size(), 3U);
}

TEST(KvEventPublisher, ends_although_the_network_stands_still_for_a_moment) {
  FakeNetwork network;
  network.is_stuck = true;
  auto publisher =
      std::make_unique<KvEventPublisher>(KvEventsConfig{}, std::make_unique<FakeSockets>(network));
  publisher->publish("a");
  auto ended = std::async(std::launch::async, [&] { publisher.reset(); });
  network.set_stuck(false);
  ASSERT_EQ(ended.wait_for(std::chrono::seconds(300)), std::future_status::ready);
}

}  // namespace
}  // namespace reprise::kv_cache
