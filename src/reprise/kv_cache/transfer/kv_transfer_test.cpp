#include "reprise/kv_cache/transfer/kv_transfer.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstring>
#include <functional>
#include <future>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>

#include "reprise/base/error.h"
#include "reprise/device/cpu/cpu_device.h"
#include "reprise/kv_cache/transfer/kv_mac.h"
#include "reprise/kv_cache/transfer/kv_messages.h"
#include "reprise/kv_cache/transfer/kv_socket.h"
#include "reprise/tensor/op.h"

namespace reprise::kv_cache {
namespace {

class NoTensorOps final : public OpExecutor {
 public:
  void execute(const OpCall&, std::span<const Tensor>, std::span<Tensor>) override { FAIL(); }
};

const KvCacheLayout kLayout{.num_layers = 2,
                            .num_blocks = 12,
                            .num_kv_heads = 2,
                            .block_size = 4,
                            .head_dim = 3,
                            .dtype = DType::f32};
constexpr std::string_view kModel = "a model";

std::vector<BlockId> blocks(std::initializer_list<int32_t> ids) {
  std::vector<BlockId> result;
  for (const int32_t id : ids) result.push_back(BlockId{id});
  return result;
}

std::vector<int32_t> prompt_of(int num_tokens) {
  std::vector<int32_t> tokens(static_cast<size_t>(num_tokens));
  std::iota(tokens.begin(), tokens.end(), 7);
  return tokens;
}

/// A cache whose elements all differ, so that a copy shows where each element came from.
class Cache {
 public:
  explicit Cache(float first, const KvCacheLayout& layout = kLayout)
      : device_(device::create_cpu_device({.num_threads = 1})),
        stream_(device_->create_stream()),
        tensors_(layout, *device_, no_ops_) {
    for (float& element : all()) element = first++;
  }

  [[nodiscard]] std::span<float> all() const {
    const device::BufferView memory = tensors_.memory();
    return {static_cast<float*>(memory.data), memory.bytes / sizeof(float)};
  }
  /// The row of a slot in tensor t.
  [[nodiscard]] std::vector<float> row(size_t t, BlockId block, int64_t head, int64_t slot) const {
    const auto* const data = static_cast<const float*>(tensors_.tensors()[t].data());
    const int64_t at =
        ((static_cast<int64_t>(block) * kLayout.num_kv_heads + head) * kLayout.block_size + slot) *
        kLayout.head_dim;
    return {data + at, data + at + kLayout.head_dim};
  }
  [[nodiscard]] device::Stream& stream() { return *stream_; }
  [[nodiscard]] const KvCacheTensors& tensors() const { return tensors_; }

 private:
  NoTensorOps no_ops_;
  std::unique_ptr<device::Device> device_;
  std::unique_ptr<device::Stream> stream_;
  KvCacheTensors tensors_;
};

/// The other end of a connection, which sends whatever a test wants. Waits at most a minute.
class Peer {
 public:
  explicit Peer(const KvAddress& address) : socket_(address) {
    while (!socket_.connect(address)) pause();
  }
  explicit Peer(KvSocket socket) : socket_(std::move(socket)) {}
  static Peer accept_from(KvSocket& listener) {
    for (;;) {
      if (std::optional<KvSocket> arrived = listener.accept()) return Peer(std::move(*arrived));
      pause();
    }
  }

