#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reprise/api/options/lora_modules.h"
#include "reprise/api/text/chat_prompt.h"
#include "reprise/base/json.h"
#include "reprise/config/compilation_config.h"
#include "reprise/kv_cache/events/kv_events_config.h"
#include "reprise/kv_cache/transfer/kv_transfer_config.h"
#include "reprise/sampling/sampling_params.h"
#include "reprise/scheduler/scheduling_policy.h"

namespace reprise::parallel {
class Communicator;
}
namespace reprise::compile {
class Extensions;
}

namespace reprise::api {

/// The source of the weights. `automatic`: safetensors in the model folder. `dummy`: random values.
enum class LoadFormat : uint8_t { automatic, safetensors, dummy };

/// The meaning of EngineArgs::gpu_memory_utilization without a value.
inline constexpr double kDefaultMemoryUtilization = 0.9;
/// A value of EngineArgs::max_model_len: the model's limit, or less if the KV cache holds fewer
/// tokens.
inline constexpr int32_t kLongestThatFits = -1;

/// All options of an engine. Names and defaults are vLLM's if vLLM has the option.
struct EngineArgs {
  std::filesystem::path model;         // a folder, a GGUF file, or a name in the Hugging Face cache
  std::filesystem::path download_dir;  // that cache; empty: hub_cache_folder()
  std::string revision = "main";       // of a model in the cache: a branch, a tag or a commit
  std::optional<std::filesystem::path> tokenizer;  // folder; default: the model's
  Json hf_overrides = Json::object();              // members that replace those of config.json
  /// The source of recommended sampling parameters: auto = the model's generation_config.json,
  /// vllm = none, else a folder with that file.
  std::string generation_config = "auto";
  Json override_generation_config = Json::object();  // members that replace those of that file
  std::optional<std::string>
      chat_template;  // a file, or the template itself; default: the tokenizer's
  /// The form in which the template gets the content of messages.
  ContentFormat chat_template_content_format = ContentFormat::automatic;
  LoadFormat load_format = LoadFormat::automatic;
  /// generate, pooling, or auto: pooling for encoders and for folders of Sentence Transformers.
  std::string runner = "auto";
  /// none: weights as they are stored; int8, int4, q8_0, fp8: quantised while they are loaded;
  /// gptq, awq, compressed-tensors, bitsandbytes, modelopt: stored in that format, which is an
  /// error if they are not. fp8 is also accepted for weights that are stored so.
  std::string quantization = "none";
  std::string device = "auto";  // cpu, cuda; auto = cuda if it can be used
  /// The part of the device's memory that weights, caches, activations and graphs may use together
  /// with all else there. Of a CPU: of the tightest memory limit of this process, or of the
  /// machine. Without a value: 0.9.
  std::optional<double> gpu_memory_utilization;
  /// Kernels begin while the one ahead of them ends, on GPUs of compute capability 9. Off until the
  /// check on a GPU (scripts/gpu_check.sh) has shown that it is right and quicker.
  bool programmatic_dependent_launch = false;
  std::string dtype = "auto";  // auto = bfloat16 on CPUs; float32, float16
  uint64_t seed = 0;
  std::optional<int32_t> max_model_len;  // default: the limit in config.json
  /// max_model_len may exceed the positions that a model with rotated positions was made for:
  /// VLLM_ALLOW_LONG_MAX_MODEL_LEN.
  bool allow_long_max_model_len = false;
  int32_t max_num_seqs = 256;
  int32_t max_num_batched_tokens = 2048;
  bool enable_chunked_prefill = true;
  int32_t long_prefill_token_threshold = 0;  // most tokens of one prompt in a step; 0 = no limit
  scheduler::SchedulingPolicy scheduling_policy = scheduler::SchedulingPolicy::fcfs;
  /// Draft tokens, as speculative::parse_speculative_config reads them; empty: none.
  Json speculative_config = Json::object();
  bool async_scheduling = false;  // a step is scheduled while the previous one is computed
  /// Requests share the cached beginning of their prompts. Default: see caches_prefixes().
  std::optional<bool> enable_prefix_caching;
  std::string mamba_cache_mode;  // align, none; empty: align where prefixes are cached
  /// See scheduler::SchedulerConfig.
  int32_t prefix_cache_retention_interval = 0;
  /// Steps never compute the attention over a prefix that all requests share only once.
  bool disable_cascade_attn = false;
  bool expert_counters = false;  // the tokens of each expert are counted
  int32_t block_size = 16;
  kv_cache::KvEventsConfig kv_events;      // tells routers what is cached
  kv_cache::KvTransferConfig kv_transfer;  // prompts that another engine computes, or continues
  std::string kv_cache_dtype = "auto";     // a name that kv_cache::find_cache_dtype accepts
  /// Bytes of KV cache; default: 4 GiB, never more than half of the free memory, nor more than
  /// max_num_seqs requests of max_model_len can use.
  std::optional<int64_t> kv_cache_memory_bytes;
  std::optional<int64_t> num_gpu_blocks_override;  // blocks of the cache, whatever memory there is
  int32_t max_logprobs = sampling::kMaxLogprobs;   // a request may ask for; -1 = the vocabulary
  bool enable_lora = false;                        // requests may name adapters
  std::vector<LoraModulePath> lora_modules;        // adapters that are loaded at the start
  int32_t max_loras = 1;                 // different adapters in one step: slots on the device
  int32_t max_lora_rank = 16;            // of any adapter; slots have this size
  std::optional<int32_t> max_cpu_loras;  // adapters in host memory; default: max_loras
  /// Separate graphs for 1, 2, 4, ... different adapters in a step, instead of one for any number.
  bool specialize_active_lora = false;
  /// A name that attention::find_attention_backend accepts.
  std::string attention_backend = "auto";
  int32_t flash_attn_version = 0;  // 2 or 3, for FLASH_ATTN; 0 = 3
  /// GPUs of compute capability 9.0 compute prompts with FlashInfer's kernels. Off until a GPU has
  /// run these kernels.
  bool flashinfer_prefill = false;
  bool enforce_eager = false;
  /// What is proved about each captured graph before it may be replayed: off, capture, strict. See
  /// cudagraph::parse_verify_graphs.
  std::string verify_graphs = "capture";
  /// The share of replayed steps that are compared with an eager run of the same step, 0 to 1.
  double shadow_check_rate = 0;
  /// Where reports of wrong replays are written. Empty: graph-reports, beside the compile cache.
  std::filesystem::path graph_report_dir;
  /// A step that leaves the graph that the configuration promises fails, and so does a start.
  bool strict_graphs = false;
  /// The nodes of captures are noted, for GraphMicroscope. \pre verify_graphs is not "off"
  bool keep_graph_inventory = false;
  /// The file to which each answer is appended with what is needed to repeat it; empty: none.
  std::filesystem::path replay_log;
  /// Gets a line for people when a running engine finds something wrong. On any thread; may be
  /// empty.
  std::function<void(std::string_view)> log_line;
  /// Gets a line about a change that a running engine makes on request. On any thread; may be
  /// empty.
  std::function<void(std::string_view)> note_line;
  std::string program_version;  // for reports; empty: not known
  config::OptimizationLevel optimization_level = config::OptimizationLevel::O2;
  Json compilation_config = Json::object();  // see config::parse_compilation_config
  /// The folder of the compile cache; empty: REPRISE_CACHE_ROOT, else ~/.cache/reprise.
  std::filesystem::path compile_cache_root;
  /// Keeps the weights as kernels read them in a file, which the next start maps: none, auto (a
  /// folder beside the compile cache), or a folder.
  std::string packed_weights_cache = "none";
  /// Kernels of matrix products are chosen by measurement, where the device has several: what no
  /// earlier start has measured is measured before the graphs are captured, and stored beside the
  /// compile cache. Nothing: stored choices are used, and nothing is measured. False: the built-in
  /// rules hold.
  std::optional<bool> tune;
  bool tune_again = false;  // with tune: what is stored is measured again, and replaced
  std::vector<std::filesystem::path> extension_files;  // plug-ins that add to `extensions`
  /// Ops, passes and compilers of the user. nullptr: there are none.
  std::shared_ptr<const compile::Extensions> extensions;
  bool disable_compile_cache = false;   // compile at each start and store nothing
  int32_t tensor_parallel_size = 1;     // ranks that share each layer
  int32_t pipeline_parallel_size = 1;   // ranks among which the layers are divided
  int32_t planned_rank = 0;             // whose program compile_only() makes, without `ranks`
  int32_t data_parallel_size = 1;       // engines with the same model, behind one server
  bool data_parallel_lockstep = false;  // these engines run their steps together
  bool enable_expert_parallel = false;  // ranks divide the experts, instead of each expert
  std::string distributed_executor_backend = "auto";  // how the program starts ranks
  int32_t distributed_timeout_seconds = 20;           // that a rank waits for another one in a step
  /// The ranks of this engine: as many as ranks_per_engine(). Borrowed. nullptr: one rank.
  parallel::Communicator* ranks = nullptr;
  /// The ranks that share the layers of this rank's stage, if an engine has several stages.
  /// Borrowed.
  parallel::Communicator* tensor_ranks = nullptr;
  /// The engines among which experts are divided. Borrowed. nullptr: experts are not, or among the
  /// tensor ranks.
  parallel::Communicator* expert_engines = nullptr;
  /// The engines with the same model: as many as data_parallel_size, each represented by its rank
  /// 0. Borrowed. nullptr: one engine, or this is another rank than rank 0 of its engine.
  parallel::Communicator* replicas = nullptr;
  int32_t num_threads = 0;  // 0 = one per usable core
  /// On which CPUs workers run: auto (one on each core, node after node), nobind, or lists for the
  /// ranks ("0-31|32-63"); empty: one on each usable CPU.
  std::string cpu_threads_bind;
  std::string cpu_isa = "auto";  // scalar, avx2, avx512, avx512_vnni, avx512_bf16, amx
  /// Whether an answer has the same bits in any batch. Without it some kernels are faster. Nothing:
  /// it has where this costs nothing: not on a GPU, and not with packed weights on AMX.
  std::optional<bool> batch_invariant;

  [[nodiscard]] int32_t ranks_per_engine() const noexcept {
    return tensor_parallel_size * pipeline_parallel_size;
  }
  /// Whether experts are divided among engines. Then their steps contain exchanges.
  [[nodiscard]] bool shares_experts() const noexcept {
    return enable_expert_parallel && data_parallel_size > 1;
  }
  [[nodiscard]] bool is_in_lockstep() const noexcept {
    return data_parallel_lockstep || shares_experts();
  }
};

/// The values of --load-format and --scheduling-policy by their names. `option` is the name that a
/// message shows. \throws InvalidArgument that lists the known names
[[nodiscard]] LoadFormat parse_load_format(std::string_view option, std::string_view text);
[[nodiscard]] scheduler::SchedulingPolicy parse_scheduling_policy(std::string_view option,
                                                                  std::string_view text);

}  // namespace reprise::api
