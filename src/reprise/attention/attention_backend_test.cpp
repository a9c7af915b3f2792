#include "reprise/attention/attention_backend.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <utility>

#include "reprise/base/error.h"
#include "reprise/device/cpu/cpu_device.h"
#include "reprise/tensor/op.h"

namespace reprise::attention {
namespace {

using cudagraph::AttentionCGSupport;
using cudagraph::BatchDescriptor;
using Kind = AttentionPath::Kind;

class NoExecutor final : public OpExecutor {
 public:
  void execute(const OpCall&, std::span<const Tensor>, std::span<Tensor>) override { FAIL(); }
};

TEST(AttentionBackends, have_the_support_that_the_sources_give_them) {
  EXPECT_EQ(find_attention_backend("auto").support, AttentionCGSupport::ALWAYS);
  EXPECT_EQ(find_attention_backend("FLASH_ATTN").support, AttentionCGSupport::ALWAYS);
  EXPECT_EQ(find_attention_backend("FLASH_ATTN", 3).support, AttentionCGSupport::ALWAYS);
  EXPECT_EQ(find_attention_backend("FLASH_ATTN", 2).support, AttentionCGSupport::UNIFORM_BATCH);
  EXPECT_EQ(find_attention_backend("auto", 2).support, AttentionCGSupport::UNIFORM_BATCH);
  EXPECT_EQ(find_attention_backend("auto", 3).support, AttentionCGSupport::ALWAYS);
  EXPECT_EQ(find_attention_backend("ROCM_AITER_FA").support, AttentionCGSupport::UNIFORM_BATCH);
  EXPECT_EQ(find_attention_backend("TRITON_ATTN", 2).support, AttentionCGSupport::ALWAYS);
  EXPECT_EQ(find_attention_backend("FLASHINFER").support,
            AttentionCGSupport::UNIFORM_SINGLE_TOKEN_DECODE);
}

TEST(AttentionBackends, of_latent_attention_have_the_support_that_the_sources_give_them) {
  for (const char* name : {"FLASHMLA", "FLASHINFER_MLA"}) {
    EXPECT_EQ(find_attention_backend(name).support, AttentionCGSupport::UNIFORM_BATCH) << name;
  }
  for (const char* name : {"CUTLASS_MLA", "ROCM_AITER_MLA", "TRITON_MLA"}) {
    EXPECT_EQ(find_attention_backend(name).support, AttentionCGSupport::UNIFORM_SINGLE_TOKEN_DECODE)
        << name;
  }
  EXPECT_EQ(find_attention_backend("auto", 0, AttentionKind::latent).name, "FLASHMLA");
  EXPECT_EQ(find_attention_backend("auto", 2, AttentionKind::latent).name, "FLASHMLA")
      << "the flag selects a version of FLASH_ATTN, which latent layers do not have";
}

TEST(AttentionBackends, are_refused_for_layers_of_another_kind) {
  for (const auto& [name, kind] : {std::pair{"FLASH_ATTN", AttentionKind::latent},
                                   std::pair{"CPU_ATTN", AttentionKind::latent},
                                   std::pair{"FLASHMLA", AttentionKind::key_value}}) {
    try {
      (void)find_attention_backend(name, 0, kind);
      ADD_FAILURE() << name;
    } catch (const InvalidArgument& error) {
      const std::string_view one_that_fits =
          kind == AttentionKind::latent ? "TRITON_MLA" : "TRITON_ATTN";
      EXPECT_NE(std::string_view(error.what()).find(one_that_fits), std::string_view::npos)
          << error.what();
    }
  }
}

TEST(AttentionBackends, of_latent_attention_refuse_caches_of_eight_bits) {
  for (const BackendInfo& backend : attention_backends()) {
    if (backend.kind != AttentionKind::latent) continue;
    EXPECT_TRUE(takes_cache_dtype(backend, kv_cache::find_cache_dtype("auto"))) << backend.name;
    EXPECT_TRUE(takes_cache_dtype(backend, kv_cache::find_cache_dtype("bfloat16"))) << backend.name;
    for (const kv_cache::CacheDType& dtype : kv_cache::cache_dtypes()) {
      if (!dtype.is_quantized()) continue;
      try {
        require_cache_dtype(backend, dtype);
        ADD_FAILURE() << backend.name << ' ' << dtype.name;
      } catch (const InvalidArgument& error) {
        const std::string_view text = error.what();
        EXPECT_NE(text.find(backend.name), std::string_view::npos) << text;
        EXPECT_NE(text.find("use auto"), std::string_view::npos) << text;
        EXPECT_EQ(text.find("TRITON_ATTN"), std::string_view::npos) << text;
      }
    }
  }
}

TEST(AttentionBackends, are_refused_by_name_if_there_are_none) {
  try {
    (void)find_attention_backend("FLASH_INFER");
    FAIL();
  } catch (const InvalidArgument& error) {
    EXPECT_NE(std::string(error.what()).find("did you mean 'FLASHINFER'"), std::string::npos)
        << error.what();
  }
  EXPECT_THROW((void)find_attention_backend(""), InvalidArgument);
  EXPECT_THROW((void)find_attention_backend("FLASH_ATTN", 4), InvalidArgument);
}

/// Prepares steps with one backend on a CPU device.
class Steps {
 public:
  explicit Steps(std::string_view name, int version = 0)
      : backend_(find_attention_backend(name, version)
                     .create({.device = device_.get(),
                              .executor = &executor_,
                              .max_num_reqs = 8,
                              .num_kv_heads = 2,
                              .max_partial_size = 36})) {}