  void write(std::string_view text) {
    while (!text.empty()) {
      text.remove_prefix(socket_.write(std::as_bytes(std::span(text))));
      if (!text.empty()) pause();
    }
  }
  void skip(size_t num_bytes) {
    std::vector<std::byte> bytes(num_bytes);
    for (std::span<std::byte> left = bytes; !left.empty();) {
      left = left.subspan(socket_.read(left));
      if (!left.empty()) pause();
    }
  }
  std::string read_line() {
    std::string line;
    for (int i = 0; !socket_.read_line(line, 8192); ++i) {
      if (i == 60'000) throw Error("nothing came for a minute");
      pause();
    }
    return line;
  }
  /// Whether the other side ended the connection after its last bytes.
  bool is_ended() {
    try {
      for (int i = 0; i < 60'000; ++i) {
        std::array<std::byte, 4096> bytes{};
        if (socket_.read(bytes) == 0) pause();
      }
    } catch (const Error&) {
      return true;
    }
    return false;
  }

 private:
  static void pause() { std::this_thread::sleep_for(std::chrono::milliseconds(1)); }

  KvSocket socket_;
};

constexpr const char* kSecret = "a secret of sixteen bytes and more";

class Transfer : public ::testing::TestWithParam<KvConnector> {
 protected:
  [[nodiscard]] static KvTransferConfig config(KvRole role, const char* secret = "") {
    return {.connector = GetParam(), .role = role, .kv_port = 0, .secret = secret};
  }
  /// Fetches in the way of a consumer of `from`.
  static KvFetch::Result fetch(KvTransfer& to,
                               const KvSource& from,
                               int num_tokens = 10,
                               const std::string& cache_salt = "") {
    return begin_fetch(to, from, num_tokens, cache_salt).get();
  }
  static std::future<KvFetch::Result> begin_fetch(KvTransfer& to,
                                                  const KvSource& from,
                                                  int num_tokens = 10,
                                                  const std::string& cache_salt = "") {
    auto promise = std::make_shared<std::promise<KvFetch::Result>>();
    std::future<KvFetch::Result> result = promise->get_future();
    to.fetch({.source = from,
              .token_ids = prompt_of(num_tokens),
              .adapter = "",
              .cache_salt = cache_salt,
              .on_fetched = [promise](KvFetch::Result fetched) {
                promise->set_value(std::move(fetched));
              }});
    return result;
  }

  /// An export of 10 tokens in blocks 5, 2 and 9.
  std::shared_ptr<KvExport> save(KvTransfer& from, int num_tokens = 10) {
    auto exported = from.begin_export("", "");
    exported->save(here_.stream(), here_.tensors(), blocks({5, 2, 9}), prompt_of(num_tokens));
    return exported;
  }
  static KvSource source_of(const KvTransfer& producer, const KvExport& exported) {
    return source_at(producer.port(), exported.id());
  }
  static KvSource source_at(int32_t port, const std::string& id = "x") {
    return {.producer = {.host = "127.0.0.1", .port = port}, .id = id};
  }
  static Peer peer_of(int32_t port) {
    return Peer(GetParam() == KvConnector::tcp ? KvSocket::look_up("127.0.0.1", port).front()
                                               : KvSocket::address_here(port));
  }
  static KvSocket listener() {
    return GetParam() == KvConnector::tcp ? KvSocket::listen("127.0.0.1", 0)
                                          : KvSocket::listen_here(0);
  }

