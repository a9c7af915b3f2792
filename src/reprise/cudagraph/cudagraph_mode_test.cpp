#include "reprise/cudagraph/cudagraph_mode.h"

#include <gtest/gtest.h>

#include <array>
#include <unordered_set>

#include "reprise/base/error.h"
#include "reprise/cudagraph/attention_support.h"
#include "reprise/cudagraph/batch_descriptor.h"

namespace reprise::cudagraph {
namespace {

using enum CudagraphMode;
using Runtime = CudagraphRuntimeMode;

struct ModeRow {
  CudagraphMode mode;
  Runtime decode;
  Runtime mixed;
  bool separate;
  bool full;
  bool piecewise;
  Runtime max;
};

// The table of modes in the behaviour reference, with the helper functions of vLLM's and ATOM's
// enums. The last mode is the pair (FULL, FULL) of vLLM's pull request 20059.
constexpr std::array<ModeRow, 6> kModes = {{
    {NONE, Runtime::NONE, Runtime::NONE, false, false, false, Runtime::NONE},
    {PIECEWISE, Runtime::PIECEWISE, Runtime::PIECEWISE, false, false, true, Runtime::PIECEWISE},
    {FULL, Runtime::FULL, Runtime::FULL, false, true, false, Runtime::FULL},
    {FULL_DECODE_ONLY, Runtime::FULL, Runtime::NONE, true, true, false, Runtime::FULL},
    {FULL_AND_PIECEWISE, Runtime::FULL, Runtime::PIECEWISE, true, true, true, Runtime::FULL},
    {FULL_AND_FULL, Runtime::FULL, Runtime::FULL, true, true, false, Runtime::FULL},
}};

TEST(CudagraphMode, splits_into_a_decode_and_a_mixed_routine_as_the_mode_table_says) {
  for (const ModeRow& row : kModes) {
    SCOPED_TRACE(to_string(row.mode));
    EXPECT_EQ(decode_mode(row.mode), row.decode);
    EXPECT_EQ(mixed_mode(row.mode), row.mixed);
    EXPECT_EQ(separate_routine(row.mode), row.separate);
    EXPECT_EQ(has_full_cudagraphs(row.mode), row.full);
    EXPECT_EQ(requires_piecewise_compilation(row.mode), row.piecewise);
    EXPECT_EQ(max_cudagraph_mode(row.mode), row.max);
    EXPECT_EQ(is_valid_runtime_mode(row.mode), !row.separate);
    EXPECT_EQ(has_mode(row.mode, Runtime::NONE),
              row.decode == Runtime::NONE || row.mixed == Runtime::NONE);
  }
}

TEST(CudagraphMode, runtime_modes_are_ordered_none_piecewise_full) {
  EXPECT_LT(Runtime::NONE, Runtime::PIECEWISE);
  EXPECT_LT(Runtime::PIECEWISE, Runtime::FULL);
  for (Runtime mode : {Runtime::NONE, Runtime::PIECEWISE, Runtime::FULL}) {
    EXPECT_EQ(to_string(mode), to_string(as_mode(mode)));
  }
}

TEST(CudagraphMode, reads_names_in_any_case_and_the_integers_of_single_modes) {
  for (const ModeRow& row : kModes) {
    EXPECT_EQ(parse_cudagraph_mode(to_string(row.mode)), row.mode);
  }
  EXPECT_EQ(parse_cudagraph_mode("full_and_piecewise"), FULL_AND_PIECEWISE);
  EXPECT_EQ(parse_cudagraph_mode("1"), PIECEWISE);
  EXPECT_EQ(cudagraph_mode_from_integer(2), FULL);
  EXPECT_EQ(cudagraph_mode_from_integer(3), std::nullopt);
  EXPECT_EQ(cudagraph_mode_from_integer(-1), std::nullopt);
}

TEST(CudagraphMode, an_unknown_name_is_refused_with_the_nearest_one) {
  try {
    (void)parse_cudagraph_mode("FULL_DECODE");
    FAIL();
  } catch (const InvalidArgument& error) {
    EXPECT_NE(std::string(error.what()).find("FULL_DECODE_ONLY"), std::string::npos);
  }
  EXPECT_THROW((void)parse_cudagraph_mode(""), InvalidArgument);
  EXPECT_THROW((void)parse_cudagraph_mode("7"), InvalidArgument);
}

TEST(AttentionCGSupport, is_ordered_and_the_weakest_backend_decides) {
  using enum AttentionCGSupport;
  EXPECT_LT(NEVER, UNIFORM_SINGLE_TOKEN_DECODE);
  EXPECT_LT(UNIFORM_SINGLE_TOKEN_DECODE, UNIFORM_BATCH);
  EXPECT_LT(UNIFORM_BATCH, ALWAYS);
  const std::array<AttentionBackendSupport, 3> hybrid = {
      {{"flash", ALWAYS}, {"mamba", UNIFORM_SINGLE_TOKEN_DECODE}, {"mla", UNIFORM_BATCH}}};
  EXPECT_EQ(weakest_of(hybrid).backend, "mamba");
  EXPECT_EQ(weakest_of(hybrid).support, UNIFORM_SINGLE_TOKEN_DECODE);
  EXPECT_EQ(weakest_of({}).support, ALWAYS);
  EXPECT_EQ(AttentionBackendSupport{}.support, NEVER);  // a backend that declares nothing
}

TEST(AttentionCGSupport, two_sets_of_full_graphs_hold_mixed_batches_of_any_backend_with_graphs) {
  using enum AttentionCGSupport;
  const auto holds = [](AttentionCGSupport support, FullGraphSets sets) {
    return AttentionBackendSupport{.support = support, .full_graph_sets = sets}
        .holds_mixed_batches_beside_decode();
  };
  EXPECT_TRUE(holds(ALWAYS, FullGraphSets::one));
  EXPECT_FALSE(holds(UNIFORM_BATCH, FullGraphSets::one));
  EXPECT_TRUE(holds(UNIFORM_BATCH, FullGraphSets::two_if_asked));
  EXPECT_TRUE(holds(UNIFORM_SINGLE_TOKEN_DECODE, FullGraphSets::two));
  EXPECT_FALSE(holds(NEVER, FullGraphSets::two_if_asked));
}

TEST(BatchDescriptor, is_a_value_with_equality_and_a_hash) {
  const BatchDescriptor a{.num_tokens = 16, .num_reqs = 4, .uniform = true};
  BatchDescriptor b = a;
  EXPECT_EQ(a, b);
  EXPECT_EQ(std::hash<BatchDescriptor>{}(a), std::hash<BatchDescriptor>{}(b));
  b.num_reqs.reset();
  EXPECT_NE(a, b);
  EXPECT_EQ(to_string(a), "tokens=16 reqs=4 uniform");
  EXPECT_EQ(to_string(b), "tokens=16 reqs=* uniform");
}

TEST(BatchDescriptor, hash_keeps_all_small_keys_apart) {
  std::unordered_set<size_t> hashes;
  size_t keys = 0;
  for (int32_t tokens = 0; tokens <= 64; ++tokens) {
    for (int32_t reqs = -1; reqs <= 16; ++reqs) {
      for (int32_t flags = 0; flags < 8; ++flags) {
        BatchDescriptor d{.num_tokens = tokens};
        if (reqs >= 0) d.num_reqs = reqs;
        d.uniform = (flags & 1) != 0;
        d.num_active_loras = flags >> 1;
        d.has_lora = d.num_active_loras > 0;
        hashes.insert(std::hash<BatchDescriptor>{}(d));
        ++keys;
      }
    }
  }
  EXPECT_EQ(hashes.size(), keys);
}

}  // namespace
}  // namespace reprise::cudagraph
