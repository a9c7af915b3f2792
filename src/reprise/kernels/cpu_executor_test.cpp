#include "reprise/kernels/cpu_executor.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <utility>

#include "reprise/device/cpu/cpu_device.h"
#include "reprise/device/poisoning_pool.h"
#include "reprise/tensor/ops.h"
#include "tests/support/kernels/host_allocations.h"
#include "tests/support/kernels/int8_panels.h"
#include "tests/support/kernels/kernel_test_fixture.h"
#include "tests/support/kernels/packed_weights.h"

namespace reprise::kernels {
namespace {

constexpr int64_t kHidden = 64;
constexpr int64_t kHeads = 4;
constexpr int64_t kKvHeads = 2;
constexpr int64_t kHeadDim = 16;
constexpr int64_t kIntermediate = 96;
constexpr int64_t kVocab = 50;
constexpr int64_t kMaxTokens = 40;
constexpr int64_t kMaxReqs = 4;
constexpr int64_t kQkv = (kHeads + 2 * kKvHeads) * kHeadDim;

// A device, and a decoder layer with every op that such a layer can have.
class Machine {
 public:
  explicit Machine(KernelCase kernel_case, int num_threads = 2)
      : dtype_(kernel_case.dtype),
        device_(device::create_cpu_device({.num_threads = num_threads, .pin_threads = false})),
        stream_(device_->create_stream()),
        pool_(std::make_unique<device::PoisoningPool>(device_->create_pool(), *stream_)),
        executor(*stream_, *pool_, kernel_table(kernel_case.isa)) {
    table = weight({kVocab, kHidden});
    norm = weight({kHidden});
    head_norm = weight({kHeadDim});
    qkv = weight({kQkv, kHidden});
    qkv_bias = weight({kQkv});
    output = weight({kHidden, kHeads * kHeadDim});
    gate_up = weight({2 * kIntermediate, kHidden});
    down = weight({kHidden, kIntermediate});
    cos_sin = random({64, kHeadDim}, DType::f32);
    ids = ints({kMaxTokens});
    positions = ints({kMaxTokens});
    slots = ints({kMaxTokens});
    query_start_loc = ints({kMaxReqs + 1});
    seq_lens = ints({kMaxReqs});
    block_table = ints({kMaxReqs, 4});
    sampled = ints({kMaxReqs});
    num_sampled = ints({1});
    key_cache = persistent({dtype_, {17, kKvHeads, 16, kHeadDim}});
    value_cache = persistent({dtype_, {17, kKvHeads, 16, kHeadDim}});
  }

  // Requests with these numbers of new tokens and no earlier tokens.
  void set_batch(const std::vector<int>& queries) {
    std::memset(slots.data(), 0xFF, slots.type().bytes());
    std::memset(seq_lens.data(), 0, seq_lens.type().bytes());
    int token = 0;
    for (int r = 0; r < kMaxReqs; ++r) {
      set_element(query_start_loc, token, r);
      for (int block = 0; block < 4; ++block) set_element(block_table, 1 + 4 * r + block, r, block);
      if (std::cmp_greater_equal(r, queries.size())) continue;
      const int query = queries[static_cast<size_t>(r)];
      set_element(seq_lens, query, r);
      for (int i = 0; i < query; ++i, ++token) {
        set_element(ids, static_cast<double>((token * 13 + query) % kVocab), token);
        set_element(positions, i, token);
        set_element(slots, (1 + 4 * r) * 16 + i, token);
      }
      set_element(sampled, token - 1, r);
    }
    set_element(query_start_loc, token, kMaxReqs);
    set_element(num_sampled, static_cast<double>(queries.size()), 0);
  }

