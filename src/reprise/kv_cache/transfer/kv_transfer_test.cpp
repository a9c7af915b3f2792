#include "reprise/kv_cache/transfer/kv_transfer.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <future>
#include <numeric>
#include <thread>

#include "reprise/base/error.h"
#include "reprise/device/cpu/cpu_device.h"
#include "reprise/tensor/op.h"

namespace reprise::kv_cache {
namespace {

class NoTensorOps final : public OpExecutor {
 public:
  void execute(const OpCall&, std::span<const Tensor>, std::span<Tensor>) override { FAIL(); }
};

constexpr KvCacheLayout kLayout{.num_layers = 2,
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

/// A cache whose elements differ, so that a copy shows where each came from.
class Cache {
 public:
  explicit Cache(float first)
      : device_(device::create_cpu_device({.num_threads = 1})),
        stream_(device_->create_stream()),
        tensors_(kLayout, *device_, no_ops_) {
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

class Transfer : public ::testing::TestWithParam<KvConnector> {
 protected:
  [[nodiscard]] static KvTransferConfig config(KvRole role) {
    return {.connector = GetParam(), .role = role, .kv_port = 0};
  }
  /// Fetches as a consumer of `from` does.
  static KvTransfer::Fetched fetch(KvTransfer& to, const KvSource& from, int num_tokens = 10) {
    std::promise<KvTransfer::Fetched> promise;
    to.fetch(from, prompt_of(num_tokens), "", [&promise](KvTransfer::Fetched fetched) {
      promise.set_value(std::move(fetched));
    });
    return promise.get_future().get();
  }

  /// An export of 10 tokens in blocks 5, 2 and 9.
  std::shared_ptr<KvExport> save(KvTransfer& from, int num_tokens = 10) {
    auto exported = from.begin_export("");
    exported->save(here_.stream(), here_.tensors(), blocks({5, 2, 9}), prompt_of(num_tokens));
    return exported;
  }
  static KvSource source_of(const KvTransfer& producer, const KvExport& exported) {
    return {.host = "127.0.0.1", .port = producer.port(), .id = exported.id()};
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
  const KvTransfer::Fetched fetched = fetch(consumer, source_of(producer, *exported));
  ASSERT_TRUE(fetched.image) << fetched.error;
  ASSERT_EQ(fetched.image->num_tokens, 10);

  Cache there(-1000);
  const std::vector<float> before(there.all().begin(), there.all().end());
  const auto to = blocks({1, 11, 3});
  // The first block is in the cache there already, shared with others.
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
  // What other requests computed in the last block stays with its engine.
  EXPECT_EQ(there.row(0, to[2], 1, 2), std::vector<float>(3, 0.0F));
  size_t num_changed = 0;
  for (size_t i = 0; i < before.size(); ++i) num_changed += before[i] != there.all()[i] ? 1 : 0;
  EXPECT_EQ(num_changed * sizeof(float), 2 * kLayout.bytes_per_block());
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
  // The producer hears that the bytes have arrived a moment after they have.
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
  // A longer prompt that begins in the same way may use it.
  EXPECT_TRUE(fetch(consumer, source, 11).image);
}

TEST_P(Transfer, says_who_does_not_answer) {
  KvTransfer consumer(config(KvRole::consumer), kLayout, std::string(kModel));
  KvSource nobody{.host = "127.0.0.1", .port = 1, .id = "x"};
  const std::string error = fetch(consumer, nobody).error;
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
  KvTransfer::Fetched held = fetch(consumer, source_of(producer, *first));
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
  // A listener that never answers.
  KvSocket silent =
      GetParam() == KvConnector::tcp ? KvSocket::listen("127.0.0.1", 0) : KvSocket::listen_here(0);
  auto consumer =
      std::make_unique<KvTransfer>(config(KvRole::consumer), kLayout, std::string(kModel));
  std::promise<KvTransfer::Fetched> promise;
  consumer->fetch({.host = "127.0.0.1", .port = silent.port(), .id = "x"},
                  prompt_of(10),
                  "",
                  [&promise](const KvTransfer::Fetched& fetched) { promise.set_value(fetched); });
  KvSocket peer = silent.accept();
  consumer.reset();
  EXPECT_NE(promise.get_future().get().error.find("shutting down"), std::string::npos);
}

TEST_P(Transfer, survives_peers_that_send_anything) {
  KvTransfer producer(config(KvRole::producer), kLayout, std::string(kModel));
  KvTransfer consumer(config(KvRole::consumer), kLayout, std::string(kModel));
  const auto soon = [] { return KvSocket::Clock::now() + std::chrono::minutes(1); };
  const std::string long_line(5000, 'x');
  for (const std::string& text : {std::string("\n"),
                                  std::string("{}\n"),
                                  std::string("[1]\n"),
                                  std::string("\xff\n"),
                                  std::string(R"({"op": "get"})") + "\n",
                                  std::string(R"({"op": 1, "id": 2})") + "\n",
                                  std::string(R"({"op": "delete", "id": "x"})") + "\n",
                                  long_line + "\n",
                                  std::string()}) {
    KvSocket peer = GetParam() == KvConnector::tcp
                        ? KvSocket::connect("127.0.0.1", producer.port(), soon())
                        : KvSocket::connect_here(producer.port(), soon());
    peer.write(std::as_bytes(std::span(text)), soon());
    if (text.empty()) continue;  // goes away
    EXPECT_NE(peer.read_line(4096, soon()).find(R"("status":"error")"), std::string::npos);
  }
  const auto exported = save(producer);
  EXPECT_TRUE(fetch(consumer, source_of(producer, *exported)).image);
}

/// A producer that lies.
TEST_P(Transfer, believes_no_size_of_a_producer) {
  KvSocket liar =
      GetParam() == KvConnector::tcp ? KvSocket::listen("127.0.0.1", 0) : KvSocket::listen_here(0);
  const auto soon = [] { return KvSocket::Clock::now() + std::chrono::minutes(1); };
  const std::string digest = prompt_digest(prompt_of(10), "");
  const size_t real = kv_image_bytes(kLayout, 10);
  for (const std::string& claim : {std::string(R"("num_tokens":10,"num_bytes":1000000000000)"),
                                   std::string(R"("num_tokens":10,"num_bytes":-1)"),
                                   std::string(R"("num_tokens":-10,"num_bytes":1)"),
                                   std::string(R"("num_tokens":"ten","num_bytes":1)"),
                                   std::string(R"("num_tokens":1000000,"num_bytes":1)"),
                                   fmt::format(R"("num_tokens":10,"num_bytes":{})", real)}) {
    std::jthread answering([&] {
      KvSocket peer = liar.accept();
      (void)peer.read_line(4096, soon());
      peer.write_line(
          fmt::format(R"({{"status":"ok","model":"a model","prompt":"{}",{}}})", digest, claim),
          soon());
      // Then the connection ends, without the bytes.
    });
    KvTransfer consumer(config(KvRole::consumer), kLayout, std::string(kModel));
    const KvSource source{.host = "127.0.0.1", .port = liar.port(), .id = "x"};
    EXPECT_FALSE(fetch(consumer, source).image) << claim;
  }
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