  AttentionPath plan(const std::vector<int32_t>& query_lens,
                     const BatchDescriptor& descriptor,
                     int32_t context = 100) {
    starts_ = {0};
    lens_.assign(query_lens.size(), context);
    for (int32_t len : query_lens) starts_.push_back(starts_.back() + len);
    const AttentionPath path = backend_->prepare_step(
        {.host_query_start_loc = starts_, .host_seq_lens = lens_}, descriptor, *stream_);
    stream_->synchronize();
    return path;
  }

 private:
  NoExecutor executor_;
  std::unique_ptr<device::Device> device_ = device::create_cpu_device({.num_threads = 1});
  std::unique_ptr<device::Stream> stream_ = device_->create_stream();
  std::unique_ptr<AttentionBackend> backend_;
  std::vector<int32_t> starts_;
  std::vector<int32_t> lens_;
};

TEST(SeparateBackend, takes_the_uniform_path_for_uniform_batches_outside_of_graphs) {
  Steps steps("FLASH_ATTN", 2);
  EXPECT_EQ(steps.plan({1, 1, 1}, {.num_tokens = 4}).kind, Kind::uniform);
  EXPECT_EQ(steps.plan({3, 3}, {.num_tokens = 6}).query_len, 3);
  EXPECT_EQ(steps.plan({1, 2}, {.num_tokens = 3}).kind, Kind::any_batch);
  EXPECT_EQ(steps.plan({40, 40}, {.num_tokens = 80}).kind, Kind::any_batch);
  EXPECT_EQ(steps.plan({}, {.num_tokens = 1}).kind, Kind::any_batch);
}

TEST(SeparateBackend, lets_the_descriptor_of_a_full_graph_decide) {
  Steps steps("TRITON_ATTN");
  // A graph for mixed batches may also serve a uniform batch, and a graph for uniform batches may
  // serve fewer requests than it was captured for.
  EXPECT_EQ(steps.plan({1, 1}, {.num_tokens = 8, .num_reqs = 8}).kind, Kind::any_batch);
  const AttentionPath decode = steps.plan({1}, {.num_tokens = 8, .num_reqs = 8, .uniform = true});
  EXPECT_EQ(decode.kind, Kind::uniform);
  EXPECT_EQ(decode.query_len, 1);
  EXPECT_EQ(steps.plan({2}, {.num_tokens = 8, .num_reqs = 4, .uniform = true}).query_len, 2);
}

TEST(PlannedBackend, keeps_a_buffer_per_captured_batch_size_and_writes_it_anew_in_place) {
  Steps steps("FLASHINFER");
  const BatchDescriptor four{.num_tokens = 4, .num_reqs = 4, .uniform = true};
  const BatchDescriptor eight{.num_tokens = 8, .num_reqs = 8, .uniform = true};
  const AttentionPath first = steps.plan({1, 1, 1, 1}, four);
  const AttentionPath other = steps.plan({1, 1, 1, 1, 1}, eight);
  EXPECT_NE(first.plan.data(), other.plan.data());
  EXPECT_EQ(first.query_len, 1);
  EXPECT_EQ(steps.plan({1, 1, 1}, {.num_tokens = 8}).query_len, 1);
  const AttentionPath uncaptured = steps.plan({7, 1}, {.num_tokens = 8});
  EXPECT_EQ(uncaptured.query_len, 0) << "a prompt is among them";
  EXPECT_NE(uncaptured.plan.data(), first.plan.data());
  const AttentionPath again = steps.plan({1, 1}, four);
  EXPECT_EQ(again.plan.data(), first.plan.data());
  AttentionPlanHeader header;
  std::memcpy(&header, again.plan.data(), sizeof header);
  EXPECT_EQ(header.num_reqs, 2);
  EXPECT_EQ(header.num_tokens, 2);
  std::memcpy(&header, other.plan.data(), sizeof header);
  EXPECT_EQ(header.num_reqs, 5) << "another size's plan stays as it was";
}

// One FULL graph for each level, from the lowest one on.
constexpr std::array kGraphs = {
    std::pair{AttentionCGSupport::UNIFORM_SINGLE_TOKEN_DECODE,
              BatchDescriptor{.num_tokens = 4, .num_reqs = 4, .uniform = true}},
    std::pair{AttentionCGSupport::UNIFORM_BATCH,
              BatchDescriptor{.num_tokens = 4, .num_reqs = 2, .uniform = true}},
    std::pair{AttentionCGSupport::ALWAYS, BatchDescriptor{.num_tokens = 4, .num_reqs = 2}}};

TEST(AttentionBackends, prepare_the_graphs_of_their_level_and_refuse_those_above) {
  for (const BackendInfo& backend : attention_backends()) {
    // This backend declares less than it can do, on purpose: see attention_backend.cpp.
    if (backend.name == "FLASH_ATTN" && backend.version == 2) continue;
    for (const auto& [level, descriptor] : kGraphs) {
      SCOPED_TRACE(testing::Message() << backend.name << ", " << to_string(level));
      Steps steps(backend.name, backend.version);
      const std::vector<int32_t> query_lens(static_cast<size_t>(*descriptor.num_reqs),
                                            descriptor.num_tokens / *descriptor.num_reqs);
      if (level <= backend.support) {
        EXPECT_NO_THROW(steps.plan(query_lens, descriptor));
      } else {
        EXPECT_THROW(steps.plan(query_lens, descriptor), Error);
      }
    }
  }
}

TEST(PlannedBackend, refuses_full_graphs_beyond_what_it_declares) {
  Steps steps("FLASHINFER");
  EXPECT_THROW(steps.plan({1, 1}, {.num_tokens = 2, .num_reqs = 2}), Error);
  EXPECT_THROW(steps.plan({2, 2}, {.num_tokens = 4, .num_reqs = 2, .uniform = true}), Error);
}

}  // namespace
}  // namespace reprise::attention