  // Logits of a step over `num_tokens` tokens, padding included.
  Tensor forward(int64_t num_tokens) {
    const Tensor token_positions = ops::slice(positions, 0, 0, num_tokens);
    Tensor hidden = ops::embedding(ops::slice(ids, 0, 0, num_tokens), table);
    const Tensor projected = ops::linear(ops::rms_norm(hidden, norm, 1e-6F), qkv, qkv_bias);
    const auto part = [&](int64_t first_head, int64_t heads) {
      return ops::unflatten(ops::slice(projected, 1, first_head * kHeadDim, heads * kHeadDim),
                            heads);
    };
    const auto [q, k] = ops::rope(ops::rms_norm(part(0, kHeads), head_norm, 1e-6F),
                                  part(kHeads, kKvHeads),
                                  token_positions,
                                  cos_sin);
    ops::kv_write(k,
                  part(kHeads + kKvHeads, kKvHeads),
                  key_cache,
                  value_cache,
                  ops::slice(slots, 0, 0, num_tokens));
    const Tensor attended = ops::empty_like(q);
    ops::attention(q,
                   key_cache,
                   value_cache,
                   {.query_start_loc = query_start_loc,
                    .seq_lens = seq_lens,
                    .block_table = block_table,
                    .scale = 0.25F},
                   attended);
    hidden = ops::add(hidden, ops::linear(ops::flatten(attended), output));
    const Tensor gated =
        ops::silu_and_mul(ops::linear(ops::rms_norm(hidden, norm, 1e-6F), gate_up));
    hidden = ops::add(hidden, ops::linear(gated, down));
    return ops::lm_head(ops::gather_rows(hidden, sampled), table, num_sampled);
  }

  device::Stream& stream() { return *stream_; }
  device::Device& device() { return *device_; }
  device::MemoryPool& pool() { return *pool_; }

  Tensor ints(Shape shape) { return persistent({DType::i32, shape}); }
  Tensor weight(Shape shape) { return random(shape, dtype_); }
  Tensor random(Shape shape, DType dtype) {
    Tensor tensor = persistent({dtype, shape});
    std::normal_distribution<double> normal(0.0, 0.2);
    for (const RowIndex& row : all_rows(tensor)) {
      for (int64_t i = 0; i < shape[-1]; ++i) set_row_element(tensor, normal(random_), row, i);
    }
    return tensor;
  }

  Tensor persistent(TensorType type) {
    buffers_.push_back(device_->allocate(type.bytes()));
    return Tensor::borrow(type, buffers_.back().data(), executor);
  }

 private:
  DType dtype_;
  std::unique_ptr<device::Device> device_;
  std::unique_ptr<device::Stream> stream_;
  std::unique_ptr<device::MemoryPool> pool_;
  std::vector<device::Buffer> buffers_;
  std::mt19937 random_{7};

