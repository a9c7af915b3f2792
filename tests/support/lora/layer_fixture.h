#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "reprise/device/cpu/cpu_device.h"
#include "reprise/kernels/cpu_executor.h"
#include "reprise/lora/adapter_slots.h"

namespace reprise::testing {

/// Memory for the adapters of two projections on a CPU device: a stack of q_proj [5, 8] and v_proj
/// [3, 8], and down_proj [4, 6], whose rows were reordered. Float32.
struct TwoLoraLayers {
  TwoLoraLayers(int32_t max_loras, int32_t max_rank) : slots(max_loras, max_rank) {
    slots.set_token_slots(tensor({DType::i32, {64}}));
    add({{"model.layers.0.q_proj", 5}, {"model.layers.0.v_proj", 3}}, 8, {});
    add({{"model.layers.0.down_proj", 4}}, 6, {0, 2, 1, 3});
  }

  void add(std::vector<lora::LoraModule> modules, int64_t in, std::vector<int64_t> rows) {
    lora::LoraLayer layer{
        .modules = std::move(modules), .in_features = in, .rows = std::move(rows)};
    int64_t out = 0;
    for (const lora::LoraModule& module : layer.modules) out += module.out_features;
    layer.parts = lora::parts_of(layer.modules, layer.rows);
    const auto num_parts = static_cast<int64_t>(layer.parts.size());
    layer.a = tensor({DType::f32, {slots.max_loras(), num_parts * slots.max_lora_rank(), in}});
    layer.b = tensor({DType::f32, {slots.max_loras(), slots.max_lora_rank(), out}});
    slots.add_layer(std::move(layer));
  }

  Tensor tensor(const TensorType& type) {
    buffers.push_back(device->allocate(type.bytes()));
    stream->fill(buffers.back().data(), std::byte{0}, type.bytes());
    return Tensor::borrow(type, buffers.back().data(), executor);
  }

  std::unique_ptr<device::Device> device = device::create_cpu_device({.num_threads = 1});
  std::unique_ptr<device::Stream> stream = device->create_stream();
  std::unique_ptr<device::MemoryPool> pool = device->create_pool();
  kernels::CpuExecutor executor{*stream, *pool, kernels::kernel_table(kernels::Isa::scalar)};
  std::vector<device::Buffer> buffers;
  lora::AdapterSlots slots;
};

}  // namespace reprise::testing
