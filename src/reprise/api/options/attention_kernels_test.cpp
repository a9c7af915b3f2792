#include "reprise/api/options/attention_kernels.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reprise/attention/attention_backend.h"

namespace reprise::api {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

class AttentionKernelsText : public ::testing::Test {
 protected:
  AttentionKernelsText() {
    options_.config.num_hidden_layers = 1;
    options_.config.head_dim = 128;
    options_.kv_cache_dtype = kv_cache::find_cache_dtype("auto");
  }
  [[nodiscard]] std::string text(std::optional<bool> has_library = true) {
    options_.attention =
        &attention::find_attention_backend(args_.attention_backend, args_.flash_attn_version);
    return attention_kernels_text(args_, options_, has_library);
  }

  EngineArgs args_;
  ResolvedOptions options_;
};

TEST_F(AttentionKernelsText, names_flashinfer_for_the_heads_that_it_serves) {
  EXPECT_EQ(text(), "FlashInfer's for decoding (heads of 128, bfloat16); otherwise Reprise's own");
  args_.flashinfer_prefill = true;
  EXPECT_EQ(text(),
            "FlashInfer's for decoding (heads of 128, bfloat16), and for prompts on compute "
            "capability 9.0; otherwise Reprise's own");
  options_.config.head_dim = 256;
  EXPECT_EQ(text(), "FlashInfer's for decoding (heads of 256, bfloat16); otherwise Reprise's own");
  EXPECT_THAT(text(std::nullopt), StartsWith("FlashInfer's, if the plug-in has them, for"));
  args_.attention_backend = "FLASHINFER";
  EXPECT_THAT(text(), StartsWith("FlashInfer's for decoding"));
}

TEST_F(AttentionKernelsText, says_why_the_own_kernels_run) {
  EXPECT_THAT(text(false), HasSubstr("own (this plug-in was built without FlashInfer"));
  options_.config.head_dim = 96;
  EXPECT_THAT(text(), HasSubstr("own (FlashInfer has none for heads of 96"));
  options_.kv_cache_dtype = kv_cache::find_cache_dtype("fp8");
  EXPECT_THAT(text(), HasSubstr("own (FlashInfer has none for a cache of fp8"));
  options_.dtype = DType::f32;
  EXPECT_THAT(text(), HasSubstr("own (FlashInfer has none for float32"));
  args_.batch_invariant = true;
  EXPECT_THAT(text(), HasSubstr("own (--batch-invariant"));
  args_.attention_backend = "TRITON_ATTN";
  EXPECT_THAT(text(), HasSubstr("own (--attention-backend TRITON_ATTN takes them"));
}

TEST_F(AttentionKernelsText, a_version_of_flash_attn_is_a_choice_too) {
  EXPECT_EQ(attention_source(args_), kernels::AttentionSource::library_decoding);
  args_.flashinfer_prefill = true;
  EXPECT_EQ(attention_source(args_), kernels::AttentionSource::library);
  args_.flash_attn_version = 3;
  EXPECT_EQ(attention_source(args_), kernels::AttentionSource::own);
}

}  // namespace
}  // namespace reprise::api
