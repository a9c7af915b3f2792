#include "reprise/lora/adapter_slots.h"

#include <gtest/gtest.h>

#include "reprise/lora/adapter_registry.h"
#include "tests/support/lora/adapter_fixture.h"
#include "tests/support/lora/layer_fixture.h"
#include "tests/support/weights/weights_fixture.h"

namespace reprise::lora {
namespace {

using testing::AdapterFiles;

class Slots : public ::testing::Test {
 protected:
  // An adapter of q_proj, and of down_proj too if wanted.
  std::shared_ptr<const LoraAdapter> adapter(uint64_t id, bool has_down = false) {
    return LoraAdapter::load(std::to_string(id), folder(id, has_down), layers_.slots.layers(), id);
  }
  std::filesystem::path folder(uint64_t id, bool has_down = false) {
    AdapterFiles files;
    files.add_module("model.layers.0.q_proj", 5, 8, static_cast<uint32_t>(id));
    if (has_down) files.add_module("model.layers.0.down_proj", 4, 6, static_cast<uint32_t>(id));
    return files.write(directory_.path() / std::to_string(id));
  }
  void stage(const std::vector<AdapterTokens>& requests, int32_t num_tokens) {
    layers_.slots.stage(requests, num_tokens, *layers_.stream);
    layers_.stream->synchronize();
  }
  [[nodiscard]] std::vector<int32_t> slots_of_tokens(size_t count) const {
    const auto* slots = layers_.slots.token_slots().data_as<int32_t>();
    return {slots, slots + count};
  }
  // The first element of B in a slot of a layer; 0 means that the slot is empty.
  [[nodiscard]] float first_of_b(size_t layer, int32_t slot) const {
    const Tensor& b = layers_.slots.layers()[layer].b;
    return b.data_as<float>()[slot * b.size(1) * b.size(2)];
  }

  weights::TempDirectory directory_;
  testing::TwoLoraLayers layers_{/*max_loras=*/2, /*max_rank=*/6};
};

TEST_F(Slots, writes_the_slot_of_each_token_and_no_adapter_for_padding) {
  const auto a = adapter(1);
  const auto b = adapter(2);
  stage({{a.get(), 2}, {nullptr, 1}, {b.get(), 1}, {a.get(), 1}}, 7);
  EXPECT_EQ(slots_of_tokens(7), (std::vector<int32_t>{0, 0, -1, 1, 0, -1, -1}));
}

TEST_F(Slots, replaces_the_adapter_that_was_used_longest_ago) {
  const auto a = adapter(1);
  const auto b = adapter(2);
  const auto c = adapter(3);
  stage({{a.get(), 1}, {b.get(), 1}}, 2);
  stage({{a.get(), 1}}, 1);
  stage({{c.get(), 1}, {a.get(), 1}}, 2);
  EXPECT_EQ(slots_of_tokens(2), (std::vector<int32_t>{1, 0}));
  EXPECT_EQ(layers_.slots.num_loads(), 3U);
  stage({{b.get(), 1}}, 1);  // a was used in the same step as c, but the slot of a comes first
  EXPECT_EQ(layers_.slots.num_loads(), 4U);
}

TEST_F(Slots, never_replaces_an_adapter_of_the_same_step) {
  const auto a = adapter(1);
  const auto b = adapter(2);
  const auto c = adapter(3);
  stage({{a.get(), 1}, {b.get(), 1}}, 2);
  // a is older, but a comes after c in this step.
  stage({{b.get(), 1}}, 1);
  stage({{c.get(), 1}, {a.get(), 1}}, 2);
  EXPECT_EQ(slots_of_tokens(2), (std::vector<int32_t>{1, 0}));
}

TEST_F(Slots, leaves_nothing_of_the_adapter_that_was_in_the_slot_before) {
  const auto both = adapter(1, /*has_down=*/true);
  const auto only_q = adapter(2);
  const auto other = adapter(3);
  stage({{both.get(), 1}}, 1);
  EXPECT_NE(first_of_b(1, 0), 0);
  stage({{other.get(), 1}}, 1);
  stage({{only_q.get(), 1}}, 1);
  EXPECT_EQ(slots_of_tokens(1), std::vector<int32_t>{0});
  EXPECT_NE(first_of_b(0, 0), 0);
  EXPECT_EQ(first_of_b(1, 0), 0);
}

TEST_F(Slots, keep_their_addresses) {
  const void* before = layers_.slots.layers()[0].a.data();
  const auto a = adapter(1);
  stage({{a.get(), 1}}, 1);
  EXPECT_EQ(layers_.slots.layers()[0].a.data(), before);
}

TEST_F(Slots, of_a_dummy_step_are_all_used) {
  layers_.slots.stage_dummy(5, *layers_.stream);
  layers_.stream->synchronize();
  EXPECT_EQ(slots_of_tokens(5), (std::vector<int32_t>{0, 1, 0, 1, 0}));
}

class Registry : public Slots {
 protected:
  AdapterRegistry registry_{layers_.slots, /*max_cpu_loras=*/2};
};

TEST_F(Registry, finds_adapters_by_name_until_they_are_unloaded) {
  registry_.load({.name = "sql", .path = folder(1)});
  EXPECT_TRUE(registry_.contains("sql"));
  const auto sql = registry_.find("sql");
  EXPECT_EQ(sql->name(), "sql");
  EXPECT_EQ(registry_.find("sql"), sql);
  EXPECT_EQ(registry_.find("other"), nullptr);
  EXPECT_TRUE(registry_.unload("sql"));
  EXPECT_FALSE(registry_.unload("sql"));
  EXPECT_EQ(registry_.find("sql"), nullptr);
}

TEST_F(Registry, refuses_a_name_that_is_taken_unless_it_is_replaced) {
  registry_.load({.name = "sql", .path = folder(1)});
  const uint64_t before = registry_.find("sql")->id();
  EXPECT_THROW(registry_.load({.name = "sql", .path = folder(2)}), InvalidArgument);
  EXPECT_EQ(registry_.find("sql")->id(), before);
  registry_.load({.name = "sql", .path = folder(2)}, AdapterRegistry::IfLoaded::replace);
  EXPECT_NE(registry_.find("sql")->id(), before) << "cached prefixes of the old one would be found";
  EXPECT_EQ(registry_.entries().size(), 1U);
}

TEST_F(Registry, keeps_nothing_of_an_adapter_that_cannot_be_read) {
  EXPECT_THROW(registry_.load({.name = "sql", .path = directory_.path() / "nowhere"}), FileError);
  EXPECT_FALSE(registry_.contains("sql"));
}

TEST_F(Registry, reads_an_adapter_again_that_host_memory_had_no_room_for) {
  registry_.load({.name = "1", .path = folder(1)});
  registry_.load({.name = "2", .path = folder(2)});
  const uint64_t first = registry_.find("1")->id();
  const uint64_t second = registry_.find("2")->id();
  registry_.load({.name = "3", .path = folder(3)});
  EXPECT_EQ(registry_.find("2")->id(), second);
  EXPECT_NE(registry_.find("1")->id(), first);  // it was dropped and read again
  EXPECT_EQ(registry_.entries().size(), 3U);
}

}  // namespace
}  // namespace reprise::lora
