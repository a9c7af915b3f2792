#include "reprise/tensor/aliasing.h"

#include <cstring>
#include <functional>
#include <set>

#include "reprise/device/cpu/cpu_device.h"
#include "reprise/kernels/cpu_executor.h"
#include "reprise/kernels/quantize/quantize.h"
#include "reprise/kernels/quantize_blocks/quantize_blocks.h"
#include "reprise/tensor/int8_panels.h"
#include "tests/support/kernels/int8_panels.h"
#include "tests/support/kernels/kernel_test_fixture.h"
#include "tests/support/kernels/packed_weights.h"
#include "tests/support/kernels/products.h"

namespace reprise::kernels {
namespace {

using Bytes = std::vector<std::byte>;

Bytes bytes_of(const Tensor& tensor) {
  if (!tensor.defined()) return {};
  const auto* data = tensor.data_as<std::byte>();
  return {data, data + tensor.type().bytes()};
}

// Tests every pair of result and operand that can_alias allows, with the kernels of each
// instruction set and with blocks in several orders.
class Aliasing : public KernelTest {
 protected:
  struct Case {
    OpCall call;
    std::vector<Tensor> inputs;
  };

  Tensor block_weight(int64_t columns) {
    const std::vector<PanelPart> parts = {{.format = PanelFormat::q4_0, .columns = columns}};
    Tensor weight = make(packed_weight_type(parts, 64, dtype()));
    fill_packed_weight(weight, parts, random_);
    return weight;
  }
  Tensor int8_weight() {
    Tensor weight = make(int8_panels_type(96, 64, dtype()));
    fill_int8_panels(weight, random_);
    return weight;
  }

  // One case for each op that can_alias allows to alias, with several blocks.
  std::vector<Case> all_cases() {
    const int64_t rows = 45;
    const int64_t width = 100;
    const Tensor x = random({rows, width});
    const Tensor residual = random({rows, width});
    const Tensor weight = random({width});
    const Tensor q = random({rows, 2, 48});
    const Tensor k = random({rows, 2, 48});
    const Tensor v = random({rows, 2, 48});
    const Tensor head_norm = random({48});
    const Tensor cos_sin = random({rows, 48}, DType::f32, 1.0);
    std::vector<int> count(rows);
    for (int i = 0; i < static_cast<int>(rows); ++i) count[static_cast<size_t>(i)] = i;
    const Tensor positions = ints(count);
    for (int& slot : count) slot = slot % 4 - 1;
    const Tensor token_slots = ints(count);
    const Tensor keys = random({3, 2, 16, 48});
    const Tensor values = random({3, 2, 16, 48});
    const OpAttributes norm = {.epsilon = 1e-6F};
    const OpAttributes int8_norm = {.type = {DType::i8, {}}, .epsilon = 1e-6F};
    const Tensor blocks = make({rows, 80}, DType::i8);
    launch_quantize_blocks(stream_, kernels(), random({rows, 64}), blocks);
    const Tensor codes = make({rows, 64}, DType::i8);
    const Tensor scales = make({rows}, DType::f32);
    launch_quantize_per_token(stream_, kernels(), random({rows, 64}), codes, scales);
    return {
        {{OpCode::add, {}}, {x, residual}},
        {{OpCode::linear_add, {}}, {blocks, block_weight(width), weight, residual, {}}},
        {{OpCode::linear_add, {}},
         {codes, int8_weight(), random({96}), random({rows, 96}), scales}},
        {{OpCode::add, {}}, {q, k}},
        {{OpCode::rms_norm, norm}, {x, weight}},
        {{OpCode::rms_norm, norm}, {q, head_norm}},
        {{OpCode::fused_add_rms_norm, norm}, {x, residual, weight}},
        {{OpCode::fused_add_rms_norm_quant, int8_norm}, {x, residual, weight}},
        {{OpCode::gemma_rms_norm, norm}, {x, weight}},
        {{OpCode::gemma_rms_norm, norm}, {q, head_norm}},
        {{OpCode::layer_norm, norm}, {x, weight, weight}},
        {{OpCode::activation, {.function = OpFunction::gelu}}, {x}},
        {{OpCode::activation, {.function = OpFunction::gelu_tanh}}, {x}},
        {{OpCode::activation, {.function = OpFunction::relu}}, {x}},
        {{OpCode::activation, {.function = OpFunction::relu2}}, {x}},
        {{OpCode::scale, {.scale = 0.5F}}, {x}},
        {{OpCode::soft_cap, {.soft_cap = 2.0F}}, {x}},
        {{OpCode::clamp, {.least = -0.25F, .limit = 0.5F}}, {x}},
        {{OpCode::sigmoid_gate, {}}, {x, random({rows, 1})}},
        {{OpCode::lora_expand, {}},
         {x,
          random({rows, 8}, DType::f32, 1.0),
          random({3, 4, width}),
          ints({40, static_cast<int>(width)}),
          token_slots}},
        {{OpCode::linear_add, {}}, {x, random({width, width}), weight, residual, {}}},
        {{OpCode::rope, {}}, {q, k, positions, cos_sin}},
        {{OpCode::rope_kv_write, norm},
         {q, k, v, positions, cos_sin, keys, values, positions, {}, {}}},
        {{OpCode::rope_kv_write, norm},
         {q, k, v, positions, cos_sin, keys, values, positions, head_norm, head_norm}},
    };
  }