  Cache here_{1};
};

INSTANTIATE_TEST_SUITE_P(Connectors,
                         Transfer,
                         ::testing::Values(KvConnector::tcp, KvConnector::shared_memory),
                         [](const auto& test) {
                           return test.param == KvConnector::tcp ? "tcp" : "shared_memory";
                         });

TEST_P(Transfer, brings_each_slot_to_its_place_and_nothing_else) {
  KvTransfer producer(config(KvRole::producer), kLayout, std::string(kModel));
  KvTransfer consumer(config(KvRole::consumer), kLayout, std::string(kModel));
  const auto exported = save(producer);
  ASSERT_TRUE(exported->is_kept());
  const KvFetch::Result fetched = fetch(consumer, source_of(producer, *exported));
  ASSERT_TRUE(fetched.image) << fetched.error;
  ASSERT_EQ(fetched.image->num_tokens, 10);

  Cache there(-1000);
  const std::vector<float> before(there.all().begin(), there.all().end());
  const auto to = blocks({1, 11, 3});
  // In the consumer's cache the first block is already present and shared with other requests.
  load_kv(*fetched.image, there.stream(), there.tensors(), to, 1, 10);
  const auto from = blocks({5, 2, 9});
  for (size_t tensor = 0; tensor < 4; ++tensor) {
    for (int64_t token = 4; token < 10; ++token) {
      for (int64_t head = 0; head < kLayout.num_kv_heads; ++head) {
        const auto block = static_cast<size_t>(token / 4);
        EXPECT_EQ(there.row(tensor, to[block], head, token % 4),
                  here_.row(tensor, from[block], head, token % 4));
      }
    }
  }
  // Values of other requests in the last block stay with the engine that computed them.
  EXPECT_EQ(there.row(0, to[2], 1, 2), std::vector<float>(3, 0.0F));
  size_t num_changed = 0;
  for (size_t i = 0; i < before.size(); ++i) num_changed += before[i] != there.all()[i] ? 1 : 0;
  EXPECT_EQ(num_changed * sizeof(float), 2 * kLayout.bytes_per_block());
}

TEST(KvImage, has_the_rows_of_layers_with_different_heads) {
  KvCacheLayout layout = kLayout;
  layout.layer_heads = {{.count = 2, .head_dim = 3}, {.count = 1, .head_dim = 5}};
  layout.head_dim = 5;
  EXPECT_EQ(layout.bytes_per_block(), 2 * 4 * (2 * 3 + 1 * 5) * sizeof(float));
  EXPECT_NE(describe_cache(layout), describe_cache(kLayout));
  Cache from(1, layout);
  Cache to(-10'000, layout);
  const auto ids = blocks({5, 2});
  const KvImage image{.num_tokens = 6, .bytes = save_kv(from.stream(), from.tensors(), ids, 6)};
  from.stream().synchronize();
  load_kv(image, to.stream(), to.tensors(), ids, 0, 6);
  to.stream().synchronize();
  for (size_t t = 0; t < 4; ++t) {
    const Tensor& tensor = from.tensors().tensors()[t];
    const Tensor& copied = to.tensors().tensors()[t];
    const CacheHeads heads = layout.heads_of(static_cast<int64_t>(t) / 2);
    ASSERT_EQ(tensor.shape(), (Shape{12, heads.count, 4, heads.head_dim}));
    for (int64_t token = 0; token < 6; ++token) {
      for (int64_t head = 0; head < heads.count; ++head) {
        const auto block = static_cast<int64_t>(ids[static_cast<size_t>(token / 4)]);
        const int64_t row = ((block * heads.count + head) * 4 + token % 4) * heads.head_dim;
        EXPECT_EQ(std::memcmp(tensor.data_as<float>() + row,
                              copied.data_as<float>() + row,
                              static_cast<size_t>(heads.head_dim) * sizeof(float)),
                  0);
      }
    }
  }
}

TEST_P(Transfer, gives_an_image_to_who_knows_its_id_and_once_only) {
  KvTransfer producer(config(KvRole::producer), kLayout, std::string(kModel));
  KvTransfer consumer(config(KvRole::consumer), kLayout, std::string(kModel));
  const auto exported = save(producer);
  KvSource source = source_of(producer, *exported);
  source.id.back() = source.id.back() == '0' ? '1' : '0';
  EXPECT_NE(fetch(consumer, source).error.find("not kept here"), std::string::npos);
  source.id = exported->id();
  EXPECT_TRUE(fetch(consumer, source).image);
  // The producer learns a moment later that the bytes have arrived.
  while (producer.counts().exports.bytes > 0) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_FALSE(fetch(consumer, source).image);
  EXPECT_EQ(consumer.counts().num_failed, 2U);
  EXPECT_EQ(consumer.counts().tokens_fetched, 10U);
}

TEST_P(Transfer, refuses_what_belongs_to_another_model_or_prompt) {
  KvTransfer producer(config(KvRole::producer), kLayout, std::string(kModel));
  const auto exported = save(producer);
  const KvSource source = source_of(producer, *exported);
  KvTransfer other_model(config(KvRole::consumer), kLayout, "another model");
  EXPECT_NE(fetch(other_model, source).error.find("another model"), std::string::npos);
  KvTransfer consumer(config(KvRole::consumer), kLayout, std::string(kModel));
  EXPECT_NE(fetch(consumer, source, 9).error.find("another prompt"), std::string::npos);
  const KvFetch::Result of_another_tenant = fetch(consumer, source, 10, "another salt");
  EXPECT_FALSE(of_another_tenant.image);
  EXPECT_NE(of_another_tenant.error.find("another prompt"), std::string::npos);
  // A longer prompt with the same beginning may use the image.
  EXPECT_TRUE(fetch(consumer, source, 11).image);
}

TEST_P(Transfer, says_who_does_not_answer) {
  KvTransfer consumer(config(KvRole::consumer), kLayout, std::string(kModel));
  const std::string error = fetch(consumer, source_at(1)).error;
  EXPECT_NE(error.find("127.0.0.1:1"), std::string::npos) << error;
}

TEST_P(Transfer, keeps_what_it_promised_and_refuses_what_has_no_room) {
  KvTransferConfig small = config(KvRole::producer);
  small.kv_buffer_size = static_cast<int64_t>(kv_image_bytes(kLayout, 10));
  KvTransfer producer(small, kLayout, std::string(kModel));
  KvTransfer consumer(config(KvRole::consumer), kLayout, std::string(kModel));
  const auto first = save(producer);
  EXPECT_FALSE(save(producer)->is_kept());
  EXPECT_EQ(producer.counts().exports.num_refused, 1U);
  EXPECT_TRUE(fetch(consumer, source_of(producer, *first)).image);
}

TEST_P(Transfer, holds_no_more_bytes_of_fetched_prompts_than_it_may) {
  KvTransferConfig small = config(KvRole::consumer);
  small.kv_buffer_size = static_cast<int64_t>(kv_image_bytes(kLayout, 10));
  KvTransfer consumer(small, kLayout, std::string(kModel));
  KvTransfer producer(config(KvRole::producer), kLayout, std::string(kModel));
  const auto first = save(producer);
  const auto second = save(producer);
  KvFetch::Result held = fetch(consumer, source_of(producer, *first));
  ASSERT_TRUE(held.image) << held.error;
  EXPECT_NE(fetch(consumer, source_of(producer, *second)).error.find("kv_buffer_size"),
            std::string::npos);
  held.image.reset();
  EXPECT_TRUE(fetch(consumer, source_of(producer, *second)).image);
}

TEST_P(Transfer, forgets_what_nobody_fetches) {
  KvTransferConfig brief = config(KvRole::producer);
  brief.keep_time = std::chrono::seconds(0);
  KvTransfer producer(brief, kLayout, std::string(kModel));
  KvTransfer consumer(config(KvRole::consumer), kLayout, std::string(kModel));
  const auto exported = save(producer);
  EXPECT_TRUE(exported->is_kept());
  EXPECT_FALSE(fetch(consumer, source_of(producer, *exported)).image);
  EXPECT_EQ(producer.counts().exports.num_expired, 1U);
  EXPECT_EQ(producer.counts().exports.bytes, 0U);
}

TEST_P(Transfer, ends_at_once_although_a_peer_is_silent) {
  KvSocket silent = listener();  // never answers
  auto consumer =
      std::make_unique<KvTransfer>(config(KvRole::consumer), kLayout, std::string(kModel));
  std::future<KvFetch::Result> fetched = begin_fetch(*consumer, source_at(silent.port()));
  const Peer peer = Peer::accept_from(silent);
  consumer.reset();
  EXPECT_NE(fetched.get().error.find("shutting down"), std::string::npos);
}

TEST_P(Transfer, serves_a_consumer_beside_many_that_are_silent) {
  KvTransfer producer(config(KvRole::producer), kLayout, std::string(kModel));
  KvTransfer consumer(config(KvRole::consumer), kLayout, std::string(kModel));
  std::vector<Peer> silent;
  for (size_t i = 0; i < 2 * KvServer::kMaxSilentOfOneHost; ++i) {
    silent.push_back(peer_of(producer.port()));
    // Most connections fit into the queue of the listener, so wait until this one was accepted.
    if (i >= KvServer::kMaxSilentOfOneHost) {
      EXPECT_TRUE(silent[i - KvServer::kMaxSilentOfOneHost].is_ended());
    }
  }
  const auto begin = std::chrono::steady_clock::now();
  const auto exported = save(producer);
  EXPECT_TRUE(fetch(consumer, source_of(producer, *exported)).image);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(4));
}

TEST_P(Transfer, fetches_beside_a_producer_that_is_silent) {
  KvSocket silent = listener();
  KvTransfer producer(config(KvRole::producer), kLayout, std::string(kModel));
  auto consumer =
      std::make_unique<KvTransfer>(config(KvRole::consumer), kLayout, std::string(kModel));
  std::vector<std::future<KvFetch::Result>> stuck;
  for (size_t i = 0; i < 2 * KvFetches::kMaxConnectionsToOne; ++i) {
    stuck.push_back(begin_fetch(*consumer, source_at(silent.port())));
  }
  const auto begin = std::chrono::steady_clock::now();
  const auto exported = save(producer);
  EXPECT_TRUE(fetch(*consumer, source_of(producer, *exported)).image);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(4));
  // The consumer gives up a silent producer long before the time of a whole transfer is over.
  EXPECT_NE(stuck.front().get().error.find("silent"), std::string::npos);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
  consumer.reset();
  for (size_t i = 1; i < stuck.size(); ++i) EXPECT_FALSE(stuck[i].get().image);
}

TEST_P(Transfer, lets_one_producer_take_a_part_of_the_queue_only) {
  KvSocket silent = listener();
  auto consumer =
      std::make_unique<KvTransfer>(config(KvRole::consumer), kLayout, std::string(kModel));
  std::vector<std::future<KvFetch::Result>> stuck;
  for (size_t i = 0; i < KvFetches::kMaxOfOne; ++i) {
    stuck.push_back(begin_fetch(*consumer, source_at(silent.port())));
  }
  EXPECT_NE(fetch(*consumer, source_at(silent.port())).error.find("wait to be fetched"),
            std::string::npos);
  KvTransfer producer(config(KvRole::producer), kLayout, std::string(kModel));
  const auto exported = save(producer);
  EXPECT_TRUE(fetch(*consumer, source_of(producer, *exported)).image);
}

TEST_P(Transfer, survives_peers_that_send_anything) {
  KvTransfer producer(config(KvRole::producer), kLayout, std::string(kModel));
  KvTransfer consumer(config(KvRole::consumer), kLayout, std::string(kModel));
  const std::string long_line(5000, 'x');
  for (const std::string& text : {std::string("\n"),
                                  std::string("{}\n"),
                                  std::string("[1]\n"),
                                  std::string("\xff\n"),
                                  std::string(R"({"op": "get"})") + "\n",
                                  std::string(R"({"op": 1, "id": 2})") + "\n",
                                  std::string(R"({"op": "get", "id": "x", "nonce": "1"})") + "\n",
                                  std::string(R"({"op": "delete", "id": "x"})") + "\n",
                                  long_line + "\n",
                                  std::string()}) {
    Peer peer = peer_of(producer.port());
    peer.write(text);
    if (text.empty()) continue;  // goes away
    EXPECT_NE(peer.read_line().find(R"("status":"error")"), std::string::npos);
  }
  const auto exported = save(producer);
  EXPECT_TRUE(fetch(consumer, source_of(producer, *exported)).image);
}

/// A producer that answers one request with the text that `write` makes from it.
class Liar {
 public:
  explicit Liar(KvSocket listener, std::function<void(Peer&, const std::string& line)> answer)
      : listener_(std::move(listener)), thread_([this, answer = std::move(answer)] {
          Peer peer = Peer::accept_from(listener_);
          answer(peer, peer.read_line());
          // Then the connection ends.
        }) {}
  [[nodiscard]] int32_t port() const { return listener_.port(); }

