// Runs decoders on several ranks with real kernels; each rank has its part of the weights. Passes
// on collective ops must not change any bit on any rank. This is vLLM's row PAS-46, without
// engines.

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <random>

#include "reprise/compile/pipeline.h"
#include "reprise/compile/scale_tokens.h"
#include "reprise/device/cpu/cpu_device.h"
#include "reprise/device/cpu/cpu_features.h"
#include "reprise/kernels/cpu_executor.h"
#include "reprise/kernels/isa.h"
#include "reprise/program/interpreter.h"
#include "reprise/program/text.h"
#include "tests/support/compile/decoder_fixture.h"
#include "tests/support/compile/decompose_fixture.h"
#include "tests/support/compile/rank_fixture.h"

namespace reprise::compile {
namespace {

using program::Program;
using program::SymbolValues;
using program::ValueId;

// A batch of twelve tokens: the prompts of two requests, and one token of a third request.
constexpr int64_t kTokens = 12;
const std::vector<std::vector<int32_t>> kInputs = {
    {5, 18, 31, 44, 7, 20, 33, 46, 9, 22, 35, 48},             // input_ids
    {0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 5, 17},                     // positions
    {16, 17, 18, 19, 20, 32, 33, 34, 35, 36, 37, 16 * 4 + 1},  // slot_mapping
    {0, 5, 11, 12},                                            // query_start_loc
    {5, 6, 18},                                                // seq_lens
    {1, 0, 0, 0, 2, 0, 0, 0, 3, 4, 0, 0},                      // block_table
    {4, 10, 11},                                               // logits_indices
    {3}};                                                      // num_logits

// One list of tensors for all ranks: the logits and then the caches of rank 0, then those of rank 1
// and so on.
using Results = std::vector<std::vector<float>>;

class Ranks {
 public:
  explicit Ranks(int64_t ranks)
      : device_(device::create_cpu_device({.num_threads = 1, .pin_threads = false})),
        stream_(device_->create_stream()),
        pool_(device_->create_pool()),
        inner_(*stream_,
               *pool_,
               kernels::kernel_table(kernels::best_isa(device::detect_cpu_features()))),
        executor_(ranks, inner_, *stream_, size_t{8} << 20) {}

  Results run(const Program& program, const SymbolValues& values) {
    std::vector<Tensor> inputs;
    for (size_t i = 0; i < kInputs.size(); ++i) {
      inputs.push_back(executor_.make(program.type(program.inputs[i].value).evaluate(values)));
      for (int64_t rank = 0; rank < executor_.ranks(); ++rank) {
        std::memcpy(executor_.of_rank(inputs.back(), rank).data(),
                    kInputs[i].data(),
                    inputs.back().type().bytes());
      }
    }
    std::mt19937 random(7);
    const auto make = [&](ValueId id) {
      return random_floats(program.type(id).evaluate(values), random);
    };
    program::SlotTensors slots;
    for (ValueId id : program.parameters) slots.parameters.push_back(make(id));
    for (ValueId id : program.states) slots.states.push_back(make(id));
    program::Interpreter interpreter(program);
    const std::vector<Tensor> outputs = interpreter.run(inputs, slots, values, executor_);
    stream_->synchronize();
    Results found;
    for (int64_t rank = 0; rank < executor_.ranks(); ++rank) {
      for (const Tensor& tensor : outputs) found.push_back(floats_of(tensor, rank));
      for (const Tensor& tensor : slots.states) found.push_back(floats_of(tensor, rank));
    }
    return found;
  }

 private:
  Tensor random_floats(const TensorType& type, std::mt19937& random) {
    const Tensor tensor = executor_.make(type);
    std::uniform_real_distribution<float> distribution(-0.5F, 0.5F);
    const std::mt19937 of_first_rank = random;
    for (int64_t rank = 0; rank < executor_.ranks(); ++rank) {
      // All ranks have the same norm weights. Of other weights, each rank has its own part.
      if (type.shape.rank() == 1) random = of_first_rank;
      auto* data = executor_.of_rank(tensor, rank).data_as<float>();
      for (int64_t i = 0; i < tensor.num_elements(); ++i) data[i] = distribution(random);
    }
    return tensor;
  }
  std::vector<float> floats_of(const Tensor& tensor, int64_t rank) {
    const auto* data = executor_.of_rank(tensor, rank).data_as<float>();
    return {data, data + tensor.num_elements()};
  }

  std::unique_ptr<device::Device> device_;
  std::unique_ptr<device::Stream> stream_;
  std::unique_ptr<device::MemoryPool> pool_;
  kernels::CpuExecutor inner_;
  RankedExecutor executor_;
};

constexpr SymbolValues kValues{
    .num_tokens = kTokens, .num_reqs = 3, .num_logits = 3, .num_blocks = 8};

class Collectives : public testing::TestWithParam<std::tuple<int64_t, bool>> {
 protected:
  [[nodiscard]] int64_t ranks() const { return std::get<0>(GetParam()); }
  [[nodiscard]] Program decoder() const {
    return make_decoder(
        {.num_layers = 2, .ranks = ranks(), .has_qk_norm = std::get<1>(GetParam())});
  }
  [[nodiscard]] PassOptions all_passes() const {
    return {.range = {1, 256},
            .fuse_allreduce_rms = true,
            .rope_kvcache_fusion_max_token_num = 0,
            .fuse_gemm_epilogues = true,
            .group_rows = true,
            .tensor_parallel_size = ranks(),
            .allreduce_fusion_max_token_num = 256};
  }
  void expect_same_bits_after_each_pass(Program program,
                                        const SymbolValues& values,
                                        const PassOptions& options) const {
    const Results before = Ranks(ranks()).run(decoder(), kValues);
    EXPECT_TRUE(Ranks(ranks()).run(program, values) == before);
    const Pipeline pipeline = make_pipeline(options);
    for (const Pass& pass : pipeline.passes()) {
      (void)Pipeline(std::vector{pass}).run(program);
      ASSERT_TRUE(Ranks(ranks()).run(decomposed(program), values) == before)
          << pass.name << "\n"
          << program::print(program);
    }
  }
};

TEST_P(Collectives, are_run_by_ranks_that_differ) {
  const Results results = Ranks(ranks()).run(decoder(), kValues);
  const size_t per_rank = results.size() / static_cast<size_t>(ranks());
  EXPECT_EQ(results[0].size(), size_t{3 * 50});
  EXPECT_NE(results[1], results[per_rank + 1]) << "each rank has a cache of its own";
}

TEST_P(Collectives, compute_the_same_bits_when_all_reduces_are_fused) {
  expect_same_bits_after_each_pass(decoder(), kValues, all_passes());
}

TEST_P(Collectives, PAS_46_compute_the_same_bits_when_sequences_are_parallel) {
  Program program = decoder();
  scale_tokens(program, ranks());
  SymbolValues values = kValues;
  values.num_tokens /= ranks();
  PassOptions options = all_passes();
  options.enable_sp = options.fuse_gemm_comms = true;
  options.sp_min_token_num = 1;
  expect_same_bits_after_each_pass(program, values, options);
}

INSTANTIATE_TEST_SUITE_P(Ranks,
                         Collectives,
                         testing::Combine(testing::Values(2, 3, 4), testing::Bool()));

}  // namespace
}  // namespace reprise::compile