  std::vector<Tensor> copies_of(const std::vector<Tensor>& tensors) {
    std::vector<Tensor> copies;
    for (const Tensor& tensor : tensors) {
      copies.push_back(tensor.defined() ? make(tensor.type()) : Tensor());
      if (!tensor.defined()) continue;
      std::memcpy(copies.back().data(), tensor.data(), tensor.type().bytes());
    }
    return copies;
  }

  struct Memory {
    std::vector<Bytes> outputs;
    std::vector<Bytes> inputs;  // the inputs after the op has run: caches change
  };
  // Places result i in the memory of operand places[i], or in memory of its own, and runs the op.
  Memory run(const Case& c, const std::vector<std::optional<size_t>>& places) {
    const std::vector<Tensor> inputs = copies_of(c.inputs);
    std::array<TensorType, kMaxOpOutputs> types;
    std::vector<Tensor> outputs(infer_output_types(c.call, inputs, types));
    for (size_t i = 0; i < outputs.size(); ++i) {
      outputs[i] = places[i] ? inputs[*places[i]] : make(types[i].shape, types[i].dtype);
    }
    const std::vector<Tensor> given = outputs;
    CpuExecutor executor(stream_, *pool_, kernels());
    executor.execute(c.call, inputs, outputs);
    Memory memory;
    for (size_t i = 0; i < outputs.size(); ++i) {
      EXPECT_EQ(outputs[i].data(), given[i].data());
      memory.outputs.push_back(bytes_of(outputs[i]));
    }
    for (const Tensor& input : inputs) memory.inputs.push_back(bytes_of(input));
    return memory;
  }

  // Calls `function` with every choice of places that can_alias allows for one launch.
  static void for_each_choice(
      const Case& c,
      const std::vector<TensorType>& types,
      const std::function<void(const std::vector<std::optional<size_t>>&)>& function,
      std::vector<std::optional<size_t>> places = {}) {
    if (places.size() == types.size()) return function(places);
    const size_t result = places.size();
    places.emplace_back();
    for_each_choice(c, types, function, places);
    for (size_t operand = 0; operand < c.inputs.size(); ++operand) {
      const bool is_taken = std::find(places.begin(), places.end(), operand) != places.end();
      if (is_taken || !can_alias(c.call.code, operand, result)) continue;
      places.back() = operand;
      for_each_choice(c, types, function, places);
    }
  }

  std::unique_ptr<device::Device> device_ = device::create_cpu_device({.num_threads = 1});
  std::unique_ptr<device::MemoryPool> pool_ = device_->create_pool();
};

TEST_P(Aliasing, a_result_in_the_place_of_an_operand_has_the_bits_of_one_apart) {
  for (const Case& c : all_cases()) {
    std::array<TensorType, kMaxOpOutputs> types;
    const size_t num_outputs = infer_output_types(c.call, c.inputs, types);
    const Memory apart = run(c, std::vector<std::optional<size_t>>(num_outputs));
    size_t num_choices = 0;
    for_each_choice(c, {types.begin(), types.begin() + num_outputs}, [&](const auto& places) {
      ++num_choices;
      const Memory aliased = run(c, places);
      EXPECT_EQ(aliased.outputs, apart.outputs) << op_name(c.call.code);
      for (size_t i = 0; i < c.inputs.size(); ++i) {
        if (std::find(places.begin(), places.end(), i) != places.end()) continue;
        EXPECT_EQ(aliased.inputs[i], apart.inputs[i]) << op_name(c.call.code) << " " << i;
      }
    });
    EXPECT_GT(num_choices, 1U) << op_name(c.call.code);
  }
}

TEST_P(Aliasing, every_claim_is_about_an_op_that_is_tested) {
  std::set<OpCode> tested;
  for (const Case& c : all_cases()) tested.insert(c.call.code);
  for (size_t code = 0; code < kNumOpCodes; ++code) {
    for (size_t operand = 0; operand < 12; ++operand) {
      for (size_t result = 0; result < kMaxOpOutputs; ++result) {
        if (!can_alias(static_cast<OpCode>(code), operand, result)) continue;
        EXPECT_TRUE(tested.contains(static_cast<OpCode>(code)))
            << op_name(static_cast<OpCode>(code));
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(AllKernels, Aliasing, testing::ValuesIn(all_kernel_cases()), case_name);

}  // namespace
}  // namespace reprise::kernels