 private:
  KvSocket listener_;
  std::jthread thread_;
};

std::string answer_of(const std::string& request, const std::string& sizes) {
  const KvGet get = read_get(request, "");
  return fmt::format(R"({{"status":"ok","model":"a model","prompt":"{}",{}}})",
                     code_of_prompt(prompt_digest(prompt_of(10), "", ""), get, ""),
                     sizes) +
         "\n";
}

TEST_P(Transfer, believes_no_size_of_a_producer) {
  const size_t real = kv_image_bytes(kLayout, 10);
  for (const std::string& claim : {std::string(R"("num_tokens":10,"num_bytes":1000000000000)"),
                                   std::string(R"("num_tokens":10,"num_bytes":-1)"),
                                   std::string(R"("num_tokens":-10,"num_bytes":1)"),
                                   std::string(R"("num_tokens":"ten","num_bytes":1)"),
                                   std::string(R"("num_tokens":10,"num_bytes":"many")"),
                                   std::string(R"("num_tokens":1000000,"num_bytes":1)"),
                                   fmt::format(R"("num_tokens":10,"num_bytes":{})", real)}) {
    const Liar liar(listener(), [&claim](Peer& peer, const std::string& request) {
      peer.write(answer_of(request, claim));
    });
    KvTransfer consumer(config(KvRole::consumer), kLayout, std::string(kModel));
    const KvFetch::Result fetched = fetch(consumer, source_at(liar.port()));
    EXPECT_FALSE(fetched.image) << claim;
    EXPECT_EQ(fetched.error.find("json.exception"), std::string::npos) << fetched.error;
  }
}

TEST_P(Transfer, takes_nothing_from_a_producer_without_the_secret_or_for_one) {
  KvTransfer open(config(KvRole::producer), kLayout, std::string(kModel));
  KvTransfer closed(config(KvRole::producer, kSecret), kLayout, std::string(kModel));
  KvTransfer unknown_peer(config(KvRole::consumer), kLayout, std::string(kModel));
  KvTransfer other(
      config(KvRole::consumer, "another secret of some bytes"), kLayout, std::string(kModel));
  KvTransfer member(config(KvRole::consumer, kSecret), kLayout, std::string(kModel));
  const auto exported = save(closed);
  // The producer gives an image to no unknown peer, even if the peer knows the id, and keeps the
  // prompt.
  EXPECT_NE(fetch(unknown_peer, source_of(closed, *exported)).error.find("no secret"),
            std::string::npos);
  EXPECT_NE(fetch(other, source_of(closed, *exported)).error.find("another secret"),
            std::string::npos);
  const KvFetch::Result fetched = fetch(member, source_of(closed, *exported));
  ASSERT_TRUE(fetched.image) << fetched.error;
  EXPECT_TRUE(fetched.image->is_trusted);
  EXPECT_NE(fetch(member, source_of(open, *save(open))).error.find("no secret"), std::string::npos);
}

TEST_P(Transfer, trusts_what_the_secret_or_the_kernel_vouches_for) {
  KvTransfer producer(config(KvRole::producer), kLayout, std::string(kModel));
  KvTransfer consumer(config(KvRole::consumer), kLayout, std::string(kModel));
  const KvFetch::Result fetched = fetch(consumer, source_of(producer, *save(producer)));
  ASSERT_TRUE(fetched.image) << fetched.error;
  EXPECT_EQ(fetched.image->is_trusted, GetParam() == KvConnector::shared_memory);
}

TEST_P(Transfer, refuses_the_message_of_another_time_prompt_or_salt) {
  KvTransfer producer(config(KvRole::producer, kSecret), kLayout, std::string(kModel));
  KvTransfer consumer(config(KvRole::consumer, kSecret), kLayout, std::string(kModel));
  // An attacker between the two keeps the answer of an honest producer and gives it to the next
  // request for the same prompt.
  const auto exported = save(producer);
  std::string kept;
  {
    const Liar between(listener(), [&](Peer& peer, const std::string& request) {
      Peer honest = peer_of(producer.port());
      honest.write(request + "\n");
      kept = honest.read_line() + "\n";
      (void)peer;
    });
    EXPECT_FALSE(fetch(consumer, source_at(between.port(), exported->id())).image);
  }
  EXPECT_NE(kept.find("mac"), std::string::npos);
  const Liar between(listener(), [&](Peer& peer, const std::string&) { peer.write(kept); });
  EXPECT_NE(
      fetch(consumer, source_at(between.port(), exported->id())).error.find("not its message"),
      std::string::npos);
  EXPECT_NE(fetch(consumer, source_of(producer, *exported), 9).error.find("another prompt"),
            std::string::npos);
  EXPECT_NE(fetch(consumer, source_of(producer, *exported), 10, "salt").error.find("cache_salt"),
            std::string::npos);
  EXPECT_TRUE(fetch(consumer, source_of(producer, *exported)).image);
}

TEST(TcpTransfer, refuses_bytes_that_were_changed_on_their_way) {
  const KvTransferConfig producing{
      .connector = KvConnector::tcp, .role = KvRole::producer, .kv_port = 0, .secret = kSecret};
  KvTransferConfig consuming = producing;
  consuming.role = KvRole::consumer;
  KvTransfer producer(producing, kLayout, std::string(kModel));
  KvTransfer consumer(consuming, kLayout, std::string(kModel));
  Cache here(1);
  const auto exported = producer.begin_export("", "");
  exported->save(here.stream(), here.tensors(), blocks({5, 2, 9}), prompt_of(10));
  const size_t num_bytes = kv_image_bytes(kLayout, 10);
  const std::string zeros(num_bytes, '\0');
  Liar between(KvSocket::listen("127.0.0.1", 0), [&](Peer& peer, const std::string& request) {
    Peer honest(KvSocket::look_up("127.0.0.1", producer.port()).front());
    honest.write(request + "\n");
    peer.write(honest.read_line() + "\n");
    peer.write(zeros);
    honest.skip(num_bytes);
    peer.write(honest.read_line() + "\n");
    (void)peer.is_ended();
  });
  std::promise<KvFetch::Result> promise;
  consumer.fetch(
      {.source = {.producer = {.host = "127.0.0.1", .port = between.port()}, .id = exported->id()},
       .token_ids = prompt_of(10),
       .adapter = "",
       .cache_salt = "",
       .on_fetched = [&promise](KvFetch::Result fetched) {
         promise.set_value(std::move(fetched));
       }});
  const KvFetch::Result fetched = promise.get_future().get();
  EXPECT_FALSE(fetched.image);
  EXPECT_NE(fetched.error.find("authentication code"), std::string::npos) << fetched.error;
}

TEST(KvPeers, are_a_host_and_a_port) {
  KvTransferConfig config{
      .connector = KvConnector::tcp, .role = KvRole::consumer, .kv_port = 14'579};
  const auto is_peer = [&config](const std::string& host, int32_t port) {
    return KvTransfer(config, kLayout, std::string(kModel)).is_peer({.host = host, .port = port});
  };
  EXPECT_TRUE(is_peer("127.0.0.1", 14'579));
  EXPECT_TRUE(is_peer("::1", 14'579));
  EXPECT_FALSE(is_peer("127.0.0.1", 22)) << "any other service of this machine";
  EXPECT_FALSE(is_peer("10.0.0.1", 14'579));
  config.peers = {{"*", 7}};
  EXPECT_TRUE(is_peer("10.0.0.1", 7));
  EXPECT_FALSE(is_peer("10.0.0.1", 8));
  EXPECT_FALSE(is_peer("any.name.example", 7)) << "who has a name chooses its address";
  config.peers = {{"a.example", 0}};
  EXPECT_TRUE(is_peer("a.example", 9));
  EXPECT_FALSE(is_peer("b.example", 9));
}

TEST(KvMessages, tell_a_reader_of_the_connection_nothing_about_a_prompt) {
  const std::string digest = prompt_digest(prompt_of(10), "", "");
  const KvGet first{.id = "x", .nonce = random_digits()};
  const KvGet second{.id = "x", .nonce = random_digits()};
  EXPECT_NE(code_of_prompt(digest, first, kSecret), code_of_prompt(digest, second, kSecret));
  EXPECT_NE(code_of_prompt(digest, first, kSecret), code_of_prompt(digest, first, ""));
  EXPECT_NE(digest, prompt_digest(prompt_of(10), "", "salt"));
  EXPECT_NE(prompt_digest(prompt_of(10), "a", "b"), prompt_digest(prompt_of(10), "ab", ""));
}

// The expected code was made with Python's hmac. The length of the purpose, in eight bytes, comes
// first.
TEST(KvMac, is_hmac_with_sha_256) {
  KvMac mac("Jefe", "");
  mac.add_piece(std::as_bytes(std::span(std::string_view("what do ya want for nothing?"))));
  EXPECT_EQ(mac.finish(), "d524ab401192a2b9f214a6a4feff4277ba99d7c4abd37f5caa3f2508a541cd22");
}

TEST(SharedBytes, takes_no_memory_that_its_owner_can_still_change) {
  SharedBytes open(100);
  EXPECT_THROW((void)SharedBytes::adopt(dup(open.descriptor()), 100), Error);
  std::memset(open.writable().data(), 7, 100);
  open.seal();
  EXPECT_THROW((void)SharedBytes::adopt(dup(open.descriptor()), 101), Error);
  const SharedBytes mapped = SharedBytes::adopt(dup(open.descriptor()), 100);
  EXPECT_EQ(mapped.bytes()[99], std::byte{7});
}

}  // namespace
}  // namespace reprise::kv_cache
