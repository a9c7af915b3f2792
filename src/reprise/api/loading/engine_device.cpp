#include "reprise/api/loading/engine_device.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "reprise/api/loading/engine_ranks.h"
#include "reprise/api/options/attention_kernels.h"
#include "reprise/base/error.h"
#include "reprise/device/cpu/cpu_device.h"
#include "reprise/device/cpu/usable_cores.h"
#include "reprise/device/cpu/worker_placement.h"
#include "reprise/parallel/communicator.h"

namespace reprise::api {

namespace {

// The CPUs of --cpu-threads-bind; nothing: one worker on each usable CPU.
std::optional<device::WorkerPlacement> bound_workers(const EngineArgs& args,
                                                     std::vector<std::string>& warnings) {
  if (args.cpu_threads_bind.empty()) return std::nullopt;
  const std::optional<device::ThreadBinding> binding =
      device::parse_thread_binding(args.cpu_threads_bind);
  if (!binding) {
    throw InvalidArgument(fmt::format(
        "--cpu-threads-bind: '{}' is not auto, nobind, or lists of CPUs for the ranks (0-31|32-63)",
        args.cpu_threads_bind));
  }
  const device::CpuTopology topology = device::read_cpu_topology("/sys", device::usable_cores());
  if (!topology.remark.empty()) {
    warnings.push_back(
        fmt::format("--cpu-threads-bind: all CPUs count as one node: {}", topology.remark));
  }
  const int rank = args.ranks == nullptr ? 0 : args.ranks->rank();
  const int num_ranks = args.ranks == nullptr ? 1 : args.ranks->size();
  return device::place_workers(topology, *binding, args.num_threads, rank, num_ranks);
}

kernels::BatchInvariance invariance_of(const EngineArgs& args, const EngineDevice& device) {
  return is_batch_invariant(args, device) ? kernels::BatchInvariance::required
                                          : kernels::BatchInvariance::not_required;
}

}  // namespace

bool is_batch_invariant(const EngineArgs& args, const EngineDevice& device) noexcept {
  return args.batch_invariant.value_or(!device.is_gpu() &&
                                       !kernels::has_kernels_without_invariance(device.isa));
}

bool depends_on_batches(const EngineArgs& args,
                        const EngineDevice& device,
                        const models::Parameters& weights) {
  if (is_batch_invariant(args, device)) return false;
  return device.is_gpu() ||
         (kernels::has_kernels_without_invariance(device.isa) && weights.has_block_panels());
}

std::optional<compile::CodeGenerator> EngineDevice::code_generator() const {
  if (!is_gpu()) return compile::cpu_code_generator(isa);
  return compile::cuda_code_generator(code_target.architecture, *code_target.loader);
}

EngineDevice open_engine_device(const EngineArgs& args, kernels::Isa isa) {
  if (args.device != "auto" && args.device != "cpu" && args.device != "cuda") {
    throw InvalidArgument(
        fmt::format("--device: '{}' is not one of auto, cpu and cuda", args.device));
  }
  EngineDevice opened;
  opened.isa = isa;
  if (args.device != "cpu") {
    kernels::LoadedAccelerator loaded =
        kernels::load_cuda_plugin(kernels::default_cuda_plugin_paths());
    opened.accelerator = std::move(loaded.accelerator);
    if (!opened.is_gpu() && args.device == "cuda") {
      throw InvalidArgument(fmt::format("--device cuda: {}", loaded.reason));
    }
    // A build without the plug-in gives no warning on machines without a GPU.
    if (!opened.is_gpu() && (loaded.has_plugin || kernels::has_cuda_driver())) {
      opened.fallback_reason = fmt::format("running on the CPU, not on a GPU: {}", loaded.reason);
    }
  }
  const int gpu = args.device != "cpu" ? agree_on_gpu(args, opened) : 0;
  if (!opened.is_gpu()) {
    const std::optional<device::WorkerPlacement> placement = bound_workers(args, opened.warnings);
    opened.device =
        device::create_cpu_device({.num_threads = args.num_threads, .placement = placement});
    opened.execution = std::make_unique<runner::Execution>(
        *opened.device, kernels::kernel_table(isa, invariance_of(args, opened)));
    const auto num_cores = static_cast<int>(device::usable_cores().size());
    opened.num_workers =
        args.num_threads == 0 ? num_cores : std::min<int>(args.num_threads, num_cores);
    if (placement) opened.num_workers = static_cast<int>(placement->workers.size());
    return opened;
  }
  if (!args.cpu_threads_bind.empty()) {
    opened.warnings.emplace_back("--cpu-threads-bind has no effect: the device is a GPU");
  }
  kernels::Accelerator& accelerator = *opened.accelerator;
  opened.warnings.assign(accelerator.remarks().begin(), accelerator.remarks().end());
  opened.device = accelerator.create_device(
      {.device_index = gpu, .programmatic_launch = args.programmatic_dependent_launch});
  opened.code_target = accelerator.create_code_target(*opened.device);
  connect_gpus(args, opened);
  std::vector<kernels::DeviceRanks*> groups;
  for (const auto& group : opened.device_ranks) groups.push_back(group.get());
  opened.execution = std::make_unique<runner::Execution>(
      *opened.device,
      [&, invariance = invariance_of(args, opened)](device::Stream& stream,
                                                    device::MemoryPool& pool) {
        return accelerator.create_executor(
            stream,
            pool,
            {.invariance = invariance, .attention = attention_source(args), .ranks = groups});
      });
  return opened;
}

std::vector<std::string> warnings_of_invariance(const EngineArgs& args,
                                                const EngineDevice& device,
                                                const models::Parameters& weights) {
  if (device.is_gpu() || args.batch_invariant.value_or(true)) return {};
  std::string why;
  if (!kernels::has_kernels_without_invariance(device.isa)) {
    why = fmt::format("the kernels of {} have no faster products", kernels::isa_name(device.isa));
  } else if (!weights.has_block_panels()) {
    why = "the faster products are those of weights in blocks, and this model has none";
  } else {
    return {};
  }
  return {"--no-batch-invariant has no effect: " + why};
}

}  // namespace reprise::api
