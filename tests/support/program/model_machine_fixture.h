#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "reprise/device/cpu/cpu_features.h"
#include "reprise/device/device.h"
#include "reprise/kernels/cpu_executor.h"
#include "reprise/kernels/isa.h"
#include "reprise/kv_cache/tensors/kv_cache_tensors.h"
#include "reprise/models/causal_lm.h"
#include "reprise/program/trace.h"
#include "reprise/weights/config/model_config.h"
#include "reprise/weights/sources/dummy_weights.h"

/// For tests with real models and kernels only.
namespace reprise::program {

using Bytes = std::vector<std::byte>;

struct MachineOptions {
  kernels::Isa isa = kernels::best_isa(device::detect_cpu_features());
  int num_threads = 2;
};

/// A device, and the tensors of integers that a batch needs.
class Machine {
 public:
  explicit Machine(const MachineOptions& options = {});

  [[nodiscard]] Tensor ints(const Shape& shape, std::vector<int32_t> values);
  /// The elements in order, also if the tensor is a strided view.
  [[nodiscard]] Bytes bytes_of(const Tensor& tensor);

  std::unique_ptr<device::Device> device;
  std::unique_ptr<device::Stream> stream;
  std::unique_ptr<device::MemoryPool> pool;
  kernels::CpuExecutor executor;

 private:
  std::deque<std::vector<int32_t>> numbers_;
};

struct Request {
  int32_t query_len = 1;
  int32_t computed = 0;  // positions in the cache before this step
};

/// The inputs of a traced model, in order.
enum Input : size_t {
  kInputIds,
  kPositions,
  kSlotMapping,
  kQueryStartLoc,
  kSeqLens,
  kBlockTable,
  kLogitsIndices,
  kNumLogits
};

/// Makes the inputs for a batch, with `padding` more rows of tokens and of requests than the batch
/// has. The ids are valid for all models and random programs.
[[nodiscard]] std::vector<Tensor> make_batch(Machine& machine,
                                             const std::vector<Request>& requests,
                                             int64_t padding = 0);

/// Whether kernels exist for all ops: random programs also use eight-bit values in ops that have
/// only float kernels.
[[nodiscard]] bool has_kernels(const Program& program);

struct Batch {
  const char* name;
  std::vector<Request> requests;
  int64_t padding = 0;
};
/// One batch of each kind.
[[nodiscard]] const std::vector<Batch>& all_batches();

struct Architecture {
  const char* name;
  const char* members;  // of config.json, in addition to the common members
};
inline constexpr std::array kArchitectures = {
    Architecture{"Llama",
                 R"("model_type": "llama", "num_key_value_heads": 4, "tie_word_embeddings": true)"},
    Architecture{"Mistral",
                 R"("model_type": "mistral", "num_key_value_heads": 2, "sliding_window": 9)"},
    Architecture{"Qwen2", R"("model_type": "qwen2", "num_key_value_heads": 1)"},
    Architecture{"Qwen3", R"("model_type": "qwen3", "num_key_value_heads": 2)"}};

/// A small model with random weights, and its cache.
class ModelMachine : public Machine {
 public:
  ModelMachine(const Architecture& architecture,
               int num_layers,
               DType dtype = DType::bf16,
               const MachineOptions& options = {});

  /// Runs the model's forward. The executor of `inputs` decides whether it computes or traces.
  [[nodiscard]] std::vector<Tensor> forward(std::span<const Tensor> inputs);
  [[nodiscard]] TracedProgram trace_model();

  /// Logits and cache after a run. Every run starts with the same content of the cache.
  template <typename Run>
  [[nodiscard]] Bytes result_of(Run&& run) {
    fill_cache();
    Bytes bytes = bytes_of(run().front());
    const auto* cache = static_cast<const std::byte*>(cache_.memory().data);
    bytes.insert(bytes.end(), cache, cache + cache_.memory().bytes);
    return bytes;
  }

 private:
  // Fills the contexts of requests with small numbers of both signs instead of computing them.
  void fill_cache();

  weights::ModelConfig config_;
  weights::DummyWeights weights_;
  models::Parameters parameters_;
  std::unique_ptr<models::CausalLM> model_;
  kv_cache::KvCacheTensors cache_;
};

}  // namespace reprise::program