 public:
  CpuExecutor executor;
  Tensor table, norm, head_norm, qkv, qkv_bias, output, gate_up, down, cos_sin;
  Tensor ids, positions, slots, query_start_loc, seq_lens, block_table, sampled, num_sampled;
  Tensor key_cache, value_cache;
};

std::vector<std::byte> first_rows(const Tensor& tensor, int64_t rows) {
  const size_t bytes =
      tensor.type().bytes() / static_cast<size_t>(tensor.size(0)) * static_cast<size_t>(rows);
  const auto* data = tensor.data_as<std::byte>();
  return {data, data + bytes};
}

constexpr KernelCase kScalar = {Isa::scalar, DType::f32};

TEST(CpuExecutor, counts_ops_and_launches_by_kind) {
  Machine machine(kScalar);
  machine.set_batch({3, 1});
  (void)machine.forward(4);
  EXPECT_EQ(machine.executor.num_launches(OpCode::linear), 4U);
  EXPECT_EQ(machine.executor.num_launches(OpCode::rms_norm), 3U);
  EXPECT_EQ(machine.executor.num_launches(OpCode::attention), 1U);
  EXPECT_EQ(machine.executor.num_launches(), 16U);
  EXPECT_EQ(machine.executor.num_ops(OpCode::slice), 6U);
  EXPECT_EQ(machine.executor.num_launches(OpCode::slice), 0U);
  EXPECT_EQ(machine.executor.num_ops(), 16U + 6U + 3U + 1U + 1U);
}

TEST(CpuExecutor, views_share_memory_and_keep_it_alive) {
  Machine machine(kScalar);
  machine.set_batch({2});
  Tensor view;
  {
    const Tensor hidden = ops::embedding(ops::slice(machine.ids, 0, 0, 2), machine.table);
    view = ops::unflatten(ops::slice(hidden, 1, 16, 32), 2);
    EXPECT_EQ(view.data_as<float>(), hidden.data_as<float>() + 16);
    EXPECT_EQ(view.shape(), (Shape{2, 2, 16}));
    EXPECT_EQ(view.strides(), (Shape{kHidden, 16, 1}));
    const Tensor flat = ops::flatten(view);
    EXPECT_EQ(flat.shape(), (Shape{2, 32}));
    EXPECT_EQ(flat.strides(), (Shape{kHidden, 1}));
  }
  // The pool overwrites released memory with poison values, so the view must still own its memory.
  EXPECT_EQ(element(view, 1, 1, 3),
            element(machine.table, int_element(machine.ids, 1), 16 + 16 + 3));
  const size_t live = machine.pool().live_bytes();
  view = {};
  EXPECT_LT(machine.pool().live_bytes(), live);
}

TEST(CpuExecutor, launches_nothing_for_zero_tokens) {
  Machine machine(kScalar);
  machine.set_batch({});
  const Tensor x = ops::slice(machine.table, 0, 0, 0);
  EXPECT_EQ(ops::linear(x, machine.qkv).shape(), (Shape{0, kQkv}));
  EXPECT_EQ(ops::rms_norm(x, machine.norm, 1e-6F).shape(), (Shape{0, kHidden}));
  (void)ops::add(x, x);
  (void)ops::silu_and_mul(x);
  (void)ops::gather_rows(x, ops::slice(machine.ids, 0, 0, 0));
  (void)ops::embedding(ops::slice(machine.ids, 0, 0, 0), machine.table);
  const Tensor q = ops::unflatten(x, kHeads);
  const Tensor none = ops::slice(machine.ids, 0, 0, 0);
  const auto [q_out, k_out] = ops::rope(q, q, none, machine.cos_sin);
  ops::attention(q_out,
                 machine.key_cache,
                 machine.value_cache,
                 {machine.query_start_loc, machine.seq_lens, machine.block_table},
                 ops::empty_like(q_out));
  EXPECT_EQ(machine.executor.num_launches(), 0U);
}

TEST(CpuExecutor, refuses_before_it_launches) {
  Machine machine(kScalar);
  EXPECT_THROW((void)ops::linear(machine.table, machine.down), ShapeError);
  EXPECT_THROW((void)ops::add(machine.ids, machine.ids), InvalidArgument);
  EXPECT_EQ(machine.executor.num_launches(), 0U);
}

TEST(CpuExecutor, refuses_collectives_of_an_engine_with_one_rank) {
  Machine machine(kScalar);
  Tensor sum;
  EXPECT_THROW(
      machine.executor.execute(
          {OpCode::all_reduce, {.ranks = 2}}, std::span(&machine.table, 1), std::span(&sum, 1)),
      InvalidArgument);
  EXPECT_EQ(machine.executor.num_launches(), 0U);
}

// Runs each op that only the compiler makes, on no tokens.
TEST(CpuExecutor, launches_nothing_for_zero_tokens_of_fused_and_eight_bit_ops) {
  Machine machine(kScalar);
  machine.set_batch({});
  const Tensor x = ops::slice(machine.table, 0, 0, 0);
  const Tensor none = ops::slice(machine.ids, 0, 0, 0);
  const Tensor square = machine.weight({kHidden, kHidden});
  const auto run = [&](OpCode code, const OpAttributes& attributes, std::vector<Tensor> inputs) {
    std::array<TensorType, kMaxOpOutputs> types;
    std::vector<Tensor> outputs(infer_output_types({code, attributes}, inputs, types));
    machine.executor.execute({code, attributes}, inputs, outputs);
    EXPECT_EQ(machine.executor.num_launches(), 0U) << op_name(code);
    return outputs;
  };
  run(OpCode::linear_add, {}, {x, square, {}, x, {}});
  run(OpCode::linear_silu_and_mul, {}, {x, machine.gate_up, {}, {}, {}});
  const Tensor q = ops::unflatten(x, kHeads);
  const Tensor k = ops::unflatten(ops::slice(x, 1, 0, kKvHeads * kHeadDim), kKvHeads);
  const Tensor none_to_cache[] = {
      none, machine.cos_sin, machine.key_cache, machine.value_cache, none, {}, {}};
  std::vector<Tensor> inputs = {q, k, k};
  inputs.insert(inputs.end(), std::begin(none_to_cache), std::end(none_to_cache));
  run(OpCode::rope_kv_write, {}, inputs);
  inputs = {x, machine.qkv, machine.qkv_bias};
  inputs.insert(inputs.end(), std::begin(none_to_cache), std::end(none_to_cache));
  inputs.emplace_back();  // no norm
  run(OpCode::linear_rope_kv_write, {.length = kHeads}, inputs);
  for (DType eight_bits : {DType::i8, DType::f8e4m3}) {
    const OpAttributes to_eight_bits = {.type = {eight_bits, {}}, .epsilon = 1e-6F};
    const auto quantized = run(OpCode::quantize_per_token, to_eight_bits, {x});
    const Tensor one = machine.random({1}, DType::f32);
    run(OpCode::quantize_static, to_eight_bits, {x, one});
    run(OpCode::rms_norm_quant, to_eight_bits, {x, machine.norm});
    run(OpCode::fused_add_rms_norm_quant, to_eight_bits, {x, x, machine.norm});
    run(OpCode::silu_and_mul_quant, to_eight_bits, {x});
    const Tensor weight = machine.persistent({eight_bits, {3, kHidden}});
    run(OpCode::scaled_linear,
        {.type = {DType::bf16, {}}},
        {quantized[0], quantized[1], weight, machine.random({3}, DType::f32), {}});
    run(OpCode::attention_quant,
        {.scale = 1.0F},
        {q,
         machine.key_cache,
         machine.value_cache,
         machine.query_start_loc,
         machine.seq_lens,
         machine.block_table,
         one,
         machine.persistent({eight_bits, q.shape()})});
  }
}

TEST(CpuExecutor, quantises_elements_first_where_a_weight_asks_for_quantised_rows) {
  Machine machine(kScalar);
  std::mt19937 random(3);
  const PanelPart part{.format = PanelFormat::q8_0, .columns = kHidden};
  const Tensor x = ops::slice(machine.table, 0, 0, 3);
  const Tensor blocks = machine.persistent(packed_weight_type({&part, 1}, kHidden, x.dtype()));
  fill_packed_weight(blocks, {&part, 1}, random);
  const Tensor int8s = machine.persistent(int8_panels_type(kHidden, kHidden, x.dtype()));
  fill_int8_panels(int8s, random);
  machine.set_batch({3});
  *machine.num_sampled.data_as<int32_t>() = 3;
  for (const Tensor& weight : {blocks, int8s}) {
    const auto run = [&](OpCode code, const std::vector<Tensor>& inputs) {
      std::array<Tensor, 1> out;
      machine.executor.execute({code, {.epsilon = 1e-6F}}, inputs, out);
      machine.stream().synchronize();
      const auto* begin = out[0].data_as<std::byte>();
      return std::vector<std::byte>(begin, begin + out[0].type().bytes());
    };
    const auto rows = ops::activations_for(weight, x);
    EXPECT_EQ(run(OpCode::linear, {x, weight, {}, {}}),
              run(OpCode::linear, {rows.x, weight, {}, rows.scale}));
    EXPECT_EQ(run(OpCode::linear_add, {x, weight, {}, x, {}}),
              run(OpCode::linear_add, {rows.x, weight, {}, x, rows.scale}));
    const auto normed = ops::activations_for(weight, ops::rms_norm(x, machine.norm, 1e-6F));
    EXPECT_EQ(run(OpCode::linear_silu_and_mul, {x, weight, {}, {}, machine.norm}),
              run(OpCode::linear_silu_and_mul, {normed.x, weight, {}, normed.scale, {}}));
    const Tensor& all = machine.num_sampled;
    EXPECT_EQ(run(OpCode::lm_head, {x, weight, all, {}, machine.norm}),
              run(OpCode::lm_head, {normed.x, weight, all, normed.scale, {}}));
    EXPECT_THROW((void)run(OpCode::linear_add,
                           {x,
                            weight,
                            {},
                            x,
                            rows.scale.defined() ? rows.scale : machine.random({3}, DType::f32)}),
                 ShapeError);
  }
}

TEST(CpuExecutor, takes_results_from_the_pool_in_scope) {
  Machine machine(kScalar);
  const std::unique_ptr<device::MemoryPool> other = machine.device().create_pool();
  const Tensor x = ops::slice(machine.table, 0, 0, 3);
  {
    const PoolScope scope(machine.executor, *other);
    const Tensor sum = ops::add(x, x);
    EXPECT_GT(other->live_bytes(), 0U);
    EXPECT_EQ(machine.pool().live_bytes(), 0U);
  }
  EXPECT_EQ(&machine.executor.pool(), &machine.pool());
}

class EagerSteps : public testing::TestWithParam<KernelCase> {};

TEST_P(EagerSteps, allocate_nothing_on_the_host_once_warm) {
  Machine machine(GetParam());
  machine.set_batch({5, 1, 7});
  (void)machine.forward(13);
  (void)machine.forward(13);
  const uint64_t before = num_host_allocations();
  (void)machine.forward(13);
  EXPECT_EQ(num_host_allocations() - before, 0U);
}

TEST_P(EagerSteps, replay_bit_for_bit_with_other_lengths_and_a_poisoned_pool) {
  Machine machine(GetParam());
  const std::unique_ptr<device::MemoryPool> graph_pool = machine.device().create_pool();
  machine.set_batch({5, 1, 7});
  Tensor recorded;
  std::unique_ptr<device::GraphExec> replay;
  {
    device::CaptureScope capture(machine.stream());
    const PoolScope scope(machine.executor, *graph_pool);
    recorded = machine.forward(32);
    const auto graph = std::move(capture).finish();
    EXPECT_EQ(graph->num_nodes(), 16U);
    replay = machine.device().instantiate(*graph);
  }
  for (const std::vector<int>& batch :
       {std::vector<int>{5, 1, 7}, {32}, {1}, {1, 1, 1, 1}, {9, 8, 7, 8}, {}, {5, 1, 7}}) {
    machine.set_batch(batch);
    const auto rows = static_cast<int64_t>(batch.size());
    const auto eager = first_rows(machine.forward(32), rows);
    const auto keys = first_rows(machine.key_cache, 17);
    std::memset(machine.key_cache.data(), 0xFF, machine.key_cache.type().bytes());
    device::poison_free_ranges(*graph_pool, machine.stream());
    replay->launch(machine.stream());
    machine.stream().synchronize();
    EXPECT_EQ(first_rows(recorded, rows), eager) << rows << " requests";
    // The caches again hold what this batch wrote; all other rows hold their initial content.
    for (size_t i = 0; i < keys.size(); ++i) {
      const std::byte now = machine.key_cache.data_as<std::byte>()[i];
      ASSERT_TRUE(now == keys[i] || now == std::byte{0xFF});
    }
    std::memcpy(machine.key_cache.data(), keys.data(), keys.size());
  }
}

TEST_P(EagerSteps, give_the_same_bits_on_any_number_of_threads_and_with_any_padding) {
  Machine one(GetParam(), 1);
  Machine three(GetParam(), 3);
  one.set_batch({5, 1, 7});
  three.set_batch({5, 1, 7});
  const auto want = first_rows(one.forward(13), 3);
  EXPECT_EQ(first_rows(three.forward(13), 3), want);
  EXPECT_EQ(first_rows(three.forward(14), 3), want);
  EXPECT_EQ(first_rows(three.forward(40), 3), want);
}

TEST_P(EagerSteps, give_a_request_the_same_bits_beside_any_other) {
  Machine machine(GetParam());
  machine.set_batch({7});
  const auto alone = first_rows(machine.forward(7), 1);
  machine.set_batch({7, 20, 3});
  // The ids depend on the token's place, so only the first request is the same.
  EXPECT_EQ(first_rows(machine.forward(30), 1), alone);
}

INSTANTIATE_TEST_SUITE_P(AllKernels, EagerSteps, testing::ValuesIn(all_kernel_cases()), case_name);

}  // namespace
}  // namespace reprise::kernels
